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

#include "base/model/task.h"
#include "base/result.h"
#include "protocol/codec/wire.h"

namespace mobula::internal {

// Producer's agent to the home: a result of `owner` is sealed at the producer and held for the
// home. Answered by StoreResultReply.
struct StoreResultRequest {
  ObjectId object;
  JobId job;
  ProcessId owner;
  std::int64_t size_bytes = 0;
  bool is_error = false;
  RefRecords contained;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &StoreResultRequest::object),
                 field("job", &StoreResultRequest::job), field("owner", &StoreResultRequest::owner),
                 field("size_bytes", &StoreResultRequest::size_bytes),
                 field("is_error", &StoreResultRequest::is_error),
                 field("contained", &StoreResultRequest::contained));
  }
  friend bool operator==(const StoreResultRequest&, const StoreResultRequest&) = default;
};

// If `wanted` is false, the owner is dead and the agent of the producer drops its replica.
struct StoreResultReply {
  ObjectId object;
  bool wanted = true;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &StoreResultReply::object),
                 field("wanted", &StoreResultReply::wanted));
  }
  friend bool operator==(const StoreResultReply&, const StoreResultReply&) = default;
};

// A process of the sender's node holds the object. Answered by NodeHoldReply.
struct NodeHoldRequest {
  ObjectId object;
  JobId job;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &NodeHoldRequest::object), field("job", &NodeHoldRequest::job));
  }
  friend bool operator==(const NodeHoldRequest&, const NodeHoldRequest&) = default;
};

struct NodeHoldReply {
  ObjectId object;
  bool known = true;  // false: the home does not know the object, or no longer knows it
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &NodeHoldReply::object), field("known", &NodeHoldReply::known));
  }
  friend bool operator==(const NodeHoldReply&, const NodeHoldReply&) = default;
};

struct NodeRelease {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &NodeRelease::object));
  }
  friend bool operator==(const NodeRelease&, const NodeRelease&) = default;
};

// Requests the location of an object, now or once it exists. Answered by ObjectStatusReply when the
// object is ready or lost. The home omits the nodes in `unread`, because the sender failed to read
// from them.
struct ObjectStatusRequest {
  ObjectId object;
  std::vector<NodeId> unread{};
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ObjectStatusRequest::object),
                 field("unread", &ObjectStatusRequest::unread));
  }
  friend bool operator==(const ObjectStatusRequest&, const ObjectStatusRequest&) = default;
};

struct ObjectStatusReply {
  ObjectId object;
  std::int64_t size_bytes = 0;
  bool is_error = false;
  RefRecords contained;
  std::vector<NodeId> locations;  // nodes that have the bytes; empty with `failure`
  std::optional<Failure> failure;
  std::vector<NodeId> fetching;  // nodes that are still pulling the bytes, the latest first
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ObjectStatusReply::object),
                 field("size_bytes", &ObjectStatusReply::size_bytes),
                 field("is_error", &ObjectStatusReply::is_error),
                 field("contained", &ObjectStatusReply::contained),
                 field("locations", &ObjectStatusReply::locations),
                 field("failure", &ObjectStatusReply::failure),
                 field("fetching", &ObjectStatusReply::fetching));
  }
  friend bool operator==(const ObjectStatusReply&, const ObjectStatusReply&) = default;
};

// Requests permission to read the bytes over the bulk path. Answered by PullReply; the permission
// stays valid until PullComplete.
struct PullRequest {
  std::uint64_t pull = 0;  // chosen by the sender, unique to this request
  ObjectId object;         // empty: `file` names a program file
  Hash128 file;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullRequest::pull), field("object", &PullRequest::object),
                 field("file", &PullRequest::file));
  }
  friend bool operator==(const PullRequest&, const PullRequest&) = default;
};

// Bulk requests name `offer` on connections that begin with `token`. An agent that is still pulling
// the object offers the chunks that it has and announces more with ChunksAvailable. A second PullReply
// with a failure withdraws the offer.
struct PullReply {
  std::uint64_t pull = 0;
  std::int64_t size_bytes = 0;
  std::string token;  // 32 bytes, the first bytes on a bulk connection
  std::string key;    // 32 bytes, AES-256-GCM; empty: plain bytes on a trusted fabric
  std::optional<Failure> failure;
  std::uint64_t offer = 0;
  bool partial = false;
  std::vector<std::uint32_t> chunks;  // partial: indices of the available chunks
  std::uint64_t chunk_bytes = 0;      // partial: length of every chunk except the last
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullReply::pull), field("size_bytes", &PullReply::size_bytes),
                 field("token", &PullReply::token), field("key", &PullReply::key),
                 field("failure", &PullReply::failure), field("offer", &PullReply::offer),
                 field("partial", &PullReply::partial), field("chunks", &PullReply::chunks),
                 field("chunk_bytes", &PullReply::chunk_bytes));
  }
  friend bool operator==(const PullReply&, const PullReply&) = default;
};

// To the home: the replica of the sender is lost, as if its node had died.
struct ReplicaLost {
  ObjectId object;
  std::string cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ReplicaLost::object), field("cause", &ReplicaLost::cause));
  }
  friend bool operator==(const ReplicaLost&, const ReplicaLost&) = default;
};

// To a reader of a partial offer: further chunks that can be read now.
struct ChunksAvailable {
  std::uint64_t pull = 0;
  std::vector<std::uint32_t> chunks;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &ChunksAvailable::pull), field("chunks", &ChunksAvailable::chunks));
  }
  friend bool operator==(const ChunksAvailable&, const ChunksAvailable&) = default;
};

// The reader has stopped reading and discards bytes that are still in transit.
struct PullComplete {
  std::uint64_t pull = 0;
  ObjectId object;  // object of the request
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &PullComplete::pull), field("object", &PullComplete::object));
  }
  friend bool operator==(const PullComplete&, const PullComplete&) = default;
};

// To the home: the sender has a replica with its own hold, until ReplicaLost or NodeRelease.
struct ReplicaAdded {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ReplicaAdded::object));
  }
  friend bool operator==(const ReplicaAdded&, const ReplicaAdded&) = default;
};

using PeerMessage =
    std::variant<StoreResultRequest, StoreResultReply, NodeHoldRequest, NodeHoldReply, NodeRelease,
                 ObjectStatusRequest, ObjectStatusReply, PullRequest, PullReply, ReplicaLost,
                 ChunksAvailable, PullComplete, ReplicaAdded>;

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
