// Between worker agents: who holds which object where. Sequenced per pair of incarnations; the
// bytes themselves go over the bulk path. Plain structs; alternatives are wire numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/task.h"
#include "protocol/wire.h"

namespace mobula::internal {

// Producer's agent to home agent: a result of `owner` is sealed here and held for you.
// Answered by ResultTaken.
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

// `wanted` false: the owner is gone; the producer's agent drops its copy.
struct ResultTaken {
  ObjectId object;
  bool wanted = true;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ResultTaken::object), field("wanted", &ResultTaken::wanted));
  }
  friend bool operator==(const ResultTaken&, const ResultTaken&) = default;
};

// Some process of the sender's node holds the object. Answered by NodeHoldConfirmed.
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
  bool known = true;  // false: the home does not know the object (any more)
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

// Where is it, and tell me when it exists. Answered by ObjectStatus once it is ready or lost. The home
// does not name the nodes in `unread`: the asker failed to read from them.
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
  std::vector<NodeId> fetching;  // nodes that are bringing them to themselves, the latest first
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

// May I read these bytes over the bulk path? Answered by PullReady; the leave stands until PullOver.
struct PullRequest {
  std::uint64_t pull = 0;  // chosen by the asker, for this question alone
  ObjectId object;         // or, for a program file:
  Hash128 file;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullRequest::pull), field("object", &PullRequest::object),
                 field("file", &PullRequest::file));
  }
  friend bool operator==(const PullRequest&, const PullRequest&) = default;
};

// `offer` is named in requests over connections that begin with `token`. Who is still bringing the
// object to itself offers the chunks that it has, and tells of more with ChunksThere. A failure in
// a second answer ends the leave.
struct PullReady {
  std::uint64_t pull = 0;
  std::int64_t size_bytes = 0;
  std::string token;  // 32 bytes: first bytes on a bulk connection
  std::string key;    // 32 bytes, AES-256-GCM; empty: plain on a trusted fabric
  std::optional<Failure> failure;
  std::uint64_t offer = 0;
  bool partial = false;
  std::vector<std::uint32_t> chunks;  // partial: which of them are there
  std::uint64_t chunk_bytes = 0;      // partial: the length of all but the last
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

// To the home: the sender's bytes of the object are lost, as if its node had been.
struct CopyLost {
  ObjectId object;
  std::string cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &CopyLost::object), field("cause", &CopyLost::cause));
  }
  friend bool operator==(const CopyLost&, const CopyLost&) = default;
};

// To who reads from the sender while it is still fetching: these can be read now, too.
struct ChunksThere {
  std::uint64_t pull = 0;
  std::vector<std::uint32_t> chunks;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &ChunksThere::pull), field("chunks", &ChunksThere::chunks));
  }
  friend bool operator==(const ChunksThere&, const ChunksThere&) = default;
};

// The asker reads no more, and will not use what may still be on its way to it.
struct PullOver {
  std::uint64_t pull = 0;
  ObjectId object;  // as asked for
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullOver::pull), field("object", &PullOver::object));
  }
  friend bool operator==(const PullOver&, const PullOver&) = default;
};

// To the home: the sender has a copy by a hold of its own, until CopyLost or NodeRelease.
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
  ProcessId from;  // agent incarnations; a frame for another one is refused
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
