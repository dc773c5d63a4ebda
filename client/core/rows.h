// Rows of the tables of the client core. They refer to each other by id.
// Thread: owner. Owner: ClientCore.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/block_pool.h"
#include "base/copy_on_write.h"
#include "base/model/error_record.h"
#include "base/model/task.h"
#include "base/table.h"
#include "base/time.h"
#include "client/core/calls/spread_turns.h"
#include "protocol/messages/call_stream.h"
#include "protocol/messages/local_control.h"
#include "protocol/session/session.h"

namespace mobula::internal::client {

// put_off: deferred. The process that passed the ref keeps its own hold until this one reports that
// it may release it.
enum class HoldState : std::uint8_t { none, asked, confirmed, put_off };

// Location at which this process reads the bytes of a stored value.
struct Reading {
  std::uint64_t fetch = 0;        // number of the latest fetch
  std::uint64_t place_fetch = 0;  // fetch that made `place` readable
  SlabRange place;
  std::optional<Failure> failure;  // failure of the latest fetch; a new want retries
};

// One object that this process owns, pins, or has refs to. Millions may exist, so rare members are
// allocated separately.
struct ObjectRow {
  CopyOnWrite<RefRecord> ref;      // empty: owned by this process, home on its node
  CopyOnWrite<ValueRecord> value;  // valid if ready
  CopyOnWrite<Reading> reading;
  TaskId creator;          // task that makes an owned result
  std::int32_t refs = 0;   // count of refs of user code
  std::int32_t pins = 0;   // count of arguments of unfinished calls and contents of other values
  std::int32_t wants = 0;  // count of waiting threads and of views of its bytes
  HoldState hold = HoldState::none;  // for a borrowed object
  bool owned : 1 = false;
  bool ready : 1 = false;     // `value` is set
  bool exported : 1 = false;  // owned: other processes may request it
  bool released : 1 = false;  // exported: not used here, awaits ExportReleased
  bool storing : 1 = false;   // a value is being written into the store
  bool fetching : 1 = false;
  bool readable : 1 = false;          // at the location in `reading`
  bool return_asked : 1 = false;      // readable: the agent awaits the location after the last view
  bool written : 1 = false;           // owned: this process wrote it there, and has it mapped
  bool lent : 1 = false;              // borrowed by running calls, see BorrowRow
  bool passed_on : 1 = false;         // while lent: this process may have passed it on
  bool unsaid : 1 = false;            // own tensor in replies without a report of their receivers
  bool lineage_given_up : 1 = false;  // its task was dropped from the lineage
  bool lost : 1 = false;              // borrowed: the value states the loss; a want reads again
  bool doubted : 1 = false;           // an executor could not read it, and this process tries to
  // Not empty: the object stands for the handles of this actor and never becomes ready.
  ActorId actor() const { return ref->actor; }
  // True if calls that need it wait.
  bool is_missing() const { return !ready || doubted; }
  // True for tensor elements of this process. The core stores no bytes of them.
  bool is_kept_tensor() const { return owned && !ref->tensor.is_empty(); }
};

// Counts of the borrows of an object and of the replies that contain it. Few objects have such a
// row.
struct BorrowRow {
  std::int32_t calls = 0;    // count of running calls whose callers hold it for this process
  std::int32_t replies = 0;  // count of replies whose receivers have not reported back
};

enum class TaskState : std::uint8_t {
  waiting,  // for arguments
  queued,   // for a slot, or for its turn at an actor
  sent,
  finished,  // kept as lineage of its results
};

struct TaskRow {
  CallRecord call;
  ObjectId first_result;  // result_id(task, 0), cached because of its cost
  ClassId demand_class;
  TaskId parent;
  std::uint64_t order = 0;          // submission number of an actor call
  std::int64_t argument_bytes = 0;  // bytes of arguments by value, counted as pending
  Time since;                       // start of `state`
  ProcessId executor;               // sent: process at the end of the stream
  std::uint64_t number = 0;         // sent: number in that stream
  std::optional<Time> started;      // sent: start of the run, as reported by the executor
  std::optional<Time> retry_at;     // waiting: time of the next attempt, awaited alone
  std::uint32_t missing = 0;        // count of arguments that are not ready
  std::uint32_t live_results = 0;
  std::int32_t retries_left = 0;
  std::uint32_t waited_us = 0;      // µs from submission to `since`, at most one hour
  std::uint16_t preemptions = 0;    // count of preempted attempts
  std::uint16_t memory_deaths = 0;  // count of attempts terminated for lack of memory
  std::uint8_t unread = 0;          // count of returns with arguments that this process could read
  std::uint8_t owner_waits = 0;     // count of pauses for unreadable arguments of other owners
  TaskState state = TaskState::waiting;
  bool cancelled : 1 = false;
  bool preempted : 1 = false;     // sent: the executor must cancel it so that it runs again
  bool awaits_owner : 1 = false;  // the reason of `retry_at`

