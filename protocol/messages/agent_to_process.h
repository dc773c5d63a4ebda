// Messages from an agent to a process (driver or executor) on its machine.
// Thread: owner (plain values).
// Not: order on the wire. The position in a variant is the wire number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/model/node_shape.h"
#include "base/model/task.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/codec/wire.h"
#include "protocol/messages/facts/leased_gpu.h"
#include "protocol/messages/process_control.h"
#include "protocol/messages/process_to_agent.h"
#include "protocol/messages/ring_messages.h"
#include "protocol/messages/slot_messages.h"
#include "protocol/messages/unpin.h"

namespace mobula::internal {

// Answers AttachDriver.
struct DriverAttached {
  NodeId node;
  ProcessId agent;     // incarnation of the agent
  std::string ticket;  // shown to peers
  std::string head_signing_key;
  std::string cluster_name;
  // host on which the bus of the process listens for peers on other nodes; empty: no listener
  std::string bind_host;
  std::string fabric;  // trusted network of the node; empty: none
  MOBULA_FIELDS(node, agent, ticket, head_signing_key, cluster_name, bind_host, fabric);
  friend bool operator==(const DriverAttached&, const DriverAttached&) = default;
};

// To a process that will become an executor, before its slot is known: it opens its sockets. No
// code of a job runs in it before the assignment.
struct PrepareExecutor {
  // key of its bus, created by the agent so that a ticket can name it
  std::string curve_public_key;
  std::string curve_secret_key;
  std::string local_endpoint;  // ipc path of the listener for peers on this node
  std::string bind_host;       // as in DriverAttached
  MOBULA_FIELDS(curve_public_key, curve_secret_key, local_endpoint, bind_host);
  friend bool operator==(const PrepareExecutor&, const PrepareExecutor&) = default;
};

// Identity and allocation of an executor; the first message to it, or the second after
// PrepareExecutor. The device masks are in its environment.
struct AssignExecutor {
  ProcessId process;
  NodeId node;
  SlotId slot;
  std::uint32_t generation = 0;
  DemandClass demand_class;
  Allocation allocation;
  // device names as user code sees them
  std::map<std::string, std::vector<std::string>> resource_ids;
  ProcessId lessee;               // task slot: the only caller
  ActorSpec actor;                // actor slot
  std::uint32_t incarnation = 0;  // incarnation of the actor
  std::string name_space;
  std::string ticket;
  std::string head_signing_key;
  Duration cpu_release_delay{};
  std::uint64_t seed = 0;
  Environment accelerator_env;
  std::string fabric;           // as in DriverAttached
  std::vector<LeasedGpu> gpus;  // in the order in which the process sees them
  MOBULA_FIELDS(process, node, slot, generation, demand_class, allocation, resource_ids, lessee,
                actor, incarnation, name_space, ticket, head_signing_key, cpu_release_delay, seed,
                accelerator_env, fabric, gpus);
  friend bool operator==(const AssignExecutor&, const AssignExecutor&) = default;
};

struct FromHead {
  HeadToProcess message;
  MOBULA_FIELDS(message);
  friend bool operator==(const FromHead&, const FromHead&) = default;
};

// If `new_slab` is set, the frame carries the file descriptor of the slab, which the process maps
// writable once. The slab is sealed after that.
struct ReserveObjectReply {
  ObjectId object;
  SlabRange location;
  bool new_slab = false;
  std::int64_t slab_bytes = 0;
  // resource_exhausted: the store is full; already_exists: the object is sealed
  std::optional<Failure> failure;
  MOBULA_FIELDS(object, location, new_slab, slab_bytes, failure);
  friend bool operator==(const ReserveObjectReply&, const ReserveObjectReply&) = default;
};

struct SealObjectReply {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const SealObjectReply&, const SealObjectReply&) = default;
};

struct HoldObjectReply {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const HoldObjectReply&, const HoldObjectReply&) = default;
};

// The bytes are readable on this node, or `failure` states that they never will be. With
// `new_slab`, the frame carries the file descriptor of the slab. The bytes do not move until the
// process releases the object or returns the location.
struct FetchObjectReply {
  ObjectId object;
  SlabRange location;
  bool new_slab = false;
  std::int64_t slab_bytes = 0;
  bool is_error = false;
  RefRecords contained;
  // unavailable: lost, with its cause; resource_exhausted: no space in the store
  std::optional<Failure> failure;
  std::uint64_t fetch = 0;  // number of the FetchObjectRequest that this answers
  MOBULA_FIELDS(object, location, new_slab, slab_bytes, is_error, contained, failure, fetch);
  friend bool operator==(const FetchObjectReply&, const FetchObjectReply&) = default;
};

