// Planned exits: submitted calls are awaited, actors are destroyed, and dead callers are not
// awaited.
#include "client/executor/core/executor_fixture.h"

namespace mobula::internal::executor {
namespace {

using PlannedEnd = Executor;

TEST_F(PlannedEnd, AwaitsSubmittedCalls) {
  has_submitted_ = true;
  be_task_executor(1);
  push(owner, 1);
  finish(running_.at(0).token);
  acknowledge(owner, 2);
  EXPECT_EQ(commanded<AwaitSubmitted>().size(), 1u);
  step(SubmittedPending{3, "log"});
  const auto departing = sent_to_agent<ExecutorBlocked>();
  ASSERT_EQ(departing.size(), 1u);
  EXPECT_TRUE(departing[0].departing);
  EXPECT_FALSE(departing[0].on);
  EXPECT_EQ(departing[0].submitted, 3u);
  pass(ExecutorOptions{}.leave_timeout * 20);
  EXPECT_TRUE(commanded<Leave>().empty());
  step(SubmittedDone{});
  ASSERT_EQ(commanded<Leave>().size(), 1u);
  EXPECT_TRUE(commanded<Leave>()[0].exit_handlers);
}

TEST_F(PlannedEnd, ReleasesResourcesWhileCallsArePending) {
  has_submitted_ = true;
  be_task_executor(1);
  push(owner, 1);
  finish(running_.at(0).token);
  acknowledge(owner, 2);
  step(SubmittedPending{1, "log"});
  EXPECT_EQ(core_.next_deadline(), now_ + ExecutorOptions{}.release_delay);
  pass(ExecutorOptions{}.release_delay);
  const auto departed = sent_to_agent<ExecutorBlocked>();
  ASSERT_EQ(departed.size(), 1u);
  EXPECT_TRUE(departed[0].on);
  EXPECT_TRUE(departed[0].departing);
  EXPECT_EQ(core_.next_deadline(), std::nullopt);
}

TEST_F(PlannedEnd, AwaitsCallsAfterItsSlotWasReturned) {
  has_submitted_ = true;
  be_task_executor();
  push(owner, 1);
  finish(running_.at(0).token);
  step(EndRequested{false, true});
  EXPECT_TRUE(commanded<Leave>().empty());
  step(SubmittedDone{});
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(PlannedEnd, LeavesAtOnceWhenEndedAbruptly) {
  has_submitted_ = true;
  be_task_executor();
  step(EndRequested{true});
  step(SubmittedPending{1, "log"});
  step(EndRequested{false, false});
  ASSERT_EQ(commanded<Leave>().size(), 1u);
  EXPECT_FALSE(commanded<Leave>()[0].exit_handlers);
}

TEST_F(PlannedEnd, AwaitsNoAcknowledgementOfClosedCaller) {
  be_actor();
  push(2, 1);
  finish(running_.at(1).token);
  say(2, ReplyClaimed{0, false, true});
  step(EndRequested{true});
  EXPECT_TRUE(sent<StreamClosing>(2).empty());
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(PlannedEnd, AwaitsNoCallerWithoutCalls) {
  be_actor();
  acknowledge(2, 0);
  step(EndRequested{true});
  EXPECT_TRUE(sent<StreamClosing>(2).empty());
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(PlannedEnd, AwaitsReturnedCaller) {
  be_actor();
  say(2, ReplyClaimed{0, false, true});
  push(2, 1);
  finish(running_.at(1).token);
  step(EndRequested{true});
  EXPECT_EQ(sent<StreamClosing>(2).size(), 1u);
  EXPECT_TRUE(commanded<Leave>().empty());
}

TEST_F(PlannedEnd, RepliesAfterItsNameIsReleased) {
  be_actor(2, "shared");
  push(2, 1);
  push(3, 1);
  finish(running_.at(1).token, {}, true);
  EXPECT_EQ(commanded<ReleaseName>().size(), 1u);
  EXPECT_TRUE(sent<CallReply>(2).empty());
  finish(running_.at(2).token);
  EXPECT_TRUE(sent<CallReply>(3).empty());
  EXPECT_TRUE(commanded<DestroyActor>().empty());
  step(NameReleased{});
  EXPECT_EQ(sent<CallReply>(2).size(), 1u);
  EXPECT_EQ(sent<CallReply>(3).size(), 1u);
  acknowledge(2, 2);
  acknowledge(3, 2);
  ASSERT_EQ(commanded<Leave>().size(), 1u);
  EXPECT_EQ(commanded<Leave>()[0].kind, EndKind::intended);
}

// Four calls outlast the call that exits: the first ends with its cancellation, the second with a
// value, and the others do not end.
TEST_F(PlannedEnd, ExitActor_CutsCallsAfterItsGrace) {
  be_actor(5);
  for (std::uint64_t number = 1; number <= 5; ++number) push(2, number);
  finish(running_.at(1).token, {}, true);
  EXPECT_EQ(sent<CallReply>(2).size(), 1u);
  const Time exits = now_;
  pass(50ms);
  acknowledge(2, 5);  // with the reports of four starts
  EXPECT_EQ(core_.next_deadline(), exits + ExecutorOptions{}.exit_grace);
  pass(ExecutorOptions{}.exit_grace - 51ms);
  EXPECT_TRUE(commanded<CancelRunning>().empty());
  say(2, CancelCall{5, false, false});
  pass(1ms);
  EXPECT_EQ(commanded<CancelRunning>().size(), 4u);
  EXPECT_TRUE(commanded<Leave>().empty());

  CallFinished resumed;
  resumed.token = running_.at(2).token;
  resumed.outcome = CallOutcome::exception;
  resumed.results.resize(1);
  step(resumed);
  const auto cut = sent<CallReply>(2);
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0].outcome, CallOutcome::failed);
  const auto error = decode<ErrorRecord>(cut[0].results.at(0).bytes.bytes());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::actor_died);
  EXPECT_EQ(error->actor, ActorId::of(1));
  EXPECT_NE(error->text.find("30 s after the actor called exit_actor()"), std::string::npos)
      << error->text;
  finish(running_.at(3).token);
  EXPECT_EQ(sent<CallReply>(2).at(0).outcome, CallOutcome::value);

  pass(ExecutorOptions{}.cancelled_grace);
  const auto replies = sent<CallReply>(2);
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].outcome, CallOutcome::failed);
  EXPECT_EQ(replies[1].outcome, CallOutcome::cancelled) << "as its caller requested";
  EXPECT_TRUE(commanded<DestroyActor>().empty()) << "calls still run";
  acknowledge(2, 10);
  ASSERT_EQ(commanded<Leave>().size(), 1u);
  EXPECT_EQ(commanded<Leave>()[0].kind, EndKind::intended);
  EXPECT_EQ(commanded<Leave>()[0].cut_calls, 2u);
  EXPECT_FALSE(commanded<Leave>()[0].exit_handlers);
}

