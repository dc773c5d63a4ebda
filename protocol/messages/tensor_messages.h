// Messages between two processes about tensors that one of them pulls from the other. Delivery is
// in order and complete, or the peer is reported lost. The receiver numbers transfers and never
// reuses a number; a retry is a new transfer.
// Thread: owner (plain values).
// Not: order on the wire. The position in a variant is the wire number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/direct_path.h"
#include "base/model/jobs/principal.h"
#include "protocol/codec/wire.h"

namespace mobula::internal {

// Receiver to holder: requests the bytes over this path. A repeated request checks that the holder
// still knows the transfer. Answered by PullTensorReply, PullTensorQueued, or PullTensorRejected.
// On a two-sided path, TwoSidedSteps follow.
struct PullTensorRequest {
  std::uint64_t transfer = 0;
  ObjectId object;
  DirectPath path = DirectPath::shm;
  std::uint64_t size_bytes = 0;      // size of all regions in total
  std::uint32_t device_ordinal = 0;  // two-sided: device ordinal of the receiver
  bool may_redirect = true;  // the holder may redirect to peers with a replica; for chunks only
  // number of the chunk in the division of the holder, from 1; 0: the whole tensor
  std::uint32_t part = 0;
  MOBULA_FIELDS(transfer, object, path, size_bytes, device_ordinal, may_redirect, part);
  friend bool operator==(const PullTensorRequest&, const PullTensorRequest&) = default;
};

// The holder pins the bytes until PullTensorComplete or PullTensorCancelled. `ticket` is the offer
// handle that gives access to them.
struct PullTensorReply {
  std::uint64_t transfer = 0;
  std::string ticket;
  std::uint32_t device_ordinal = 0;  // two-sided: device ordinal of the holder
  std::uint64_t epoch = 0;  // two-sided: epoch of the channel between the two devices at the holder
  MOBULA_FIELDS(transfer, ticket, device_ordinal, epoch);
  friend bool operator==(const PullTensorReply&, const PullTensorReply&) = default;
};

// The transfer is queued, or waits for its producer.
struct PullTensorQueued {
  std::uint64_t transfer = 0;
  MOBULA_FIELDS(transfer);
  friend bool operator==(const PullTensorQueued&, const PullTensorQueued&) = default;
};

enum class RegionRefusal : std::uint8_t {
  gone = 1,        // not at this holder, or no longer there
  stored = 2,      // now in the object store of the holder's node
  redirected = 3,  // busy: `others` have replicas
  no_path = 4,     // not available over this path
  wrong_size = 5,
  too_many = 6,  // wait
  failed = 7,    // failure at the holder, which has the bytes
};
std::string_view to_string(RegionRefusal why);

// Rejects a pull. It may follow PullTensorReply if the holder fails. Then the received bytes are
// invalid, and the receiver sends PullTensorCancelled once it no longer accesses them.
struct PullTensorRejected {
  std::uint64_t transfer = 0;
  RegionRefusal why = RegionRefusal::gone;
  std::string text;
  std::uint64_t epoch = 0;  // two-sided, after PullTensorReply: new epoch of the channel
  std::vector<ProcessId> others;
  std::vector<Endpoint> where;  // endpoints of `others`
  MOBULA_FIELDS(transfer, why, text, epoch, others, where);
  friend bool operator==(const PullTensorRejected&, const PullTensorRejected&) = default;
};

// All bytes have arrived. `keeps`: the receiver keeps the chunk, and the holder may redirect other
// receivers to it until ReplicaEvicted.
struct PullTensorComplete {
  std::uint64_t transfer = 0;
  bool keeps = false;
  MOBULA_FIELDS(transfer, keeps);
  friend bool operator==(const PullTensorComplete&, const PullTensorComplete&) = default;
};

// The receiver cancels the transfer and no longer reads or writes for it.
struct PullTensorCancelled {
  std::uint64_t transfer = 0;
  std::uint64_t epoch = 0;  // two-sided: new epoch of the channel; older operations are invalid
  MOBULA_FIELDS(transfer, epoch);
  friend bool operator==(const PullTensorCancelled&, const PullTensorCancelled&) = default;
};

// One operation that both sides issue: the opening of the channel, or a chunk. The process with the
// lower id takes the turn of its device first, then the other one.
struct TwoSidedStep {
  enum class Phase : std::uint8_t {
    wanted = 1,       // receiver to a holder with the lower id
    lower_ready = 2,  // the lower process has its turn
    go = 3,           // the higher process has its turn and has issued
  };
  std::uint64_t transfer = 0;
  std::uint32_t step = 0;  // from 0
  Phase phase = Phase::wanted;
  bool opens = false;  // decision of the receiver: the step opens the channel
  bool from_receiver = false;
  std::uint64_t epoch = 0;
  MOBULA_FIELDS(transfer, step, phase, opens, from_receiver, epoch);
  friend bool operator==(const TwoSidedStep&, const TwoSidedStep&) = default;
};

// The sender evicted its replica and keeps no chunk of it.
struct ReplicaEvicted {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const ReplicaEvicted&, const ReplicaEvicted&) = default;
};

