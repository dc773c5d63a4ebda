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
  MOBULA_FIELDS(object, job, owner, size_bytes, is_error, contained);
  friend bool operator==(const StoreResultRequest&, const StoreResultRequest&) = default;
};

// If `wanted` is false, the owner is dead and the agent of the producer drops its replica.
struct StoreResultReply {
  ObjectId object;
  bool wanted = true;
  MOBULA_FIELDS(object, wanted);
  friend bool operator==(const StoreResultReply&, const StoreResultReply&) = default;
};

// A process of the sender's node holds the object. Answered by NodeHoldReply.
struct NodeHoldRequest {
  ObjectId object;
  JobId job;
  MOBULA_FIELDS(object, job);
  friend bool operator==(const NodeHoldRequest&, const NodeHoldRequest&) = default;
};

struct NodeHoldReply {
  ObjectId object;
  bool known = true;  // false: the home does not know the object, or no longer knows it
  MOBULA_FIELDS(object, known);
  friend bool operator==(const NodeHoldReply&, const NodeHoldReply&) = default;
};

struct NodeRelease {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const NodeRelease&, const NodeRelease&) = default;
};

// Requests the location of an object, now or once it exists. Answered by ObjectStatusReply when the
// object is ready or lost. The home omits the nodes in `unread`, because the sender failed to read
// from them.
struct ObjectStatusRequest {
  ObjectId object;
  std::vector<NodeId> unread{};
  MOBULA_FIELDS(object, unread);
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
  MOBULA_FIELDS(object, size_bytes, is_error, contained, locations, failure, fetching);
  friend bool operator==(const ObjectStatusReply&, const ObjectStatusReply&) = default;
};

// Requests permission to read the bytes over the bulk path. Answered by PullReply; the permission
// stays valid until PullComplete.
struct PullRequest {
  std::uint64_t pull = 0;  // chosen by the sender, unique to this request
  ObjectId object;         // empty: `file` names a program file
  Hash128 file;
  MOBULA_FIELDS(pull, object, file);
  friend bool operator==(const PullRequest&, const PullRequest&) = default;
};

// Bulk requests name `offer` on connections that begin with `token`. An agent that is still pulling
// the object offers the chunks that it has and announces more with ChunksAvailable. A second
// PullReply with a failure withdraws the offer.
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
  MOBULA_FIELDS(pull, size_bytes, token, key, failure, offer, partial, chunks, chunk_bytes);
  friend bool operator==(const PullReply&, const PullReply&) = default;
};

// To the home: the replica of the sender is lost, as if its node had died.
struct ReplicaLost {
  ObjectId object;
  std::string cause;
  MOBULA_FIELDS(object, cause);
  friend bool operator==(const ReplicaLost&, const ReplicaLost&) = default;
};

// To a reader of a partial offer: further chunks that can be read now.
struct ChunksAvailable {
  std::uint64_t pull = 0;
  std::vector<std::uint32_t> chunks;
  MOBULA_FIELDS(pull, chunks);
  friend bool operator==(const ChunksAvailable&, const ChunksAvailable&) = default;
};

// The reader has stopped reading and discards bytes that are still in transit.
struct PullComplete {
  std::uint64_t pull = 0;
  ObjectId object;  // object of the request
  MOBULA_FIELDS(pull, object);
  friend bool operator==(const PullComplete&, const PullComplete&) = default;
};

// To the home: the sender has a replica with its own hold, until ReplicaLost or NodeRelease.
struct ReplicaAdded {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const ReplicaAdded&, const ReplicaAdded&) = default;
};

// To the home of a stream: the slowest process of the sender's node that reads it has taken `taken`
// items. 0: no process there reads it. Sent only to agents that accept it (AgentAddress).
struct NodeReaderMoved {
  ObjectId stream;  // first position
  ProcessId owner;
  std::uint64_t taken = 0;
  MOBULA_FIELDS(stream, owner, taken);
  friend bool operator==(const NodeReaderMoved&, const NodeReaderMoved&) = default;
};

using PeerMessage =
    std::variant<StoreResultRequest, StoreResultReply, NodeHoldRequest, NodeHoldReply, NodeRelease,
                 ObjectStatusRequest, ObjectStatusReply, PullRequest, PullReply, ReplicaLost,
                 ChunksAvailable, PullComplete, ReplicaAdded, NodeReaderMoved>;

struct PeerFrame {
  ProcessId from;  // agent incarnation; a frame for another incarnation is rejected
  ProcessId to;
  Frame<PeerMessage> frame;
  MOBULA_FIELDS(from, to, frame);
  friend bool operator==(const PeerFrame&, const PeerFrame&) = default;
};

}  // namespace mobula::internal
