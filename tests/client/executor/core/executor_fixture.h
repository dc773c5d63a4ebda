// The core of one executor. The test acts as its callers and its agent.
// Thread: owner.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/model/error_record.h"
#include "client/executor/core/executor_core.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::executor {

class Executor : public testing::Test {
 protected:
  static constexpr std::uint64_t owner = 1;  // lessee of task slots

  void be_task_executor(std::int32_t max_calls = 0) {
    AssignExecutor assignment;
    assignment.lessee = ProcessId::of(owner);
    assignment.demand_class.max_calls = max_calls;
    assignment.cpu_release_delay = 5ms;
    step(Assigned{assignment});
  }
  void be_actor(std::int32_t max_concurrency = 1, const std::string& name = {}) {
    AssignExecutor assignment;
    assignment.actor.name = name;
    assignment.actor.actor = ActorId::of(1);
    assignment.actor.max_concurrency = max_concurrency;
    assignment.cpu_release_delay = 5ms;
    step(Assigned{assignment});
    ASSERT_EQ(started().size(), 1u);
    EXPECT_EQ(started()[0].call.form->kind, CallKind::construct_actor);
    finish(started()[0].token);
  }

  void step(Event event) {
    out_.clear();
    core_.step(now_, std::move(event), out_);
    for (std::size_t i = 0; i < out_.size(); ++i) {
      const bool destroys = std::holds_alternative<DestroyActor>(out_[i]);
      const bool awaits = std::holds_alternative<AwaitSubmitted>(out_[i]) && !has_submitted_;
      const bool evacuates = std::holds_alternative<Evacuate>(out_[i]) && !keeps_tensors_;
      if (destroys && !destructor_hangs_) core_.step(now_, ActorDestroyed{}, out_);
      if (awaits) core_.step(now_, SubmittedDone{}, out_);
      if (evacuates) core_.step(now_, Evacuated{}, out_);
    }
    for (const auto& each : out_) {
      if (const auto* run = std::get_if<RunCall>(&each)) running_.push_back(*run);
    }
  }
  void pass(Duration time) {
    now_ = now_ + time;
    step(Tick{});
  }
  void say(std::uint64_t caller, CallerMessage message) {
    ReceivedFromCaller said;
    said.caller = ProcessId::of(caller);
    said.frame.sequence = ++sent_[caller];
    said.frame.message = std::move(message);
    step(said);
  }
  // The caller has processed all messages through this number.
  void acknowledge(std::uint64_t caller, std::uint64_t through) {
    ReceivedFromCaller said;
    said.caller = ProcessId::of(caller);
    said.frame.acknowledged = through;
    step(said);
  }
  void push(std::uint64_t caller, std::uint64_t number, bool with_ref = false, bool beside = false,
            const std::string& group = {}) {
    PushCall push;
    push.number = number;
    push.round = round_;
    push.call.form.edit().beside = beside;
    push.call.form.edit().group = group;
    push.call.task = TaskId::of(caller * 100 + number);
    push.call.form.edit().kind = CallKind::task;
    if (with_ref) {
      Argument argument;
      argument.is_ref = true;
      argument.ref.object = ObjectId::of(9);
      push.call.arguments.edit().push_back(argument);
    }
    say(caller, push);
  }
  void finish(std::uint64_t token, RefRecords pinned = {}, bool leaves = false) {
    CallFinished finished;
    finished.leave = leaves;
    finished.token = token;
    finished.results.resize(1);
    finished.pinned = std::move(pinned);
    step(finished);
  }

  std::vector<RunCall> started() const { return commanded<RunCall>(); }
  std::vector<TaskId> order() const {
    std::vector<TaskId> tasks;
    for (const auto& each : running_) tasks.push_back(each.call.task);
    return tasks;
  }
  template <class C>
  std::vector<C> commanded() const {
    std::vector<C> found;
    for (const auto& each : out_) {
      if (const auto* command = std::get_if<C>(&each)) found.push_back(*command);
    }
    return found;
  }
  template <class M>
  std::vector<M> sent(std::uint64_t caller = owner) const {
    std::vector<M> found;
    for (const auto& each : out_) {
      const auto* frame = std::get_if<SendToCaller>(&each);
      if (frame == nullptr || frame->caller != ProcessId::of(caller) || !frame->frame.message)
        continue;
      if (const auto* message = std::get_if<M>(&*frame->frame.message)) found.push_back(*message);
    }
    return found;
  }
  ExecutorMessage last_sent(std::uint64_t caller) const {
    ExecutorMessage last;
    for (const auto& each : out_) {
      const auto* frame = std::get_if<SendToCaller>(&each);
      if (frame && frame->caller == ProcessId::of(caller) && frame->frame.message) {
        last = *frame->frame.message;
      }
    }
    return last;
  }
  template <class M>
  std::vector<M> sent_to_agent() const {
    std::vector<M> found;
    for (const auto& each : out_) {
      const auto* agent = std::get_if<SendToAgent>(&each);
      const auto* message = agent == nullptr ? nullptr : std::get_if<M>(&agent->message);
      if (message != nullptr) found.push_back(*message);
    }
    return found;
  }

  ExecutorCore core_{ExecutorOptions{}};
  Time now_ = Time::from_ns(1);
  std::vector<Command> out_;
  std::vector<RunCall> running_;   // in order of start
  std::uint64_t round_ = 0;        // round of calls
  bool has_submitted_ = false;     // submitted calls are unfinished when it exits
  bool destructor_hangs_ = false;  // the destructor of the actor never returns
  bool keeps_tensors_ = false;     // its tensors still exist when it exits
  std::map<std::uint64_t, std::uint64_t> sent_;
};

}  // namespace mobula::internal::executor
