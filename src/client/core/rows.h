// The rows of the client core's tables. Plain state, owned and changed by ClientCore alone; tables
// refer to each other by id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/copy_on_write.h"
#include "base/recycled.h"
#include "base/table.h"
#include "base/time.h"
#include "client/core/spread_turns.h"
#include "model/error_record.h"
#include "model/task.h"
#include "protocol/call_stream.h"
#include "protocol/local_control.h"
#include "session/session.h"

namespace mobula::internal::client {

// put_off: who gave it holds it until it hears that it need not.
enum class HoldState : std::uint8_t { none, asked, confirmed, put_off };

// Where the bytes of a stored value are read in this process.
struct Reading {
  std::uint64_t fetch = 0;        // the last one
  std::uint64_t place_fetch = 0;  // `place` can be read: by which fetch
  PlaceRecord place;
  std::optional<Failure> failure;  // of the last fetch; a new want tries again
};

// One object this process has refs on, owns, or has pinned for somebody. There may be millions: what few
// of them have is apart.
struct ObjectRow {
  CopyOnWrite<RefRecord> ref;      // empty: of this process and its node
  CopyOnWrite<ValueRecord> value;  // ready
  CopyOnWrite<Reading> reading;
  TaskId creator;             // owned results: the task that makes it
  std::int32_t refs = 0;      // in the hands of user code
  std::int32_t pins = 0;      // arguments of unfinished calls, contents of other values
  std::int32_t wants = 0;     // threads that wait for it, and views of its bytes
  HoldState hold = HoldState::none;  // borrowed
  bool owned : 1 = false;
  bool ready : 1 = false;         // `value` is set
  bool exported : 1 = false;      // owned: others may ask for it
  bool released : 1 = false;      // exported: told the home so, waits for ExportUnheld
  bool storing : 1 = false;       // an inline value on its way into the store
  bool fetching : 1 = false;
  bool readable : 1 = false;      // at the place of its reading
  bool return_asked : 1 = false;  // readable: the agent wants the place back, when nobody looks
  bool written : 1 = false;       // owned: this process wrote it to that place, and has it mapped
  bool lent : 1 = false;          // to calls that run here, see LoanRow
  bool passed_on : 1 = false;     // while it is lent: others may have got it from here
  bool unsaid : 1 = false;        // a kept tensor in replies of which nobody may have made anything
  bool lineage_given_up : 1 = false;  // its task is not known any more
  bool lost : 1 = false;          // borrowed: the value is the error that states the loss; a want reads again
  bool doubted : 1 = false;       // an executor could not read it, and this process tries to
  // Not empty: it stands for the handles of this actor, and never becomes ready.
  ActorId actor() const { return ref->actor; }
  // Calls that need it wait.
  bool is_missing() const { return !ready || doubted; }
  // Elements of a tensor of this process: nothing of them is in the core.
  bool is_kept_tensor() const { return owned && !ref->tensor.is_empty(); }
};

// How often an object is lent, or left in replies. Few have a row.
struct LoanRow {
  std::int32_t calls = 0;    // that run here, whose callers hold it in the place of this process
  std::int32_t replies = 0;  // of this process, of which it is not known what was made of them
};

enum class TaskState : std::uint8_t {
  waiting,    // for arguments
  queued,     // for a slot, or for its turn at an actor
  sent,
  finished,   // kept as lineage of its results
};

struct TaskRow {
  CallRecord call;
  ObjectId first_result;            // result_id(task, 0), which takes as long to derive as a row to find
  ClassId demand_class;
  TaskId parent;
  std::uint64_t order = 0;          // actor calls: of submission
  std::int64_t argument_bytes = 0;  // by value, counted as pending
  Time since;                       // of `state`
  ProcessId executor;               // sent: whose stream
  std::uint64_t number = 0;         // sent: in that stream
  std::optional<Time> started;      // sent: the executor has said that it runs, since when
  std::optional<Time> retry_at;     // waiting: not before this, and for nothing else
  std::uint32_t missing = 0;        // arguments not ready
  std::uint32_t live_results = 0;
  std::int32_t retries_left = 0;
  std::uint32_t waited_us = 0;      // from its submission to `since`; an hour at most
  std::uint16_t preemptions = 0;    // attempts that have ended so
  std::uint16_t memory_deaths = 0;  // attempts that were ended for lack of memory
  std::uint8_t unread = 0;          // times that executors could not read arguments which this process could
  std::uint8_t owner_waits = 0;     // pauses because an argument of another owner could not be read
  TaskState state = TaskState::waiting;
  bool cancelled : 1 = false;
  bool preempted : 1 = false;       // sent: its executor was told to end it, so that it runs again
  bool awaits_owner : 1 = false;    // the reason of `retry_at`

