// Facts that the owner of tasks (a driver or an executor) reports about single tasks on request.
// The head forwards queries and replies and keeps nothing.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/task.h"
#include "base/time.h"

namespace mobula::internal {

// Progress of a task as its owner sees it. Part of messages: append only.
enum class TaskPhase : std::uint8_t {
  waits_for_arguments = 0,
  waits_for_slot = 1,
  waits_for_actor = 2,  // waits for the actor to start, or for its turn in the actor
  at_executor = 3,      // sent; no report that it has started
  runs = 4,
  finished = 5,
  failed = 6,  // including cancelled tasks
};

// An argument that does not exist yet, and its producer.
struct MissingArgument {
  ObjectId object;
  TaskId task;  // task that produces it; empty if the owner of the waiting task does not know
  std::string task_name;
  ProcessId owner;  // owner of the object
  NodeId home;      // node of the owner's agent
  MOBULA_FIELDS(object, task, task_name, owner, home);
  friend bool operator==(const MissingArgument&, const MissingArgument&) = default;
};

struct TaskFact {
  TaskId task;
  CallKind kind = CallKind::task;
  ActorId actor;  // set for actor_call
  std::string name;
  TaskPhase phase = TaskPhase::waits_for_arguments;
  Duration since{};               // time in the phase until the reply
  std::uint32_t attempt = 0;      // 0 is the first
  std::int32_t retries_left = 0;  // -1: unlimited
  bool cancelled = false;
  std::uint64_t missing = 0;               // number of missing arguments
  std::vector<MissingArgument> arguments;  // the first missing arguments
  ClassId demand_class;                    // set for a task
  std::uint64_t ahead = 0;    // tasks of the same owner before it in the queue of the phase
  std::uint64_t waiting = 0;  // tasks in that queue, including this one
  std::uint64_t slots = 0;    // waits_for_slot: slots of the class that its owner holds
  ProcessId executor;         // at_executor, runs
  NodeId node;                // node of the executor
  std::string reason;         // human-readable reason to wait, as the owner knows it
  Payload error;              // failed: an encoded ErrorRecord; empty if it is too large
  // attempts ended for work of a higher priority; not counted as retries
  std::uint32_t preemptions = 0;
  // ended: duration of the attempt that ended the task, as its executor reported it
  std::optional<Duration> run_time;
  // the only thread of user code of its owner is blocked in a get without a timeout that needs it
  bool awaited = false;
  // tensors of its arguments; a bounded number, only in replies about one id
  std::vector<ObjectId> tensors{};
  MOBULA_FIELDS(task, kind, actor, name, phase, since, attempt, retries_left, cancelled, missing,
                arguments, demand_class, ahead, waiting, slots, executor, node, reason, error,
                preemptions, run_time, awaited, tensors);
  friend bool operator==(const TaskFact&, const TaskFact&) = default;
};

// Number of tasks with one name in one phase. Ended tasks are counted since the owner started.
struct TaskCount {
  std::string name;
  TaskPhase phase = TaskPhase::waits_for_arguments;
  std::uint64_t count = 0;
  MOBULA_FIELDS(name, phase, count);
  friend bool operator==(const TaskCount&, const TaskCount&) = default;
};

// Head to owner: requests tasks. Answered by TasksReply.
struct TasksRequest {
  std::uint64_t request = 0;
  // not empty: only tasks whose id, or the id of a result, begins with these digits
  std::string id;
  std::string name;               // not empty: only this name
  std::vector<TaskPhase> phases;  // not empty: only these phases
  std::uint64_t limit = 0;
  MOBULA_FIELDS(request, id, name, phases, limit);
  friend bool operator==(const TasksRequest&, const TasksRequest&) = default;
};

// Owner to head.
struct TasksReply {
  std::uint64_t request = 0;
  std::vector<TaskFact> tasks;
  std::uint64_t left_out = 0;     // further matches; ended tasks may be forgotten
  std::vector<TaskCount> counts;  // counts over all matches; empty if the request has an id
  MOBULA_FIELDS(request, tasks, left_out, counts);
  friend bool operator==(const TasksReply&, const TasksReply&) = default;
};

// Unrequested, with request 0: failed tasks of the sender.
using FailureReport = TasksReply;

// The error of a failed task for a tool. Only the tool decodes it.
struct TaskError {
  TaskId task;
  Payload error;  // an encoded ErrorRecord
  MOBULA_FIELDS(task, error);
  friend bool operator==(const TaskError&, const TaskError&) = default;
};

}  // namespace mobula::internal
