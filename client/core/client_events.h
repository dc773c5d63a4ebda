// Inputs of the client core: requests of user code, and messages of the agent and of executors.
// Every struct has a field list, so that inputs can be recorded.
// Thread: any (values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/model/task.h"
#include "client/core/calls/group_events.h"
#include "client/core/refs/object_events.h"
#include "client/core/refs/tensor_events.h"
#include "protocol/messages/call_stream.h"
#include "protocol/messages/local_control.h"

namespace mobula::internal::client {

// ---- requests of user code ---------------------------------------------------------------------

// One new task. The caller gets one ref on each result, result_id(task, 0..num_returns).
struct SubmitTask {
  CallRecord call;           // a ref argument has is_ref and ref, and no value
  DemandClass demand_class;  // only its id if the core knows the class
  TaskId parent;
  std::int32_t max_retries = 3;  // -1: unlimited
  bool retry_exceptions = false;
  bool fail_if_infeasible = false;
  std::int64_t stored_bytes = 0;  // bytes of arguments by value that were stored for this call
  MOBULA_FIELDS(call, demand_class, parent, max_retries, retry_exceptions, fail_if_infeasible,
                stored_bytes);
  friend bool operator==(const SubmitTask&, const SubmitTask&) = default;
};

// One new actor, owned by this process. The caller gets one ref on handle_id(actor).
struct SubmitActor {
  ActorSpec spec;
  bool fail_if_infeasible = false;
  std::int64_t stored_bytes = 0;  // bytes of constructor arguments by value that were stored
  MOBULA_FIELDS(spec, fail_if_infeasible, stored_bytes);
  friend bool operator==(const SubmitActor&, const SubmitActor&) = default;
};

struct SubmitActorCall {
  CallRecord call;
  TaskId parent;
  std::optional<std::int32_t> max_task_retries;  // unset: the default of the actor
  std::int64_t stored_bytes = 0;  // bytes of arguments by value that were stored for this call
  MOBULA_FIELDS(call, parent, max_task_retries, stored_bytes);
  friend bool operator==(const SubmitActorCall&, const SubmitActorCall&) = default;
};

struct CancelObject {
  ObjectId object;
  bool force = false;
  bool recursive = true;
  MOBULA_FIELDS(object, force, recursive);
  friend bool operator==(const CancelObject&, const CancelObject&) = default;
};

// Code of this process has read the error that replaces the object.
struct ErrorRead {
  ObjectId object;
  MOBULA_FIELDS(object);
  friend bool operator==(const ErrorRead&, const ErrorRead&) = default;
};

// The only thread of user code is blocked in a get, or in a wait for all of its refs,
// without a timeout until these are ready. Empty:
// it continues.
struct BlockedOn {
  PooledVector<ObjectId> objects;
  MOBULA_FIELDS(objects);
  friend bool operator==(const BlockedOn&, const BlockedOn&) = default;
};

// Cancels all unfinished tasks that `parent` submitted, and their children.
struct CancelChildren {
  TaskId parent;
  MOBULA_FIELDS(parent);
  friend bool operator==(const CancelChildren&, const CancelChildren&) = default;
};

struct KillActor {
  ActorId actor;
  bool no_restart = true;
  MOBULA_FIELDS(actor, no_restart);
  friend bool operator==(const KillActor&, const KillActor&) = default;
};

// A request to the head (FindActor, ReadState). HeadAnswered is the reply.
struct QueryHead {
  ProcessToHead question;
  MOBULA_FIELDS(question);
  friend bool operator==(const QueryHead&, const QueryHead&) = default;
};

// These refs leave in results of a call from `owner`, whose home is `home`, and this process may
// exit soon.
// It gives the unfinished tasks that make them to `owner`. HandedOver follows in the same step.
struct HandOver {
  RefRecords refs;
  ProcessId owner;
  NodeId home;
  MOBULA_FIELDS(refs, owner, home);
  friend bool operator==(const HandOver&, const HandOver&) = default;
};

// The process exits as planned. SubmittedDone follows when all calls and actors that it submitted
// are finished, or owned by another process. Nothing may be submitted after that.
struct AwaitSubmitted {
  MOBULA_FIELDS();
  friend bool operator==(const AwaitSubmitted&, const AwaitSubmitted&) = default;
};

// ---- messages of other processes ----------------------------------------------------------------

// The agent has registered the process: at the start, and again after a lost agent was replaced.
struct Attached {
  NodeId node;
  ProcessId agent;
  StartJob job;  // set in drivers; executors have an empty job id
  MOBULA_FIELDS(node, agent, job);
  friend bool operator==(const Attached&, const Attached&) = default;
};
struct AgentLost {
  MOBULA_FIELDS();
  friend bool operator==(const AgentLost&, const AgentLost&) = default;
};
struct ReceivedFromAgent {
  AgentToProcess message;
  MOBULA_FIELDS(message);
  friend bool operator==(const ReceivedFromAgent&, const ReceivedFromAgent&) = default;
};
struct ReceivedFromExecutor {
  ProcessId executor;
  ExecutorFrame frame;
  MOBULA_FIELDS(executor, frame);
  friend bool operator==(const ReceivedFromExecutor&, const ReceivedFromExecutor&) = default;
};
// The connection to the executor ended, and all of its data was delivered.
struct StreamEnded {
  ProcessId executor;
  std::string rejection{};  // why the executor rejected this process; empty if it did not
  MOBULA_FIELDS(executor, rejection);
  friend bool operator==(const StreamEnded&, const StreamEnded&) = default;
};
// Only time has passed.
struct Tick {
  MOBULA_FIELDS();
  friend bool operator==(const Tick&, const Tick&) = default;
};

using Event =
    std::variant<SubmitTask, SubmitActor, SubmitActorCall, PutInline, ReserveSpace, ValueWritten,
                 RetainRef, ReleaseRef, AdoptRef, WantObject, CancelObject, CancelChildren,
                 KillActor, QueryHead, PinRefs, UnpinRefs, Attached, AgentLost, ReceivedFromAgent,
                 ReceivedFromExecutor, StreamEnded, Tick, HandOver, ValueUnreadable, SubmitGroup,
                 AwaitGroup, EndGroup, UnwantObject, KeepTensor, ElementsLost, BorrowRefs,
                 EndBorrow, AwaitSubmitted, ErrorRead, AbandonWrite, BlockedOn, SubscribeObject,
                 UnsubscribeObject, TakeItem, ItemRead>;

}  // namespace mobula::internal::client
