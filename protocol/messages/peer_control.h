// Messages between worker agents about the holders and locations of objects. Sequenced per pair of
// incarnations.
// Thread: owner (plain values).
// Not: the bytes of objects, which use the bulk path. The position in a variant is the wire number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/model/task.h"
#include "protocol/codec/wire.h"

namespace mobula::internal {

// Producer's agent to the home: a result of `owner` is sealed at the producer and held for the
// home. Answered by ResultTaken.
struct ResultStored {
  ObjectId object;
  JobId job;
  ProcessId owner;
  std::int64_t size_bytes = 0;
  bool is_error = false;
  RefRecords contained;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("object", &ResultStored::object), field("job", &ResultStored::job),
        field("owner", &ResultStored::owner), field("size_bytes", &ResultStored::size_bytes),
        field("is_error", &ResultStored::is_error), field("contained", &ResultStored::contained));
  }
  friend bool operator==(const ResultStored&, const ResultStored&) = default;
};

// If `wanted` is false, the owner is dead and the agent of the producer drops its replica.
struct ResultTaken {
  ObjectId object;
  bool wanted = true;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ResultTaken::object), field("wanted", &ResultTaken::wanted));
  }
  friend bool operator==(const ResultTaken&, const ResultTaken&) = default;
};

// A process of the sender's node holds the object. Answered by NodeHoldConfirmed.
struct NodeHold {
  ObjectId object;
  JobId job;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &NodeHold::object), field("job", &NodeHold::job));
  }
  friend bool operator==(const NodeHold&, const NodeHold&) = default;
};

struct NodeHoldConfirmed {
  ObjectId object;
  bool known = true;  // false: the home does not know the object, or no longer knows it
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &NodeHoldConfirmed::object),
                 field("known", &NodeHoldConfirmed::known));
  }
  friend bool operator==(const NodeHoldConfirmed&, const NodeHoldConfirmed&) = default;
};

struct NodeRelease {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &NodeRelease::object));
  }
  friend bool operator==(const NodeRelease&, const NodeRelease&) = default;
};

// Requests the location of an object, now or once it exists. Answered by ObjectStatus when the
// object is ready or lost. The home omits the nodes in `unread`, because the sender failed to read
// from them.
struct AskObject {
  ObjectId object;
  std::vector<NodeId> unread{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &AskObject::object), field("unread", &AskObject::unread));
  }
  friend bool operator==(const AskObject&, const AskObject&) = default;
};

struct ObjectStatus {
  ObjectId object;
  std::int64_t size_bytes = 0;
  bool is_error = false;
  RefRecords contained;
  std::vector<NodeId> locations;  // nodes that have the bytes; empty with `failure`
  std::optional<Failure> failure;
  std::vector<NodeId> fetching;  // nodes that are still pulling the bytes, the latest first
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("object", &ObjectStatus::object), field("size_bytes", &ObjectStatus::size_bytes),
        field("is_error", &ObjectStatus::is_error), field("contained", &ObjectStatus::contained),
        field("locations", &ObjectStatus::locations), field("failure", &ObjectStatus::failure),
        field("fetching", &ObjectStatus::fetching));
  }
  friend bool operator==(const ObjectStatus&, const ObjectStatus&) = default;
};

// Requests permission to read the bytes over the bulk path. Answered by PullReady; the permission
// stays valid until PullOver.
struct PullRequest {
  std::uint64_t pull = 0;  // chosen by the sender, unique to this request
  ObjectId object;  // empty: `file` names a program file
  Hash128 file;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullRequest::pull), field("object", &PullRequest::object),
                 field("file", &PullRequest::file));
  }
  friend bool operator==(const PullRequest&, const PullRequest&) = default;
};

// Bulk requests name `offer` on connections that begin with `token`. An agent that is still pulling
// the object offers the chunks that it has and announces more with ChunksThere. A second PullReady
// with a failure withdraws the offer.
struct PullReady {
  std::uint64_t pull = 0;
  std::int64_t size_bytes = 0;
  std::string token;  // 32 bytes, the first bytes on a bulk connection
  std::string key;  // 32 bytes, AES-256-GCM; empty: plain bytes on a trusted fabric
  std::optional<Failure> failure;
  std::uint64_t offer = 0;
  bool partial = false;
  std::vector<std::uint32_t> chunks;  // partial: indices of the available chunks
  std::uint64_t chunk_bytes = 0;  // partial: length of every chunk except the last
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullReady::pull), field("size_bytes", &PullReady::size_bytes),
                 field("token", &PullReady::token), field("key", &PullReady::key),
                 field("failure", &PullReady::failure), field("offer", &PullReady::offer),
                 field("partial", &PullReady::partial), field("chunks", &PullReady::chunks),
                 field("chunk_bytes", &PullReady::chunk_bytes));
  }
  friend bool operator==(const PullReady&, const PullReady&) = default;
};

// To the home: the replica of the sender is lost, as if its node had died.
struct CopyLost {
  ObjectId object;
  std::string cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &CopyLost::object), field("cause", &CopyLost::cause));
  }
  friend bool operator==(const CopyLost&, const CopyLost&) = default;
};

// To a reader of a partial offer: further chunks that can be read now.
struct ChunksThere {
  std::uint64_t pull = 0;
  std::vector<std::uint32_t> chunks;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &ChunksThere::pull), field("chunks", &ChunksThere::chunks));
  }
  friend bool operator==(const ChunksThere&, const ChunksThere&) = default;
};

// The reader has stopped reading and discards bytes that are still in transit.
struct PullOver {
  std::uint64_t pull = 0;
  ObjectId object;  // object of the request
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullOver::pull), field("object", &PullOver::object));
  }
  friend bool operator==(const PullOver&, const PullOver&) = default;
};

// To the home: the sender has a replica with its own hold, until CopyLost or NodeRelease.
struct CopyMade {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &CopyMade::object));
  }
  friend bool operator==(const CopyMade&, const CopyMade&) = default;
};

using PeerMessage =
    std::variant<ResultStored, ResultTaken, NodeHold, NodeHoldConfirmed, NodeRelease, AskObject,
                 ObjectStatus, PullRequest, PullReady, CopyLost, ChunksThere, PullOver, CopyMade>;

struct PeerFrame {
  ProcessId from;  // agent incarnation; a frame for another incarnation is rejected
  ProcessId to;
  Frame<PeerMessage> frame;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("from", &PeerFrame::from), field("to", &PeerFrame::to),
                 field("frame", &PeerFrame::frame));
  }
  friend bool operator==(const PeerFrame&, const PeerFrame&) = default;
};

}  // namespace mobula::internal