TEST_F(PlannedEnd, ExitActor_CancelledCallsAllowDestructor) {
  be_actor(2);
  push(2, 1);
  push(2, 2);
  finish(running_.at(1).token, {}, true);
  pass(ExecutorOptions{}.exit_grace);
  EXPECT_EQ(commanded<CancelRunning>().size(), 1u);
  finish(running_.at(2).token);
  EXPECT_EQ(commanded<DestroyActor>().size(), 1u);
  acknowledge(2, 4);
  ASSERT_EQ(commanded<Leave>().size(), 1u);
  EXPECT_EQ(commanded<Leave>()[0].cut_calls, 0u);
  EXPECT_TRUE(commanded<Leave>()[0].exit_handlers);
}

TEST_F(PlannedEnd, RepeatsNameReleaseForTenSeconds) {
  be_actor(1, "shared");
  push(2, 1);
  finish(running_.at(1).token, {}, true);
  EXPECT_EQ(core_.next_deadline(), now_ + ExecutorOptions{}.name_release_interval);
  for (int i = 1; i < 10; ++i) {
    pass(ExecutorOptions{}.name_release_interval);
    EXPECT_EQ(commanded<ReleaseName>().size(), 1u);
    EXPECT_TRUE(sent<CallReply>(2).empty());
  }
  pass(ExecutorOptions{}.name_release_interval);
  EXPECT_TRUE(commanded<ReleaseName>().empty());
  EXPECT_EQ(sent<CallReply>(2).size(), 1u);
}

TEST_F(PlannedEnd, RepliesAtOnceWithoutName) {
  be_actor();
  push(2, 1);
  finish(running_.at(1).token, {}, true);
  EXPECT_TRUE(commanded<ReleaseName>().empty());
  EXPECT_EQ(sent<CallReply>(2).size(), 1u);
}

TEST_F(PlannedEnd, JobEnded_AwaitsNoNameRelease) {
  be_actor(1, "shared");
  push(2, 1);
  finish(running_.at(1).token, {}, true);
  step(EndRequested{false, false, true});
  EXPECT_EQ(commanded<DestroyActor>().size(), 1u);
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(PlannedEnd, DestroysActorBeforeLeaving) {
  destructor_hangs_ = true;
  be_actor();
  step(EndRequested{true});
  EXPECT_EQ(commanded<DestroyActor>().size(), 1u);
  EXPECT_TRUE(commanded<Leave>().empty());
  step(ActorDestroyed{});
  EXPECT_EQ(commanded<AwaitSubmitted>().size(), 1u);
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(PlannedEnd, DestructorHangs_LeavesAfterTimeout) {
  destructor_hangs_ = true;
  be_actor();
  step(EndRequested{true});
  EXPECT_EQ(commanded<DestroyActor>().size(), 1u);
  EXPECT_EQ(core_.next_deadline(), now_ + ExecutorOptions{}.destructor_timeout);
  pass(ExecutorOptions{}.destructor_timeout - 1ms);
  EXPECT_TRUE(commanded<Leave>().empty());
  pass(1ms);
  ASSERT_EQ(commanded<Leave>().size(), 1u);
  EXPECT_FALSE(commanded<Leave>()[0].exit_handlers) << "the destructor still runs";
  EXPECT_TRUE(commanded<Leave>()[0].destructor_overdue);
  EXPECT_EQ(sent_to_agent<ExecutorRetires>().size(), 1u);
  step(ActorDestroyed{});
  EXPECT_TRUE(commanded<Leave>().empty()) << "it has left";
}

TEST_F(PlannedEnd, DestroysActorWhenJobEnds) {
  has_submitted_ = true;
  be_actor();
  push(2, 1);
  step(EndRequested{false, false, true});
  EXPECT_EQ(commanded<CancelRunning>().size(), 1u);
  EXPECT_TRUE(commanded<Leave>().empty());
  finish(running_.at(1).token);
  EXPECT_TRUE(commanded<SendToCaller>().empty())
      << "the caller learns of the end from the head, not of a cancellation";
  EXPECT_EQ(commanded<DestroyActor>().size(), 1u);
  EXPECT_TRUE(commanded<AwaitSubmitted>().empty());
  ASSERT_EQ(commanded<Leave>().size(), 1u);
  EXPECT_TRUE(commanded<Leave>()[0].exit_handlers);
}

}  // namespace
}  // namespace mobula::internal::executor
