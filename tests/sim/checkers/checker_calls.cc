// User-visible behavior: results against the oracle, order of calls, and attempts.
#include <algorithm>

#include "protocol/codec/messages.h"
#include "sim/head_role.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {
namespace {

// From the death of a caller, when no faults follow, until all agents know it.
constexpr Duration dead_caller_timeout = 10s;

// The class of an actor, as the plan of the history states it.
const Plan& class_of(const World& world, const Process& actor) {
  const auto& constructor = actor.assignment().actor.constructor;
  return world.plan().plans.at(constructor.form->function.offset);
}

std::size_t limit_of(const Plan& type, const std::string& group) {
  const auto named = std::ranges::find(type.groups, group, &ConcurrencyGroup::name);
  const auto limit = named == type.groups.end() ? type.max_concurrency : named->max_concurrency;
  return static_cast<std::size_t>(std::max(1, limit));
}

}  // namespace

void Checkers::submitted(Process& process, const CallRecord& call, Expected expected) {
  TaskMark& mark = tasks_[call.task];
  Submission& submission = mark.submitted[process.id()];
  if (submission.number == 0 || submission.started) submission = {++submissions_, false};
  mark.result = result_id(call.task, 0);
  const auto& plan = world_.plan().plans.at(call.form->function.offset);
  mark.max_retries = plan.max_retries;
  note_recomputable(call, plan);
  expected_.insert_or_assign(mark.result, std::move(expected));
  whole_submitted(call, call.form->job);
}

Expected Checkers::expected(ObjectId object) const {
  const auto at = expected_.find(object);
  if (at != expected_.end()) return at->second;
  Expected unknown;
  unknown.handle = true;  // the actor's handle; no other value is unknown
  return unknown;
}

bool Checkers::has_slot(const Process& process) const {
  if (world_.head() == nullptr) return false;
  for (const auto& slot : world_.head()->core().view().slots) {
    if (slot.slot == process.slot()) return true;
  }
  return false;
}

// The head learns from the registration of a new agent that the previous one is dead.
void Checkers::caller_lives(const Process& process, const executor::RunCall& run) {
  const auto dead = dead_executors_.find(run.caller);
  if (dead == dead_executors_.end() || run.call.form->kind == CallKind::construct_actor) return;
  const Duration since = world_.now() - std::max(dead->second, world_.plan().heal);
  if (since <= dead_caller_timeout) return;
  world_.violation("callers", process.name() + " starts call " + run.call.form->name + " " +
                                  std::to_string(since / 1s) + " s after its caller died");
}

// Neither a restart of the head nor the death of a node gives such an actor a new state. The head
// may have lost the row of a detached or named actor, or restores a detached one.
void Checkers::runs_in_one_life(const Process& process, const executor::RunCall& run) {
  const ActorSpec& actor = process.assignment().actor;
  if (actor.actor.empty() || actor.max_restarts != 0 || actor.detached || !actor.name.empty() ||
      actor.owner != run.caller || run.call.form->kind == CallKind::construct_actor)
    return;
  const auto life = lives_.emplace(actor.actor, process.id()).first->second;
  if (life == process.id()) return;
  world_.violation("restarts",
                   process.name() + " runs call " + run.call.form->name +
                       "; the earlier calls of this actor, which has no restarts, ran in " +
                       life.brief());
}

void Checkers::call_started(Process& process, const executor::RunCall& run) {
  ++calls_run_;
  caller_lives(process, run);
  runs_in_one_life(process, run);
  whole_started(run.call, process.assignment().demand_class.request.resources);
  const auto& assignment = process.assignment();
  const bool actor = !assignment.actor.actor.empty();
  Running& running = running_[process.id()];
  const std::string& group = run.call.form->group;
  const auto now = ++running.now[group];
  const auto limit = actor ? limit_of(class_of(world_, process), group) : 1;
  if (now > limit) {
    world_.violation("order", process.name() + " runs " + std::to_string(now) +
                                  " calls at once, its limit is " + std::to_string(limit));
  }
  if (run.call.form->kind == CallKind::construct_actor) return;
  TaskMark& mark = tasks_[run.call.task];
  mark.runs.insert({process.id(), run.call.attempt});
  memory_call_starts(process, run.call);
  // On a node that the head has declared dead, an earlier attempt may still begin until the node is
  // fenced.
  const bool given_up = peers_overlap_ && !has_slot(process);
  if (mark.answered_to == run.caller && !streams_lose_ && !given_up) {
    world_.violation("results", "task " + run.call.form->name + " runs again in " + process.name() +
                                    ", and its caller has been given its value");
  }
  if (!attempts_.insert({run.caller, {run.call.task, run.call.attempt}}).second && !streams_lose_ &&
      !given_up) {
    world_.violation("grants", "attempt " + std::to_string(run.call.attempt) + " of task " +
                                   run.call.form->name + " runs twice, now in " + process.name());
  }
  if (!actor) return;
  auto& last = running.last[{run.caller, group}];
  Submission& submission = mark.submitted[run.caller];
  submission.started = true;
  if (submission.number < last && !class_of(world_, process).out_of_order) {
    world_.violation("order", process.name() + " starts call " + run.call.form->name +
                                  " after a later one of the same caller");
  }
  last = std::max(last, submission.number);
}

