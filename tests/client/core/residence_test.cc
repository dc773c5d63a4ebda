// Slots whose executors hold results are kept, preferred by consumers, and returned on demand.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class ResidenceTest : public SmallClient {
 protected:
  // Replies with a value that refers to tensor elements in that executor.
  void reply_with_tensor(std::uint64_t executor) {
    say(executor, ResidentStateChanged{true});
    const auto call = calls_at(executor).at(0);
    CallReply answer;
    answer.number = call.number;
    answer.task = call.call.task;
    ValueRecord made = value("made");
    RefRecord elements{ObjectId::of(900 + executor), node(), ProcessId::of(executor), {}};
    elements.tensor = TensorRecord{1 << 20, true, {.direct = true}, {}};
    made.contained.push_back(elements);
    answer.results.push_back(std::move(made));
    answer.run_time = Duration(1s);  // long enough that no call queues behind another
    reply(executor, answer);
    step(ReceivedFromAgent{HoldObjectReply{ObjectId::of(900 + executor)}});
  }
  TaskId consume(TaskId made) {
    SubmitTask consumer = task(50);
    consumer.call.arguments.edit().push_back(by_ref({result(made), node(), ProcessId::of(1), {}}));
    return submit(consumer);
  }
};

TEST_F(ResidenceTest, KeepsIdleResidentSlotUntilRecall) {
  submit();
  slot(3, 20);
  reply_with_tensor(20);
  pass(Duration(5s));
  EXPECT_TRUE(to_head<ReturnSlot>().empty());
  head(RecallSlot{SlotId::of(3), "another demand waits for the capacity of resident results"});
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
}

// A deadline in the past would keep the loop of the process running.
TEST_F(ResidenceTest, ResidentSlot_HasNoDeadlineInThePast) {
  submit();
  slot(3, 20);
  reply_with_tensor(20);
  for (int i = 0; i < 10; ++i) pass(Duration(5s));
  const auto due = core_.next_deadline();
  EXPECT_TRUE(!due || *due > now_);
}

TEST_F(ResidenceTest, NothingHeld_ReturnsIdleSlot) {
  submit();
  slot(3, 20);
  reply_with_tensor(20);
  pass(Duration(5s));
  say(20, ResidentStateChanged{false});
  EXPECT_TRUE(to_head<ReturnSlot>().empty());
  pass(Duration(200ms));
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
}

TEST_F(ResidenceTest, StreamBroken_LearnsThatNothingIsHeld) {
  submit();
  slot(3, 20);
  reply_with_tensor(20);
  pass(Duration(100ms));
  step(StreamEnded{ProcessId::of(20)});
  pass(Duration(100ms));
  EXPECT_FALSE(commanded<SendToExecutor>().empty())
      << "which opens it again: the executor speaks over nothing else";
  say(20, ResidentStateChanged{false});
  pass(Duration(200ms));
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
}

TEST_F(ResidenceTest, SendsConsumersToTensorHolder) {
  const TaskId first = submit();
  slot(3, 20);
  reply_with_tensor(20);
  const TaskId second = submit();
  submit();
  slot(4, 21);
  EXPECT_EQ(calls_at(20).size() + calls_at(21).size(), 2u);
  reply_with_tensor(20);
  reply_with_tensor(21);
  (void)second;
  consume(first);
  ASSERT_EQ(calls_at(20).size(), 1u) << "not to the other one, which is as idle";
  EXPECT_TRUE(calls_at(21).empty());
}

}  // namespace
}  // namespace mobula::internal::client
