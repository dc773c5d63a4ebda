// What the owner of tasks, a driver or an executor, says of single ones when it is asked. The head
// asks and passes on; it remembers nothing of the answers. Plain structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/time.h"
#include "model/task.h"

namespace mobula::internal {

// How far a task has come, as its owner sees it. Travels in messages: append only.
enum class TaskPhase : std::uint8_t {
  waits_for_arguments = 0,
  waits_for_slot = 1,
  waits_for_actor = 2,  // for the actor itself, or for its turn there
  at_executor = 3,      // sent; not said to have started
  runs = 4,
  finished = 5,
  failed = 6,  // cancelled ones too
};

// An argument that is not there yet, and who makes it.
struct MissingArgument {
  ObjectId object;
  TaskId task;  // that makes it; empty where the owner of the waiting task does not know
  std::string task_name;
  ProcessId owner;  // of the object
  NodeId home;      // of the owner's agent
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &MissingArgument::object), field("task", &MissingArgument::task),
                 field("task_name", &MissingArgument::task_name),
                 field("owner", &MissingArgument::owner), field("home", &MissingArgument::home));
  }
  friend bool operator==(const MissingArgument&, const MissingArgument&) = default;
};

struct TaskFact {
  TaskId task;
  CallKind kind = CallKind::task;
  ActorId actor;  // actor_call
  std::string name;
  TaskPhase phase = TaskPhase::waits_for_arguments;
  Duration since{};               // of the phase, up to the answer
  std::uint32_t attempt = 0;      // 0 is the first
  std::int32_t retries_left = 0;  // -1 infinite
  bool cancelled = false;
  std::uint64_t missing = 0;               // arguments that are not there
  std::vector<MissingArgument> arguments;  // the first of them
  ClassId demand_class;                    // task
  std::uint64_t ahead = 0;                 // of its owner's, before it in the phase's queue
  std::uint64_t waiting = 0;               // in that queue, it included
  std::uint64_t slots = 0;                 // waits_for_slot: that its owner holds of the class
  ProcessId executor;                      // at_executor, runs
  NodeId node;                             // of the executor
  std::string reason;                      // for people: what the owner was told about its wait
  Payload error;  // failed: an encoded ErrorRecord; empty where it is too large
  std::uint32_t preemptions = 0;  // attempts ended for work of a higher priority; no retries of its own
  std::optional<Duration> run_time;  // ended: of the attempt whose reply ended it, as its executor says; else nothing
  bool awaited = false;  // its owner's only thread of user code is blocked in a get without a timeout that needs it
  std::vector<ObjectId> tensors{};  // referred to by its arguments; a bounded number, only in answers about one id
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("task", &TaskFact::task), field("kind", &TaskFact::kind),
                 field("actor", &TaskFact::actor), field("name", &TaskFact::name),
                 field("phase", &TaskFact::phase), field("since", &TaskFact::since),
                 field("attempt", &TaskFact::attempt),
                 field("retries_left", &TaskFact::retries_left),
                 field("cancelled", &TaskFact::cancelled), field("missing", &TaskFact::missing),
                 field("arguments", &TaskFact::arguments),
                 field("demand_class", &TaskFact::demand_class), field("ahead", &TaskFact::ahead),
                 field("waiting", &TaskFact::waiting), field("slots", &TaskFact::slots),
                 field("executor", &TaskFact::executor), field("node", &TaskFact::node),
                 field("reason", &TaskFact::reason), field("error", &TaskFact::error),
                 field("preemptions", &TaskFact::preemptions), field("run_time", &TaskFact::run_time),
                 field("awaited", &TaskFact::awaited), field("tensors", &TaskFact::tensors));
  }
  friend bool operator==(const TaskFact&, const TaskFact&) = default;
};

// Tasks of one name in one phase. Ended ones are counted since the owner started.
struct TaskCount {
  std::string name;
  TaskPhase phase = TaskPhase::waits_for_arguments;
  std::uint64_t count = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("name", &TaskCount::name), field("phase", &TaskCount::phase),
                 field("count", &TaskCount::count));
  }
  friend bool operator==(const TaskCount&, const TaskCount&) = default;
};

// Head to owner: which tasks do you have? Answered by TasksTold.
struct AskTasks {
  std::uint64_t request = 0;
  std::string id;    // not empty: those whose id, or a result's id, begins with these digits
  std::string name;  // not empty: of this name alone
  std::vector<TaskPhase> phases;  // not empty: in one of these alone
  std::uint64_t limit = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &AskTasks::request), field("id", &AskTasks::id),
                 field("name", &AskTasks::name), field("phases", &AskTasks::phases),
                 field("limit", &AskTasks::limit));
  }
  friend bool operator==(const AskTasks&, const AskTasks&) = default;
};

// Owner to head.
struct TasksTold {
  std::uint64_t request = 0;
  std::vector<TaskFact> tasks;
  std::uint64_t left_out = 0;     // that were asked for as well; ended ones may be forgotten
  std::vector<TaskCount> counts;  // of all that were asked for; none where an id was given
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &TasksTold::request), field("tasks", &TasksTold::tasks),
                 field("left_out", &TasksTold::left_out), field("counts", &TasksTold::counts));
  }
  friend bool operator==(const TasksTold&, const TasksTold&) = default;
};

// Unrequested, with request 0: tasks of the sender that have failed.
using FailureReport = TasksTold;

// The error of a failed task on its way to a tool, which alone looks into it.
struct TaskError {
  TaskId task;
  Payload error;  // an encoded ErrorRecord
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("task", &TaskError::task), field("error", &TaskError::error));
  }
  friend bool operator==(const TaskError&, const TaskError&) = default;
};

}  // namespace mobula::internal
