// Messages from a process (driver or executor) to the agent on its machine, over the inherited
// socket or the socket of mode 0600. The link is reliable and ordered until one side dies.
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
#include "base/model/resident_results.h"
#include "base/model/task.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/codec/wire.h"
#include "protocol/messages/process_control.h"
#include "protocol/messages/unpin.h"

namespace mobula::internal {

// Location of an object's bytes in the store of this node.
struct SlabRange {
  std::uint64_t slab = 0;  // low 64 bits of the SlabId; 0: no location
  std::int64_t offset = 0;
  std::int64_t size_bytes = 0;
  MOBULA_FIELDS(slab, offset, size_bytes);
  friend bool operator==(const SlabRange&, const SlabRange&) = default;
};

// ---- process to agent --------------------------------------------------------------------------

// The first message of a driver.
struct AttachDriver {
  std::uint32_t version = own_protocol.newest;
  ProcessId process;
  JobId job;
  std::string curve_key;  // CURVE key of the process's bus, written into its ticket
  std::int64_t pid = 0;
  std::uint32_t oldest = own_protocol.oldest;
  MOBULA_FIELDS(version, process, job, curve_key, pid, oldest);
  friend bool operator==(const AttachDriver&, const AttachDriver&) = default;
};

// Answers AssignExecutor: the executor accepts calls at this endpoint.
struct ExecutorReady {
  ProcessId process;
  Endpoint endpoint;
  MOBULA_FIELDS(process, endpoint);
  friend bool operator==(const ExecutorReady&, const ExecutorReady&) = default;
};

struct ForHead {
  ProcessToHead message;
  MOBULA_FIELDS(message);
  friend bool operator==(const ForHead&, const ForHead&) = default;
};

// Reserves space for a value. Answered by ReserveObjectReply. A repeated request for an object
// returns the same location, or `already_exists` if the object is sealed.
struct ReserveObjectRequest {
  ObjectId object;
  std::int64_t size_bytes = 0;
  MOBULA_FIELDS(object, size_bytes);
  friend bool operator==(const ReserveObjectRequest&, const ReserveObjectRequest&) = default;
};

// The bytes are written. The object is held for `owner` at `home` from now on, before any other
// process learns of it. Answered by SealObjectReply when that hold exists.
struct SealObjectRequest {
  ObjectId object;
  ProcessId owner;
  NodeId home;
  bool is_error = false;
  RefRecords contained;
  MOBULA_FIELDS(object, owner, home, is_error, contained);
  friend bool operator==(const SealObjectRequest&, const SealObjectRequest&) = default;
};

// The ref of the owner escaped: other processes may request the object from this agent before it
// exists.
struct ExportObject {
  ObjectId object;
  // elements that the owner serves itself: readers do not wait for them to enter the store
  bool is_tensor = false;
  // Set if the owner exits as planned: `object` counts the handles of this actor, and the job owns
  // the actor from now on. The agent ends the actor when the object has no holder.
  ActorId entrusted{};
  // Set for a position of a stream with a window: its first position. ReadersMoved follows.
  ObjectId stream{};
  MOBULA_FIELDS(object, is_tensor, entrusted, stream);
  friend bool operator==(const ExportObject&, const ExportObject&) = default;
};

// Holds the object until ReleaseObject, so that this process can read it. Answered by
// HoldObjectReply once the home counts this node among the holders.
struct HoldObjectRequest {
  RefRecord ref;
  MOBULA_FIELDS(ref);
  friend bool operator==(const HoldObjectRequest&, const HoldObjectRequest&) = default;
};

struct ReleaseObject {
  ObjectId object;
  bool abandons_write = false;  // the process does not write the object that it reserved
  MOBULA_FIELDS(object, abandons_write);
  friend bool operator==(const ReleaseObject&, const ReleaseObject&) = default;
};

// Requests the object on this node. Implies a hold. Answered by FetchObjectReply, which repeats
// `fetch`, so a process can discard the answer to a cancelled fetch. `location` is a node that has
// the bytes, or empty. A home that knows no location queries that node for the owner.
struct FetchObjectRequest {
  RefRecord ref;
  NodeId location;
  std::uint64_t fetch = 0;
  bool argument = false;  // a call needs it to start: it precedes objects that a process only reads
  MOBULA_FIELDS(ref, location, fetch, argument);
  friend bool operator==(const FetchObjectRequest&, const FetchObjectRequest&) = default;
};

struct CancelFetch {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const CancelFetch&, const CancelFetch&) = default;
};