// To the owner of an exported object that it has released: no holder is left, and the entry is
// removed. Follows every ReleaseObject of an exported object by its owner, now or later. If the
// owner holds the object again first, the message waits for its next release.
struct ExportReleased {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const ExportReleased&, const ExportReleased&) = default;
};

// To the owner: the last replica of an object is lost with the node that held it.
struct ObjectGone {
  ObjectId object;
  std::string cause;
  MOBULA_FIELDS(object, cause);
  friend bool operator==(const ObjectGone&, const ObjectGone&) = default;
};

// Connection to the head. If the epoch is new, the process restates its requests.
struct HeadStatus {
  bool connected = false;
  std::uint64_t epoch = 0;
  std::uint32_t protocol = 0;  // version agreed between head and agent; 0: an earlier release
  bool takes_readers = false;  // the agent accepts ReaderMoved and sends ReadersMoved
  MOBULA_FIELDS(connected, epoch, protocol, takes_readers);
  friend bool operator==(const HeadStatus&, const HeadStatus&) = default;
};

// Processes and nodes that are dead. Streams to them are drained, then dropped.
struct PeersDead {
  std::vector<ProcessId> processes;
  std::vector<NodeId> nodes;
  MOBULA_FIELDS(processes, nodes);
  friend bool operator==(const PeersDead&, const PeersDead&) = default;
};

// Ends the executor: after the running call if `graceful`, otherwise as soon as possible. With
// `stores`, the executor first moves the results that it holds to the node's store.
struct EndExecutor {
  bool graceful = true;
  std::string why;
  bool stores = false;
  // not graceful: the actor is destroyed and exit handlers run, within a limited time
  bool orderly = false;
  MOBULA_FIELDS(graceful, why, stores, orderly);
  friend bool operator==(const EndExecutor&, const EndExecutor&) = default;
};

// Output lines of an executor of the job, for the terminal of the driver.
struct LogLines {
  std::string source;  // for example "square pid=12 node=ab12"
  std::vector<std::string> lines;
  MOBULA_FIELDS(source, lines);
  friend bool operator==(const LogLines&, const LogLines&) = default;
};

struct AttachRefused {
  ErrorCode code = ErrorCode::permission_denied;
  std::string why;
  MOBULA_FIELDS(code, why);
  friend bool operator==(const AttachRefused&, const AttachRefused&) = default;
};

// The slab is empty: unmap it, so that its memory can be released. Answered by UnmapSlabReply. If
// the slab is used again, its file descriptor is sent again.
struct UnmapSlabRequest {
  std::uint64_t slab = 0;
  MOBULA_FIELDS(slab);
  friend bool operator==(const UnmapSlabRequest&, const UnmapSlabRequest&) = default;
};

// A change of trust, to drivers and executors.
struct TrustChanged {
  // renewed ticket of the agent, which the process must show from now on; empty: unchanged
  std::string agent_ticket;
  std::vector<std::string> revoked_keys;  // further revoked keys, see RevocationList
  MOBULA_FIELDS(agent_ticket, revoked_keys);
  friend bool operator==(const TrustChanged&, const TrustChanged&) = default;
};

// To the owner of a stream: the slowest process on any node that reads it has taken `taken` items.
// 0: no other process reads it. `stream_without_window`: a process reads it that cannot report.
struct ReadersMoved {
  ObjectId stream;  // first position
  std::uint64_t taken = 0;
  MOBULA_FIELDS(stream, taken);
  friend bool operator==(const ReadersMoved&, const ReadersMoved&) = default;
};

using AgentToProcess =
    std::variant<DriverAttached, AssignExecutor, FromHead, ReserveObjectReply, SealObjectReply,
                 HoldObjectReply, FetchObjectReply, ExportReleased, ObjectGone, HeadStatus,
                 PeersDead, EndExecutor, LogLines, AttachRefused, UnmapSlabRequest, JobFinished,
                 PrepareExecutor, UseDoorbell, OpenRingReply, RingEnded, UnpinRequest, OverShare,
                 TrustChanged, ReadersMoved>;

}  // namespace mobula::internal
