// Faults of the client core that the simulator found, each with the steps that showed it.
#include <gtest/gtest.h>

#include <algorithm>

#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

class Streams : public testing::Test {
 protected:
  Streams() {
    StartJob job;
    job.job = JobId::of(1);
    step(Attached{NodeId::of(1), ProcessId::of(9), job});
  }

  std::vector<Command> step(Event event) {
    std::vector<Command> commands;
    core_.step(now_, std::move(event), commands);
    return commands;
  }
  void submit() {
    SubmitTask task;
    task.call.task = TaskId::of(++tasks_);
    task.demand_class.id = ClassId::of(5);
    step(task);
  }
  std::vector<Command> slot_ready(std::uint32_t generation, ProcessId executor) {
    SlotReady ready;
    ready.slot = SlotId::of(3);
    ready.demand_class = ClassId::of(5);
    ready.generation = generation;
    ready.endpoint.process = executor;
    return step(ReceivedFromAgent{FromHead{ready}});
  }
  std::vector<Command> from_executor(ExecutorMessage message) {
    ReceivedFromExecutor said;
    said.executor = ProcessId::of(20);
    said.frame.sequence = ++said_;
    said.frame.acknowledged = 1;
    said.frame.message = std::move(message);
    return step(said);
  }
  static CallReply reply_to(std::uint64_t number, std::uint64_t task) {
    CallReply reply;
    reply.number = number;
    reply.task = TaskId::of(task);
    reply.results.resize(1);
    return reply;
  }
  static bool returned_in(const std::vector<Command>& commands) {
    return std::ranges::any_of(commands, [](const auto& each) {
      const auto* agent = std::get_if<SendToAgent>(&each);
      const auto* relay = agent ? std::get_if<ForHead>(&agent->message) : nullptr;
      return relay && std::holds_alternative<ReturnSlot>(relay->message);
    });
  }
  static bool talks_to_executor(const std::vector<Command>& commands) {
    return std::ranges::any_of(
        commands, [](const auto& each) { return std::holds_alternative<SendToExecutor>(each); });
  }

  static bool pushes_in(const std::vector<Command>& commands) {
    return std::ranges::any_of(commands, [](const auto& each) {
      const auto* sent = std::get_if<SendToExecutor>(&each);
      return sent && sent->frame.message && std::holds_alternative<PushCall>(*sent->frame.message);
    });
  }

  static std::vector<std::int64_t> wanted_in(const std::vector<Command>& commands) {
    std::vector<std::int64_t> wanted;
    for (const auto& each : commands) {
      const auto* agent = std::get_if<SendToAgent>(&each);
      const auto* relay = agent ? std::get_if<ForHead>(&agent->message) : nullptr;
      const auto* demand = relay ? std::get_if<Demand>(&relay->message) : nullptr;
      if (demand != nullptr) wanted.push_back(demand->wanted_slots);
    }
    return wanted;
  }

  static ClientOptions ids() {
    ClientOptions options;
    options.process = ProcessId::of(1);
    options.job = JobId::of(1);
    return options;
  }

  ClientCore core_{ids()};
  Time now_ = Time::from_ns(1);
  std::uint64_t tasks_ = 100;
  std::uint64_t said_ = 0;
};

TEST_F(Streams, BrokenWhileReplyIsDue_Reconnects) {
  submit();
  EXPECT_TRUE(talks_to_executor(slot_ready(0, ProcessId::of(20))));
  ReceivedFromExecutor taken;
  taken.executor = ProcessId::of(20);
  taken.frame.acknowledged = 1;
  step(taken);
  step(StreamEnded{ProcessId::of(20)});
  now_ = now_ + 100ms;
  EXPECT_TRUE(talks_to_executor(step(Tick{})));
}

TEST_F(Streams, SlotArrives_RestatesQueuedDemand) {
  submit();  // reported at once
  submit();  // reported later, because demand was sent just before
  EXPECT_TRUE(talks_to_executor(slot_ready(0, ProcessId::of(20))));
  now_ = now_ + 20ms;
  EXPECT_EQ(core_.next_deadline(), now_);
  EXPECT_EQ(wanted_in(step(Tick{})), std::vector<std::int64_t>{1});
}

TEST_F(Streams, RecalledBeforeReady_ReturnsAndRestatesDemand) {
  submit();
  RecallSlot recall;
  recall.slot = SlotId::of(3);
  const auto commands = step(ReceivedFromAgent{FromHead{recall}});
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(std::get<ForHead>(std::get<SendToAgent>(commands[0]).message).message,
            ProcessToHead(ReturnSlot{SlotId::of(3)}));
  EXPECT_FALSE(talks_to_executor(slot_ready(0, ProcessId::of(20))));
  now_ = now_ + 20ms;
  EXPECT_EQ(wanted_in(step(Tick{})), std::vector<std::int64_t>{1});
}

TEST_F(Streams, MeasuresIdleTimeFromEndOfCall) {
  submit();
  slot_ready(0, ProcessId::of(20));
  now_ = now_ + 10s;  // run time of the call
  EXPECT_FALSE(returned_in(from_executor(reply_to(1, 101))));
  now_ = now_ + 99ms;
  EXPECT_FALSE(returned_in(step(Tick{})));
  now_ = now_ + 1ms;
  EXPECT_TRUE(returned_in(step(Tick{})));
}

TEST_F(Streams, ReplyAcknowledged_StreamIsQuiet) {
  submit();
  slot_ready(0, ProcessId::of(20));
  EXPECT_FALSE(core_.is_quiet(ProcessId::of(20))) << "a call is under way";
  now_ = now_ + 10s;
  from_executor(reply_to(1, 101));
  EXPECT_FALSE(core_.is_quiet(ProcessId::of(20))) << "the reply has not been acknowledged";
  now_ = now_ + 20ms;
  step(Tick{});
  EXPECT_TRUE(core_.is_quiet(ProcessId::of(20)));
}

TEST_F(Streams, ExecutorClosing_AcknowledgesAtOnce) {
  submit();
  slot_ready(0, ProcessId::of(20));
  submit();
  EXPECT_TRUE(talks_to_executor(from_executor(StreamClosing{1})));
  const auto after_reply = from_executor(reply_to(1, 101));
  EXPECT_TRUE(talks_to_executor(after_reply));
  EXPECT_FALSE(pushes_in(after_reply)) << "the second call waits for the next executor";
}

TEST_F(Streams, ConnectsToNextExecutorBeforeCalls) {
  submit();
  slot_ready(0, ProcessId::of(20));
  from_executor(StreamClosing{1});
  from_executor(reply_to(1, 101));
  EXPECT_TRUE(talks_to_executor(slot_ready(1, ProcessId::of(21))));
}

TEST_F(Streams, IgnoresReadinessOfReturnedSlot) {
  slot_ready(0, ProcessId::of(20));  // no task waits, so it is returned
  submit();
  slot_ready(0, ProcessId::of(20));
  from_executor(reply_to(1, 101));
  now_ = now_ + 1s;
  step(Tick{});  // idle for long, so it is returned
  submit();
  EXPECT_FALSE(talks_to_executor(slot_ready(1, ProcessId::of(21))));
}

}  // namespace
}  // namespace mobula::internal::client