  void since_now(Time now) {
    constexpr std::int64_t most = 3'600'000'000;
    waited_us = static_cast<std::uint32_t>(std::min(most, waited_us + (now - since) / std::chrono::microseconds(1)));
    since = now;
  }
  Time submitted() const { return since - std::chrono::microseconds(waited_us); }
};

// The caller's end of one call stream.
struct StreamRow {
  Endpoint endpoint;
  SlotId slot;     // task stream
  ActorId actor;   // actor stream
  Session<CallerMessage, ExecutorMessage> session;
  std::uint64_t next_number = 1;
  Table<std::uint64_t, TaskId> in_flight;   // oldest first
  std::optional<EndCause> ending;  // the executor's end is known; believed once drained
  Time drain_until;
  bool retires = false;
  bool ended = false;              // the connection is empty and closed
  std::optional<Time> reconnect_at;  // the connection broke while answers were due
  Duration reconnect_wait = 50ms;
  bool taking_back = false;
  bool one_at_a_time = false;  // what waited there came back: nothing waits there until its next answer
  std::uint64_t round = 1;         // see PushCall
  std::optional<std::uint64_t> comes_back;  // the calls after this one do, and nothing leaves until all have
  std::size_t room = unlimited;    // so many calls may be there, after there was none for one
  bool measure_room = false;       // when all have come back
  std::optional<Time> try_at;      // there was room for none of ours: nothing leaves until then
  std::optional<Time> give_up_at;  // the connection is broken while replies are due: not awaited beyond this
  std::string rejection;           // why the executor rejected the last connection
  std::optional<Time> armed;       // see DeadlineHeap
  static constexpr std::size_t unlimited = ~std::size_t{0};
  Time last_reply;