// All tasks of this executor have waited for `cpu_release_delay` (on), or one of them continues
// (off).
struct ExecutorBlocked {
  bool on = false;
  // The executor exits as planned and runs no more calls. It awaits `submitted` calls that it has
  // submitted. With `on`, it needs no resource of its slot.
  bool departing = false;
  EndKind kind = EndKind::retired;  // reason, set if `departing`
  std::uint64_t submitted = 0;
  std::string example{};  // name of one of these calls
  MOBULA_FIELDS(on, departing, kind, submitted, example);
  friend bool operator==(const ExecutorBlocked&, const ExecutorBlocked&) = default;
};

// The executor exits as planned: it reached max_calls, or user code called exit_actor. Its streams
// are drained.
struct ExecutorRetires {
  EndKind kind = EndKind::retired;
  MOBULA_FIELDS(kind);
  friend bool operator==(const ExecutorRetires&, const ExecutorRetires&) = default;
};

struct ConstructorFinished {
  ValueRecord error;  // `is_error` if it threw
  MOBULA_FIELDS(error);
  friend bool operator==(const ConstructorFinished&, const ConstructorFinished&) = default;
};

// The running task: its name for log lines and `list executors`, and whether it may be terminated
// under memory pressure. Sent when one of these changes, so once for a series of equal tasks.
struct RunningNow {
  std::string name;
  TaskId task;
  bool may_run_again = false;
  MOBULA_FIELDS(name, task, may_run_again);
  friend bool operator==(const RunningNow&, const RunningNow&) = default;
};

// The executor has been idle for a while and holds results, or no longer does.
struct ExecutorResident {
  ResidentResults residence;
  MOBULA_FIELDS(residence);
  friend bool operator==(const ExecutorResident&, const ExecutorResident&) = default;
};

// Answers UnmapSlabRequest: this process no longer maps the slab.
struct UnmapSlabReply {
  std::uint64_t slab = 0;
  MOBULA_FIELDS(slab);
  friend bool operator==(const UnmapSlabReply&, const UnmapSlabReply&) = default;
};

// Requests a pair of rings to an executor on this node that this process will call. Answered by
// OpenRingReply.
struct OpenRingRequest {
  ProcessId executor;
  MOBULA_FIELDS(executor);
  friend bool operator==(const OpenRingRequest&, const OpenRingRequest&) = default;
};

// This process has released the pair of rings: its index in the doorbell is free.
struct RingClosed {
  std::uint64_t ring = 0;
  MOBULA_FIELDS(ring);
  friend bool operator==(const RingClosed&, const RingClosed&) = default;
};

// The fastest reader of a stream in this process has taken `taken` items. 0: the process does not
// read it any more. Sent in batches, and only to agents that accept it (HeadStatus).
struct ReaderMoved {
  RefRecord stream;  // first position
  std::uint64_t taken = 0;
  MOBULA_FIELDS(stream, taken);
  friend bool operator==(const ReaderMoved&, const ReaderMoved&) = default;
};

using ProcessToAgent =
    std::variant<AttachDriver, ExecutorReady, ForHead, ReserveObjectRequest, SealObjectRequest,
                 ExportObject, HoldObjectRequest, ReleaseObject, FetchObjectRequest, CancelFetch,
                 ExecutorBlocked, ExecutorRetires, ConstructorFinished, RunningNow, UnmapSlabReply,
                 OpenRingRequest, RingClosed, UnpinReply, ExecutorResident, ReaderMoved>;

}  // namespace mobula::internal
