// Results held in an executor, and use of a device beyond its share.
#include "client/executor/core/executor_fixture.h"

namespace mobula::internal::executor {
namespace {

TEST_F(Executor, HoldingResults_StaysUntilFreed) {
  be_task_executor(1);
  push(owner, 1);
  step(ResultsHeld{two_results});
  ASSERT_EQ(sent<ResidentStateChanged>().size(), 1u);
  EXPECT_TRUE(sent<ResidentStateChanged>()[0].on);
  finish(running_.at(0).token);
  EXPECT_EQ(sent<CallReply>().size(), 1u);
  EXPECT_TRUE(sent<StreamClosing>().empty());
  push(owner, 2);
  EXPECT_EQ(core_.running(), 1u) << "a call that needs the results runs here";
  finish(running_.at(1).token);
  EXPECT_FALSE(core_.leaving());
  step(ResultsHeld{});
  EXPECT_FALSE(sent<ResidentStateChanged>().at(0).on);
  EXPECT_TRUE(core_.leaving());
}

TEST_F(Executor, NotifiesAgentOfResidentSlot) {
  be_task_executor();
  push(owner, 1);
  step(ResultsHeld{two_results});
  finish(running_.at(0).token);
  EXPECT_TRUE(sent_to_agent<ExecutorResident>().empty()) << "the next call may be on its way";
  EXPECT_EQ(core_.next_deadline(), now_ + 5ms);
  pass(5ms);
  ASSERT_EQ(sent_to_agent<ExecutorResident>().size(), 1u);
  EXPECT_EQ(sent_to_agent<ExecutorResident>()[0].residence, two_results);
  step(ResultsHeld{{1, 100, ObjectId::of(8)}});
  EXPECT_TRUE(sent_to_agent<ExecutorResident>().empty())
      << "released refs are reported at an interval";
  pass(1s);
  EXPECT_EQ(sent_to_agent<ExecutorResident>().at(0).residence.results, 1);
  push(owner, 2);
  EXPECT_FALSE(sent_to_agent<ExecutorResident>().at(0).residence.any()) << "it works";
}

TEST_F(Executor, SlotReturned_StoresHeldResults) {
  keeps_tensors_ = true;
  be_task_executor();
  push(owner, 1);
  step(ResultsHeld{two_results});
  finish(running_.at(0).token);
  step(EndRequested{false, true});
  EXPECT_EQ(commanded<Evacuate>().size(), 1u) << "evacuation starts at once";
  EXPECT_EQ(sent_to_agent<ExecutorResident>().size(), 1u) << "so that it is given the time";
  EXPECT_TRUE(commanded<Leave>().empty());
  step(Evacuated{});
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(Executor, HoldingNothing_ExitsAtOnce) {
  be_task_executor();
  step(EndRequested{false, true});
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(Executor, JobEnded_StoresNothing) {
  keeps_tensors_ = true;
  be_task_executor();
  push(owner, 1);
  step(ResultsHeld{two_results});
  finish(running_.at(0).token);
  step(EndRequested{false, true});
  step(EndRequested{false, false});
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(Executor, ShareExceeded_CallFailsAndProcessEnds) {
  be_task_executor();
  push(owner, 1);
  step(ShareExceeded{"4 of 3 bytes"});
  EXPECT_EQ(commanded<CancelRunning>().size(), 1u)
      << "a task that polls for cancellation may end sooner";
  finish(running_.at(0).token);
  ASSERT_EQ(sent<CallReply>().size(), 1u);
  const CallReply reply = sent<CallReply>()[0];
  EXPECT_EQ(reply.outcome, CallOutcome::failed);
  const auto error = decode<ErrorRecord>(reply.results.at(0).bytes.bytes());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::out_of_memory);
  EXPECT_EQ(error->text, "4 of 3 bytes");
  EXPECT_TRUE(core_.leaving());
}

TEST_F(Executor, ActorExceedsShare_LosesOnlyThatCall) {
  be_actor();
  push(1, 1);
  step(ShareExceeded{"4 of 3 bytes"});
  finish(running_.back().token);
  EXPECT_EQ(sent<CallReply>(1).at(0).outcome, CallOutcome::failed);
  push(1, 2);
  EXPECT_EQ(core_.running(), 1u);
  finish(running_.back().token);
  EXPECT_EQ(sent<CallReply>(1).at(0).outcome, CallOutcome::value);
}

}  // namespace
}  // namespace mobula::internal::executor