  void since_now(Time now) {
    constexpr std::int64_t most = 3'600'000'000;
    waited_us = static_cast<std::uint32_t>(
        std::min(most, waited_us + (now - since) / std::chrono::microseconds(1)));
    since = now;
  }
  Time submitted() const { return since - std::chrono::microseconds(waited_us); }
};

// The caller's end of one call stream.
struct StreamRow {
  Endpoint endpoint;
  SlotId slot;    // set for a stream of tasks
  ActorId actor;  // set for a stream of an actor
  Session<CallerMessage, ExecutorMessage> session;
  std::uint64_t next_number = 1;
  Table<std::uint64_t, TaskId> in_flight;  // calls by number, oldest first
  std::optional<EndCause> ending;  // end of the executor, accepted once the stream is drained
  Time drain_until;
  bool retires = false;
  bool ended = false;                // the connection is drained and closed
  std::optional<Time> reconnect_at;  // the connection broke while replies were due
  Duration reconnect_wait = 50ms;
  bool taking_back = false;
  bool one_at_a_time = false;  // queued calls returned: none queues there until a reply
  std::uint64_t round = 1;     // see PushCall
  std::optional<std::uint64_t> comes_back;  // later calls return; none is sent until all have
  std::size_t room = unlimited;             // limit of calls in flight, set after a rejection
  bool measure_room = false;                // sets `room` when all have returned
  std::optional<Time> try_at;      // the executor rejected a single call: none is sent until then
  std::optional<Time> give_up_at;  // deadline for a broken connection while replies are due
  std::string rejection;           // why the executor rejected the last connection
  std::optional<Time> armed;       // see DeadlineHeap
  static constexpr std::size_t unlimited = ~std::size_t{0};
  Time last_reply;

