// Values of the tensor exchange core: limits, requests, and the commands that the core issues.
// Thread: any (plain values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/messages/tensor_messages.h"

namespace mobula::internal::transfer {

using RegionPullId = std::uint64_t;  // 0: none
using TransferId = std::uint64_t;    // chosen by a receiver; never reused
using OperationId = std::uint64_t;   // one action of a transport in this process

struct RegionOptions {
  // memory reserved for pulls in progress
  std::uint64_t max_receive_bytes = std::uint64_t{1} << 30;
  std::size_t max_waiting = 65536;  // requests without reserved memory; more are rejected
  std::size_t max_serves = 32;      // active offers
  // active offers of one large object; other readers wait or are redirected to a replica
  std::size_t max_serves_of_object = 2;
  // The same for paths that share the network card of this machine. One is best if readers keep
  // replicas; without replicas, one slow reader would delay all others.
  std::size_t max_serves_over_network = 2;
  std::size_t max_serves_of_peer = 8;       // active offers to one reader; its other requests wait
  std::size_t max_waiting_of_peer = 16384;  // waiting requests of one reader; more are rejected
  // an offer that takes longer continues, but no longer counts against the limits
  Duration offer_quantum = 10s;
  std::uint64_t redirect_from_bytes = std::uint64_t{1} << 20;  // smallest large object
  // waiting requests of all readers, chunks counted separately
  std::size_t max_serves_waiting = 524288;
  std::uint64_t step_bytes = std::uint64_t{64} << 20;  // bytes per step of two-sided paths
  // bytes per chunk of a large tensor (`region_parts.h`); 0: never in chunks
  std::uint64_t chunk_bytes = std::uint64_t{8} << 20;
  // chunks requested from one holder at a time; the others queue in this process
  std::size_t max_pending_parts = 128;
  // active offers of one chunk; other readers are redirected to a replica or wait for one
  std::size_t max_serves_of_chunk = 1;
  // chunks among `max_serves_of_peer`; fewer at a time complete earlier and can be relayed
  std::size_t max_parts_of_peer = 3;
  Duration chunk_offer_quantum = 1s;  // `offer_quantum` of a chunk
  // known replicas of one chunk; no reader is redirected to further ones
  std::size_t max_copies_known = 64;
  Duration shim_timeout = 2s;   // to connect to a replica holder, and for its reply
  Duration shim_backoff = 30s;  // no redirect to a replica holder is followed after it failed
  std::size_t max_holders_backed_off = 1024;
  // for the reply of a holder; the request is repeated once before the holder is given up
  Duration answer_timeout = 10s;
  Duration step_timeout = 10s;      // from the local turn to the turn of the peer
  Duration progress_timeout = 10s;  // longest time without progress of a transport
  Duration lookup_backoff = 100ms;  // between two lookups of holders; doubles
  int lookups = 4;                  // unsuccessful lookups before a failure
  int failures_per_path = 2;        // per path and holder
  Duration idle_timeout = 60s;      // idle time before a connection or channel closes; 0: never
  std::size_t many_ties = 256;      // above this number of holders, connections close after:
  Duration part_after_of_many = 10s;
};

// Request for one tensor: the candidates for holder and path, and the receiving device.
struct TensorRequest {
  ObjectId object;
  std::uint64_t size_bytes = 0;
  std::vector<ProcessId> holders{};  // likely holders, best first; empty: they are looked up
  std::vector<DirectPath> paths{};   // order of attempts at each holder
  std::uint32_t device_ordinal = 0;  // receiving device ordinal; for two-sided paths
  std::uint32_t part = 0;            // chunk number, one-sided paths only; 0: the whole tensor
  bool keeps = false;                // this process offers the chunk to others until `retire`
};

// ---- commands -----------------------------------------------------------------------------------

struct SendRegions {
  ProcessId to;
  RegionMessage message;
};
// Make the bytes accessible to `peer` over `path`, then call `exported`. They are inaccessible
// after a failure and after `Unexport`.
struct OfferTensor {
  OperationId operation = 0;
  ObjectId object;
  DirectPath path = DirectPath::shm;
  ProcessId peer;
  std::uint32_t peer_ordinal = 0;  // device ordinal of the receiver
  std::uint32_t part = 0;          // chunk number; 0: the whole object
};
// End the access of the peer, then call `ended`.
struct WithdrawOffer {
  OperationId operation = 0;
};
// One-sided path: pull the bytes. Call `progressed` during the transfer and `ended` at its end.
struct PullChunk {
  OperationId operation = 0;
  RegionPullId pull = 0;
  DirectPath path = DirectPath::shm;
  ProcessId holder;
  std::string ticket;
  std::uint32_t peer_ordinal = 0;  // device ordinal of the holder
};
// Two-sided path: issue the local half of a step now; the peer issues the other half. Then call
// `ended`.
struct IssueStep {
  OperationId operation = 0;
  RegionPullId pull = 0;  // pull of the receiving side; 0: this side sends
  ObjectId object;
  DirectPath path = DirectPath::nccl;
  ProcessId peer;
  std::uint64_t epoch = 0;  // epoch of the channel
  std::uint32_t device_ordinal = 0, peer_ordinal = 0;
  bool opens = false;  // true: open the channel; false: move the bytes below
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};
// Stop the operation. `ended` still follows when the transport no longer accesses its memory.
struct Cancel {
  OperationId operation = 0;
};
// Destroy the state of a two-sided channel below `epoch`.
struct DropChannel {
  ProcessId peer;
  DirectPath path = DirectPath::nccl;
  std::uint32_t device_ordinal = 0, peer_ordinal = 0;
  std::uint64_t epoch = 0;
};
// Free the bytes: no process needs them or can access them.
struct FreeRegions {
  ObjectId object;
};
// Copy the bytes to the node's object store, then call `stored`.
struct StoreRegions {
  ObjectId object;
};
// Look up the holders of the object, then call `located`.
struct ResolveHolder {
  ObjectId object;
  ProcessId disconnected{};  // holder whose connection broke last; empty: none did
};
// Connect to a reported replica holder and determine the usable paths, then call `reached`.
struct Reach {
  RegionPullId pull = 0;
  ProcessId replica_holder;
};
// Close the idle connection from this holder, which has agreed. `again`: a new request for this
// holder follows immediately.
struct Part {
  ProcessId holder;
  bool again = false;
};
struct RegionsHere {};     // in the memory that the last operation wrote
struct RegionsInStore {};  // in the node's object store only
using RegionOutcome = std::variant<RegionsHere, RegionsInStore, Failure>;
// One attempt, or the reason why a path was not attempted.
struct RegionAttempt {
  ProcessId holder;
  DirectPath path = DirectPath::shm;
  std::string refusal;  // empty: the attempt succeeded
};
struct PullEnded {
  RegionPullId pull = 0;
  RegionOutcome outcome;
  std::vector<RegionAttempt> attempts;
  Duration queued{};  // time before the pull started
  Duration moved{};   // duration of the last operation
};
// The claim has the turn of its device until `return_turn`.
struct TurnTaken {
  std::uint64_t claim = 0;
};
using RegionCommand =
    std::variant<SendRegions, OfferTensor, WithdrawOffer, PullChunk, IssueStep, Cancel, DropChannel,
                 FreeRegions, StoreRegions, ResolveHolder, Reach, Part, PullEnded, TurnTaken>;

// Reply to `ResolveHolder`.
struct RegionsLocated {
  std::vector<ProcessId> holders;  // best first
  bool in_store = false;
  bool lost = false;  // permanently
};

}  // namespace mobula::internal::transfer