  std::optional<Time> deadline() const {
    std::optional<Time> first = session.next_deadline();
    for (const auto& at : {ending ? std::optional(drain_until) : std::nullopt, reconnect_at, try_at, give_up_at}) {
      if (at && (!first || *at < *first)) first = at;
    }
    return first;
  }
  // The executor hands back what of ours it has had after the refused call, and what is on its way there.
  void begin_round(std::uint64_t refused) {
    ++round;
    comes_back = std::min(comes_back.value_or(refused), refused);
  }
};

struct SlotRow {
  ClassId demand_class;
  NodeId node;
  std::uint32_t generation = 0;
  ProcessId executor;      // empty: between generations
  bool recalled = false;
  bool holds_results = false;  // its executor does, of calls that have ended
  Time idle_since;
  std::uint64_t spread_round = 0;  // SpreadTurns::round of its last call
};

// Queued tasks of one class behind those that are near their turn (backlog.h).
struct BacklogLine {
  static constexpr std::uint32_t none = 0xffff'ffff;
  std::uint32_t first = none;
  std::uint32_t last = none;
  std::size_t tasks = 0;
};

// What waits for its turn; it comes and goes with each call.
using TaskQueue = std::deque<TaskId, Recycled<TaskId>>;

struct ClassRow {
  DemandClass spec;
  TaskQueue queue;                 // near their turn; between steps empty only if the line is
  BacklogLine line;                // behind them
  std::vector<SlotId> slots;
  std::vector<SlotId> heard;       // those of them that no Demand has named yet
  std::uint64_t version = 0;
  std::size_t tasks = 0;           // of this class, lineage included
  std::int64_t told = 0;           // wanted slots last told to the head
  bool dirty = false;
  Time tell_after;
  Duration run_time{};             // moving average
  bool measured = false;
  bool fail_if_infeasible = false;
  bool warned = false;
  std::string waiting_reason;      // the head's, while nothing fits
  std::optional<SpreadTurns> spread;  // strategy Spread, outside placement groups
  std::size_t waiting() const { return queue.size() + line.tasks; }
  // Time at which a changed demand may be sent.
  Time demand_due(Duration tell_interval) const {
    const bool grows = static_cast<std::int64_t>(waiting()) > told;
    return spread && grows ? tell_after - tell_interval + SpreadTurns::demand_interval : tell_after;
  }
};

struct ActorRow {
  ActorSpec spec;                 // owned
  bool owned = false;
  bool detached = false;
  bool asked = false;             // CreateActor sent
  std::uint64_t asked_after = 0;  // orders to end actors that were sent before it
  bool watched = false;
  bool fail_if_infeasible = false;
  std::size_t missing = 0;        // constructor arguments not ready
  ActorState state = ActorState::placing;
  std::uint64_t version = 0;
  std::uint32_t incarnation = 0;
  ProcessId executor;             // of the open stream
  TaskQueue queue;                // unsent calls in order of submission
  std::int64_t calls = 0;         // unfinished
  std::int64_t argument_bytes = 0;  // by value, of the constructor call; pending until it has run
  std::int32_t max_task_retries = 0;
  // Largest number of unfinished calls of this process, -1 for unlimited. Empty until the head has reported the actor of
  // another process.
  std::optional<std::int32_t> max_pending_calls;
  EndCause cause;
  ValueRecord construction_error;
  std::string refusal;
  std::string missing_resource;   // refusal: resource that no node has; may be empty
  std::string waiting_reason;     // the head's, while no node can ever hold it
};

// A placement group that this process has created, waits for or has removed.
struct GroupRow {
  GroupSpec spec;        // owned
  bool owned = false;
  bool removing = false;  // by this process
  GroupState state = GroupState::pending;
  std::uint64_t version = 0;
  std::string shortage;  // why the nodes present can never hold it; warned of once
  struct Waiting {
    ObjectId object;
    ValueRecord value;  // which it has when the group is there
  };
  std::vector<Waiting> waiting;
};

struct TableSizes {
  std::size_t objects, tasks, streams, slots, classes, actors, writes;
};

// Whether what runs by this request gets numbered devices.
inline bool wants_devices(const Request& request) {
  const auto is_device = [](const auto& each) { return is_unit_instance(each.first); };
  return request.gpu_memory > 0 || std::ranges::any_of(request.resources.amounts(), is_device);
}

// Reason that the bytes of an object, as an argument, cannot be read in this process. Nothing: they can, or are awaited.
std::optional<Failure> why_unread(const ObjectRow& row);

// Work that a process has submitted and that is not finished.
struct UnfinishedWork {
  std::uint64_t calls = 0;  // with actors that the head has not acknowledged, and values that are not stored
  std::string example;      // name of one of them
};

// The bytes of an error value.
ValueRecord error_value(const ErrorRecord& error);

// A value that goes into the node's store: written by a thread, or (`escaping`) by the shell, from
// the bytes of the object or from where they lie mapped.
struct WriteRow {
  std::int64_t size_bytes = 0;
  ProcessId owner;
  NodeId home;
  bool escaping = false;  // the value of an own object, not a thread's
  PlaceRecord place = {};    // as given by the agent
  PlaceRecord copy_of = {};  // escaping: of the value in the store of an agent that has died
  bool lost = false;         // the agent that gave `place` to a thread has died since
  std::optional<Failure> there = {};  // the bytes lie on this node already: said once the owner holds them
  std::optional<Time> retry_at;  // escaping: the store was full
};

}  // namespace mobula::internal::client