  std::optional<Time> deadline() const {
    std::optional<Time> first = session.next_deadline();
    for (const auto& at :
         {ending ? std::optional(drain_until) : std::nullopt, reconnect_at, try_at, give_up_at}) {
      if (at && (!first || *at < *first)) first = at;
    }
    return first;
  }
  // Starts a new round: the executor returns the calls that it received after the refused one, and
  // those still on their way.
  void begin_round(std::uint64_t refused) {
    ++round;
    comes_back = std::min(comes_back.value_or(refused), refused);
  }
};

struct SlotRow {
  ClassId demand_class;
  NodeId node;
  std::uint32_t generation = 0;
  ProcessId executor;  // empty: between generations
  bool recalled = false;
  bool holds_results = false;  // the executor holds tensor results of finished calls
  Time idle_since;
  bool used = false;  // this generation has taken a call
};

// Compact tasks of one class, behind the queued tasks that have rows (backlog.h).
struct BacklogLine {
  static constexpr std::uint32_t none = 0xffff'ffff;
  std::uint32_t first = none;
  std::uint32_t last = none;
  std::size_t tasks = 0;
};

// Pooled, because every call enters and leaves it.
using TaskQueue = std::deque<TaskId, Recycled<TaskId>>;

struct ClassRow {
  DemandClass spec;
  TaskQueue queue;   // tasks with rows; between steps empty only if `line` is
  BacklogLine line;  // tasks behind them
  std::vector<SlotId> slots;
  std::vector<SlotId> heard;  // slots that no Demand has counted yet
  std::uint64_t version = 0;
  std::size_t tasks = 0;  // tasks of this class, lineage included
  std::int64_t told = 0;  // slot count of the last demand sent to the head
  bool dirty = false;
  Time tell_after;
  std::size_t early_reports = 0;  // demands sent before `tell_after` since the last one after it
  Duration run_time{};            // moving average
  bool measured = false;
  bool fail_if_infeasible = false;
  bool warned = false;
  std::string waiting_reason;         // reported by the head while nothing fits
  std::optional<SpreadTurns> spread;  // strategy Spread, outside placement groups
  std::size_t waiting() const { return queue.size() + line.tasks; }
  // Time at which a changed demand may be sent.
  Time demand_due(Duration demand_report_interval) const {
    const bool grows = static_cast<std::int64_t>(waiting()) > told;
    return spread && grows ? tell_after - demand_report_interval + SpreadTurns::demand_interval
                           : tell_after;
  }
};

struct ActorRow {
  ActorSpec spec;  // set if owned
  bool owned = false;
  bool detached = false;
  bool asked = false;             // CreateActor was sent
  std::uint64_t asked_after = 0;  // count of releases sent before CreateActor
  bool watched = false;
  bool fail_if_infeasible = false;
  std::size_t missing = 0;  // count of constructor arguments that are not ready
  ActorState state = ActorState::placing;
  std::uint64_t version = 0;
  std::uint32_t incarnation = 0;
  ProcessId executor;               // executor of the open stream
  TaskQueue queue;                  // unsent calls in submission order
  std::int64_t calls = 0;           // count of unfinished calls
  std::int64_t argument_bytes = 0;  // bytes of constructor arguments by value, pending until it ran
  std::int32_t max_task_retries = 0;
  // Largest number of unfinished calls of this process, -1 for unlimited. Empty until the head has
  // reported the actor of another process.
  std::optional<std::int32_t> max_pending_calls;
  EndCause cause;
  ValueRecord construction_error;
  std::string refusal;
  std::string missing_resource;  // refusal: resource that no node has; may be empty
  std::string waiting_reason;    // reported by the head while no node can ever fit it
};

// A placement group that this process created, awaits, or removed.
struct GroupRow {
  GroupSpec spec;  // set if owned
  bool owned = false;
  bool removing = false;  // this process requested the removal
  GroupState state = GroupState::pending;
  std::uint64_t version = 0;
  std::string shortage;  // reason why the present nodes can never fit it; logged once
  struct Waiting {
    ObjectId object;
    ValueRecord value;  // value that the object gets when the group is created
  };
  std::vector<Waiting> waiting;
};

struct TableSizes {
  std::size_t objects, tasks, streams, slots, classes, actors, writes;
};

// True if tasks with this request get numbered devices.
inline bool wants_devices(const Request& request) {
  const auto is_device = [](const auto& each) { return is_unit_instance(each.first); };
  return request.gpu_memory > 0 || std::ranges::any_of(request.resources.amounts(), is_device);
}

// Reason why this process cannot read the bytes of an object as an argument. Empty: it can, or
// awaits them.
std::optional<Failure> why_unread(const ObjectRow& row);

// Unfinished work that a process has submitted.
struct UnfinishedWork {
  std::uint64_t calls = 0;  // includes unacknowledged actors and unstored values
  std::string example;      // name of one of them
};

// Encodes an error as a value.
ValueRecord error_value(const ErrorRecord& error);

// A value that is being written into the node's store: by a thread, or if `escaping` by the shell,
// from the bytes of the object or from its mapping.
struct WriteRow {
  std::int64_t size_bytes = 0;
  ProcessId owner;
  NodeId home;
  bool escaping = false;   // the value of an own object, not of a thread
  SlabRange place = {};    // location that the agent returned
  SlabRange copy_of = {};  // if escaping: location of the value in the store of a dead agent
  bool lost = false;       // the agent that returned `place` to a thread died since
  std::optional<Failure> there = {};  // already on this node: reported once the owner holds it
  std::optional<Time> retry_at;       // if escaping: the store was full
};

}  // namespace mobula::internal::client