// Receiver to holder: the connection has been idle and may be closed. The receiver sends nothing
// more over it until CloseConnectionReply.
struct CloseConnectionRequest {
  std::uint64_t round = 0;  // number of the close request of this receiver
  MOBULA_FIELDS(round);
  friend bool operator==(const CloseConnectionRequest&, const CloseConnectionRequest&) = default;
};

// The last message on the connection. The receiver closes it and opens a new one for its next pull.
struct CloseConnectionReply {
  std::uint64_t round = 0;
  MOBULA_FIELDS(round);
  friend bool operator==(const CloseConnectionReply&, const CloseConnectionReply&) = default;
};

// Availability of one path in a process, for its peers in the exchange of tensors.
struct RegionPath {
  DirectPath path = DirectPath::shm;
  std::string why_not;               // reason that the path is unavailable; empty: available
  std::string version;               // must be equal on both sides; empty: any
  std::uint32_t device_ordinal = 0;  // device ordinal of the process, for device memory
  std::vector<std::byte> endpoint;   // endpoint of the transport of the path, opaque to others
  MOBULA_FIELDS(path, why_not, version, device_ordinal, endpoint);
  friend bool operator==(const RegionPath&, const RegionPath&) = default;
};
// First message of the accepting side of a connection, before any RegionMessage.
struct TransportCapabilities {
  std::string machine;  // identity that processes with shared memory have in common
  // trusted network of its node: bytes may be plain if both sides name the same one
  std::string fabric;
  // UUIDs by device ordinal; empty: a device that the process does not have
  std::vector<std::string> devices;
  std::vector<RegionPath> paths;
  // Chunk size for large tensors. The process serves chunks of tensors that it has or received to
  // peers with the same chunk size. 0: it serves no chunks.
  std::uint64_t chunk_bytes = 0;
  Endpoint self;                 // endpoint for pulls of retained replicas; empty: none
  bool supports_close = false;   // it answers CloseConnectionRequest
  bool nccl_shares_gpu = false;  // its NCCL accepts another rank on its GPU
  MOBULA_FIELDS(machine, fabric, devices, paths, chunk_bytes, self, supports_close,
                nccl_shares_gpu);
  friend bool operator==(const TransportCapabilities&, const TransportCapabilities&) = default;
};

using RegionMessage =
    std::variant<PullTensorRequest, PullTensorReply, PullTensorQueued, PullTensorRejected,
                 PullTensorComplete, PullTensorCancelled, TwoSidedStep, ReplicaEvicted,
                 CloseConnectionRequest, CloseConnectionReply>;

// Rejects a connection. The peer is notified immediately, because it cannot see over a network why
// no reply arrives.
struct ConnectionRejected {
  std::string why;
  MOBULA_FIELDS(why);
  friend bool operator==(const ConnectionRejected&, const ConnectionRejected&) = default;
};

// A frame of such a connection. Each side first sends PeerHello and then its TransportCapabilities,
// the connecting side first. The connecting side is the receiver of every transfer on the
// connection.
struct TensorFrame {
  RegionMessage message;
  MOBULA_FIELDS(message);
  friend bool operator==(const TensorFrame&, const TensorFrame&) = default;
};
using RegionLinkMessage =
    std::variant<PeerHello, TransportCapabilities, TensorFrame, ConnectionRejected>;

}  // namespace mobula::internal