void Checkers::sent_to_the_dead(const Process& executor, TaskId task, std::uint32_t attempt) {
  tasks_[task].lost.insert({executor.id(), attempt});
}

void Checkers::call_ended(Process& process, const executor::RunCall& run) {
  actor_call_ended(process, run);
  auto& running = running_[process.id()];
  auto& now = running.now[run.call.form->group];
  if (now > 0) --now;
  in_memory_.erase(process.id());
}

void Checkers::executor_replied(Process& process, ProcessId caller, const ExecutorFrame& frame) {
  if (!frame.message) return;
  const auto* reply = std::get_if<CallReply>(&*frame.message);
  if (reply != nullptr && reply->outcome == CallOutcome::cancelled) run_was_ended(process, *reply);
  if (reply == nullptr || reply->outcome != CallOutcome::value) return;
  for (const Handover& handover : reply->handovers)
    tasks_[handover.call.task].submitted.erase(process.id());
  const auto at = tasks_.find(reply->task);
  if (at == tasks_.end()) return;
  at->second.answered = true;
  if (process.assignment().actor.actor.empty()) made_with_elements(caller, *reply);
  // Stored values can be lost and recomputed. So can tensor elements that are lost with their
  // process.
  const bool stored = std::ranges::any_of(reply->results, [](const ValueRecord& value) {
    const auto is_tensor = [](const RefRecord& ref) { return !ref.tensor.is_empty(); };
    return value.in_store || std::ranges::any_of(value.contained, is_tensor);
  });
  if (!stored) at->second.answered_to = caller;
}

void Checkers::exits_as_planned(Process& process) {
  if (const auto calls = process.deferred_calls(); calls > 0) {
    world_.violation("deferred", process.name() + " exits as planned, and " +
                                     std::to_string(calls) + " deferred calls are not complete");
  }
  if (lossy_) return;
  for (const auto& [task, mark] : tasks_) {
    if (!mark.submitted.contains(process.id()) || !mark.runs.empty()) continue;
    const Expected result = expected(mark.result);
    if (result.must_fail || result.may_fail) continue;
    world_.violation("submitted", process.name() + " exits as planned, and task " + task.brief() +
                                      ", which it has submitted, has not started");
  }
}

void Checkers::value_read(Process& process, ObjectId object, const Reading& reading) {
  const auto at = expected_.find(object);
  if (at == expected_.end()) {
    return world_.violation(
        "results", process.name() + " reads object " + object.brief() + ", which no process made");
  }
  const Expected& expected = at->second;
  if (!reading.error) {
    if (expected.must_fail) {
      return world_.violation("results",
                              "object " + object.brief() + " has a value and must be an error");
    }
    if (reading.number != expected.number) {
      world_.violation("results", process.name() + " reads a wrong value of object " +
                                      object.brief() + ": " + std::to_string(reading.number) +
                                      ", not " + std::to_string(expected.number));
    }
    return;
  }
  const ErrorRecord& error = *reading.error;
  if (error.kind == ErrorKind::object_lost) reads_that_elements_are_lost(process, object);
  const bool of_arguments = error.kind == ErrorKind::object_lost && recomputable_.contains(object);
  if (of_arguments && process.is_driver()) {
    return world_.violation("results",
                            process.name() + " reads a loss that it can recompute: " + error.text);
  }
  const auto task = tasks_.find(error.task);
  const bool crashed =
      error.kind == ErrorKind::worker_crashed || error.kind == ErrorKind::out_of_memory;
  if (crashed && task != tasks_.end()) {
    const TaskMark& mark = task->second;
    if (mark.max_retries < 0) {
      return world_.violation("results", "a task with endless retries failed: " + error.text);
    }
    const auto ran = static_cast<std::int32_t>(mark.runs.size() + mark.lost.size() -
                                               mark.ended_for_others.size());
    if (ran <= mark.max_retries && !streams_lose_) {
      return world_.violation(
          "results", "a task that may be retried " + std::to_string(mark.max_retries) +
                         " times failed after " + std::to_string(ran) + " runs: " + error.text);
    }
    if (mark.answered && !streams_lose_ && !expected.must_fail) {
      return world_.violation("results",
                              "a task that was answered is reported as crashed: " + error.text);
    }
  }
  const bool actor_lost =
      error.kind == ErrorKind::actor_died || error.kind == ErrorKind::actor_unavailable;
  if (actor_lost && task != tasks_.end() && task->second.answered && !streams_lose_ &&
      !expected.must_fail) {
    return world_.violation("results",
                            "a call that was answered is reported as failed: " + error.text);
  }
  if (!expected.must_fail && !expected.may_fail && !lossy_) {
    world_.violation("results", process.name() + " reads an error without a cause (kind " +
                                    std::to_string(static_cast<int>(error.kind)) +
                                    "): " + error.text);
  }
}

void Checkers::store_refused(Process& process, const Failure& failure) {
  if (!lossy_) world_.violation("objects", process.name() + " was refused room: " + failure.text);
}

void Checkers::lost_name(Process& process, const Plan& plan) {
  if (!lossy_)
    world_.violation("durable", process.name() + " does not find the actor " + plan.actor_name);
}

}  // namespace mobula::internal::sim
