// Order, concurrency, cancellation, and exit of one executor, between its callers and its agent.
#include "client/executor/core/executor_fixture.h"

namespace mobula::internal::executor {
namespace {

TEST_F(Executor, RunsTasksInOrder) {
  be_task_executor();
  push(owner, 1);
  push(owner, 2);
  EXPECT_EQ(core_.running(), 1u);
  finish(running_.at(0).token);
  ASSERT_EQ(sent<CallReply>().size(), 1u);
  EXPECT_EQ(sent<CallReply>()[0].number, 1u);
  EXPECT_EQ(order(), (std::vector{TaskId::of(101), TaskId::of(102)}));
}

TEST_F(Executor, RemembersWhenLatestCallsRan) {
  be_task_executor();
  push(owner, 1);
  const Time began = now_;
  pass(30ms);
  CallFinished finished;
  finished.token = running_.at(0).token;
  finished.run_time = 20ms;
  finished.outcome = CallOutcome::exception;
  step(finished);
  ASSERT_EQ(core_.ran().size(), 1u);
  const RanCallSpan& ran = core_.ran()[0];
  EXPECT_EQ(ran.task, TaskId::of(101));
  EXPECT_EQ(ran.ended, now_);
  EXPECT_EQ(ran.ended - ran.began, Duration(20ms)) << "of user code alone";
  EXPECT_LT(began, ran.began);
  EXPECT_TRUE(ran.failed);
  EXPECT_EQ(core_.ran().forgotten(), 0u);
}

TEST_F(Executor, RunsLibraryCallsDuringActorCall) {
  be_actor();
  push(7, 1);
  push(7, 2);
  push(7, 3, false, true);
  push(8, 1, false, true);
  EXPECT_EQ(core_.running(), 3u) << "one call of the actor, and two concurrent calls";
  EXPECT_EQ(core_.queued(), 1u);
  finish(running_.at(2).token);
  EXPECT_EQ(core_.queued(), 1u) << "its end is not the end of the actor's call";
  finish(running_.at(1).token);
  EXPECT_EQ(core_.queued(), 0u);
  EXPECT_EQ(order().back(), TaskId::of(702));
}

TEST_F(Executor, OnlyLibraryCallsRun_ReleasesCpu) {
  be_actor();
  push(7, 1);
  push(7, 2, false, true);
  step(CallBlocked{running_.at(1).token, true});
  pass(10ms);
  ASSERT_EQ(sent_to_agent<ExecutorBlocked>().size(), 1u);
  EXPECT_TRUE(sent_to_agent<ExecutorBlocked>()[0].on);
}

TEST_F(Executor, OneOfManyCallsRuns_KeepsCpu) {
  be_actor(3);
  for (std::uint64_t number = 1; number <= 3; ++number) push(7, number);
  for (std::size_t i = 1; i <= 2; ++i) {
    step(CallBlocked{running_.at(i).token, true});
    step(CallBlocked{running_.at(i).token, true});
  }
  pass(10ms);
  EXPECT_TRUE(sent_to_agent<ExecutorBlocked>().empty());
  finish(running_.at(3).token);
  pass(10ms);
  ASSERT_EQ(sent_to_agent<ExecutorBlocked>().size(), 1u) << "two blocked calls remain";
  finish(running_.at(1).token);
  push(7, 4);
  ASSERT_EQ(sent_to_agent<ExecutorBlocked>().size(), 1u);
  EXPECT_FALSE(sent_to_agent<ExecutorBlocked>()[0].on);
}

TEST_F(Executor, ReportsStartOfEachLongCall) {
  be_actor(3);
  push(owner, 1);
  pass(20ms);
  push(owner, 2);
  push(owner, 3);
  finish(running_.at(2).token);
  pass(30ms);
  EXPECT_EQ(sent<CallStarted>(), (std::vector{CallStarted{1, 50ms}}));
  pass(20ms);
  EXPECT_EQ(sent<CallStarted>(), (std::vector{CallStarted{3, 50ms}}));
}

TEST_F(Executor, LibraryCalls_WaitForConstructor) {
  AssignExecutor assignment;
  assignment.actor.actor = ActorId::of(1);
  assignment.actor.max_concurrency = 1;
  step(Assigned{assignment});
  const auto constructor = running_.at(0).token;
  push(7, 1, false, true);
  EXPECT_EQ(core_.running(), 1u);
  finish(constructor);
  EXPECT_EQ(order().back(), TaskId::of(701));
}

TEST_F(Executor, RejectsCallersThatAreNotItsLessee) {
  be_task_executor();
  push(2, 1);
  EXPECT_EQ(core_.running() + core_.queued(), 0u);
}

TEST_F(Executor, RunsRepeatedCallOnce) {
  be_task_executor();
  push(owner, 1);
  --sent_[owner];
  push(owner, 1);
  EXPECT_EQ(running_.size(), 1u);
  EXPECT_EQ(core_.queued(), 0u);
}

TEST_F(Executor, ReportsLongRunningCalls) {
  be_task_executor();
  push(owner, 1);
  push(owner, 2);
  EXPECT_TRUE(sent<CallStarted>().empty());
  pass(40ms);
  EXPECT_TRUE(sent<CallStarted>().empty());
  EXPECT_EQ(core_.next_deadline(), now_ + 10ms);
  pass(10ms);
  EXPECT_EQ(sent<CallStarted>(), (std::vector{CallStarted{1, 50ms}}));
  acknowledge(owner, 1);
  pass(1s);
  EXPECT_TRUE(sent<CallStarted>().empty()) << "once, and not of the one that waits";
  finish(running_.at(0).token);
  pass(10ms);
  finish(running_.at(1).token);
  acknowledge(owner, 3);
  pass(1s);
  EXPECT_TRUE(sent<CallStarted>().empty()) << "a short call costs no message";
}

TEST_F(Executor, OmitsReportOfConstructor) {
  AssignExecutor assignment;
  assignment.actor.actor = ActorId::of(1);
  step(Assigned{assignment});
  ASSERT_EQ(core_.running(), 1u);
  pass(1s);
  EXPECT_TRUE(out_.empty());
}

TEST_F(Executor, KeepsCallOrderOfEachCaller) {
  be_actor();
  running_.clear();
  push(1, 1, true);  // waits for its argument
  push(1, 2);
  push(2, 1);  // calls of other callers need not wait
  EXPECT_EQ(order(), std::vector{TaskId::of(201)});
  finish(running_[0].token);
  EXPECT_EQ(core_.running(), 0u);
  step(ArgumentsFetched{2, {}});
  EXPECT_EQ(order().back(), TaskId::of(101));
  finish(running_.back().token);
  EXPECT_EQ(order().back(), TaskId::of(102));
}

TEST_F(Executor, OutOfOrder_WaitingCallDelaysNone) {
  AssignExecutor assignment;
  assignment.actor.actor = ActorId::of(1);
  assignment.actor.out_of_order = true;
  step(Assigned{assignment});
  finish(started()[0].token);
  running_.clear();
  push(1, 1, true);
  push(1, 2);
  EXPECT_EQ(order(), std::vector{TaskId::of(102)});
  finish(running_[0].token);
  step(ArgumentsFetched{2, {}});
  EXPECT_EQ(order().back(), TaskId::of(101));
}

TEST_F(Executor, GroupsCountAndOrderTheirOwnCalls) {
  AssignExecutor assignment;
  assignment.actor.actor = ActorId::of(1);
  assignment.actor.groups = {{"io", 2}, {"compute", 1}};
  step(Assigned{assignment});
  finish(started()[0].token);
  running_.clear();
  const auto call = [&](std::uint64_t number, const std::string& group, bool with_ref = false) {
    push(7, number, with_ref, false, group);
  };
  call(1, "compute", true);  // waits for its argument
  call(2, "compute");
  for (std::uint64_t number = 3; number <= 5; ++number) call(number, "io");
  call(6, "");
  EXPECT_EQ(order(), (std::vector{TaskId::of(703), TaskId::of(704), TaskId::of(706)}));
  EXPECT_EQ(running_[0].group, 1u);
  EXPECT_EQ(running_[2].group, 0u);
  finish(running_[2].token);
  EXPECT_EQ(core_.queued(), 3u) << "its end opens no other group";
  finish(running_[0].token);
  EXPECT_EQ(order().back(), TaskId::of(705));
  step(ArgumentsFetched{2, {}});
  EXPECT_EQ(order().back(), TaskId::of(701));
  say(7, CancelCall{2, false, false});
  EXPECT_EQ(core_.queued(), 0u);
  call(7, "compute");
  EXPECT_EQ(core_.queued(), 1u);
  finish(running_.back().token);
  EXPECT_EQ(order().back(), TaskId::of(707)) << "the cancelled call is not counted";
}

TEST_F(Executor, RejectsCallsOfUnknownGroups) {
  be_actor();
  push(owner, 1, false, false, "disk");
  ASSERT_EQ(sent<CallReply>().size(), 1u);
  EXPECT_EQ(sent<CallReply>()[0].outcome, CallOutcome::failed);
  EXPECT_EQ(core_.running() + core_.queued(), 0u);
}

TEST_F(Executor, RunsMethodsUpToConcurrencyLimit) {
  be_actor(2);
  for (std::uint64_t number = 1; number <= 3; ++number) push(1, number);
  EXPECT_EQ(core_.running(), 2u);
  EXPECT_EQ(core_.queued(), 1u);
  finish(running_.back().token);
  EXPECT_EQ(core_.running(), 2u);
  EXPECT_EQ(core_.queued(), 0u);
}

TEST_F(Executor, RunsNoMethodBeforeConstructorReturns) {
  AssignExecutor assignment;
  assignment.actor.actor = ActorId::of(1);
  assignment.actor.max_concurrency = 4;
  step(Assigned{assignment});
  push(1, 1);
  EXPECT_EQ(core_.running(), 1u);
  finish(running_.at(0).token);
  EXPECT_EQ(sent_to_agent<ConstructorFinished>().size(), 1u);
  EXPECT_EQ(core_.running(), 1u);
  EXPECT_EQ(order().back(), TaskId::of(101));
}

TEST_F(Executor, ArgumentLost_FailsWithoutRun) {
  be_task_executor();
  push(owner, 1, true);
  const auto token = commanded<FetchArguments>().at(0).token;
  step(ArgumentsFetched{token, failure(ErrorCode::unavailable, "node 2 died")});
  EXPECT_TRUE(running_.empty());
  ASSERT_EQ(sent<CallReply>().size(), 1u);
  EXPECT_EQ(sent<CallReply>()[0].outcome, CallOutcome::failed);
  EXPECT_EQ(commanded<DropCall>().size(), 1u);
}

TEST_F(Executor, ArgumentsDoNotFitWithOthers_ReturnsCall) {
  be_task_executor();
  push(owner, 1);
  push(owner, 2, true);
  const auto token = commanded<FetchArguments>().at(0).token;
  step(ArgumentsFetched{token, failure(ErrorCode::resource_exhausted, "the store is full")});
  ASSERT_EQ(sent<CallReturned>().size(), 1u);
  EXPECT_EQ(sent<CallReturned>()[0].number, 2u);
  EXPECT_TRUE(sent<CallReply>().empty());
}

TEST_F(Executor, ArgumentsDoNotFitAlone_FailsCall) {
  be_task_executor();
  push(owner, 1, true);
  const auto token = commanded<FetchArguments>().at(0).token;
  step(ArgumentsFetched{token, failure(ErrorCode::resource_exhausted, "the store is full")});
  ASSERT_EQ(sent<CallReply>().size(), 1u);
  EXPECT_EQ(sent<CallReply>()[0].outcome, CallOutcome::failed);
}

TEST_F(Executor, CancelsUnstartedCall) {
  be_task_executor();
  push(owner, 1);
  push(owner, 2);
  say(owner, CancelCall{2, true, false});
  ASSERT_EQ(sent<CallReply>().size(), 1u);
  EXPECT_EQ(sent<CallReply>()[0].outcome, CallOutcome::cancelled);
  finish(running_.at(0).token);
  EXPECT_EQ(running_.size(), 1u);
}

TEST_F(Executor, NotifiesRunningCallOfCancel) {
  be_task_executor();
  push(owner, 1);
  say(owner, CancelCall{1, true, false});
  ASSERT_EQ(commanded<CancelRunning>().size(), 1u);
  EXPECT_TRUE(commanded<CancelRunning>()[0].recursive);
  EXPECT_TRUE(sent<CallReply>().empty());
  finish(running_.at(0).token);
  ASSERT_EQ(sent<CallReply>().size(), 1u);
  EXPECT_EQ(sent<CallReply>()[0].outcome, CallOutcome::cancelled);
}

TEST_F(Executor, ForcedCancel_EndsProcessAndReturnsCalls) {
  be_task_executor();
  push(owner, 1);
  push(owner, 2);
  say(owner, CancelCall{1, true, true});
  ASSERT_EQ(sent<CallReply>().size(), 1u);
  EXPECT_EQ(sent<CallReply>()[0].outcome, CallOutcome::cancelled);
  ASSERT_EQ(sent<CallReturned>().size(), 1u);
  EXPECT_EQ(sent<CallReturned>()[0].number, 2u);
  acknowledge(owner, 3);
  ASSERT_EQ(commanded<Leave>().size(), 1u);
  EXPECT_EQ(commanded<Leave>()[0].kind, EndKind::killed);
}

TEST_F(Executor, RetiresAfterCallsAreAcknowledged) {
  be_task_executor(2);
  push(owner, 1);
  push(owner, 2);
  push(owner, 3);
  finish(running_.at(0).token);
  finish(running_.at(1).token);
  EXPECT_EQ(sent<StreamClosing>().size(), 1u);
  EXPECT_EQ(sent<CallReply>().size(), 1u);
  // StreamClosing precedes the last reply, so the caller sends no further call.
  EXPECT_TRUE(std::holds_alternative<CallReply>(last_sent(owner)));
  ASSERT_EQ(sent<CallReturned>().size(), 1u);
  EXPECT_EQ(sent<CallReturned>()[0].number, 3u);
  EXPECT_TRUE(commanded<Leave>().empty());
  push(owner, 4);
  EXPECT_EQ(sent<CallReturned>().size(), 1u);
  acknowledge(owner, 5);
  ASSERT_EQ(commanded<Leave>().size(), 1u);
  EXPECT_EQ(sent_to_agent<ExecutorRetires>().size(), 1u);
}

TEST_F(Executor, NoAcknowledgement_LeavesAfterTimeout) {
  be_task_executor(1);
  push(owner, 1);
  finish(running_.at(0).token);
  EXPECT_TRUE(commanded<Leave>().empty());
  pass(ExecutorOptions{}.leave_timeout);
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(Executor, StaysUntilTensorsAreElsewhere) {
  keeps_tensors_ = true;
  be_task_executor(1);
  push(owner, 1);
  finish(running_.at(0).token);
  acknowledge(owner, 2);
  EXPECT_EQ(commanded<Evacuate>().size(), 1u);
  EXPECT_TRUE(sent_to_agent<ExecutorRetires>().empty());
  pass(ExecutorOptions{}.leave_timeout * 20);
  EXPECT_TRUE(commanded<Evacuate>().empty()) << "it is asked once";
  EXPECT_TRUE(commanded<Leave>().empty());
  step(Evacuated{});
  EXPECT_EQ(sent_to_agent<ExecutorRetires>().size(), 1u);
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(Executor, TensorsCannotMove_LeavesAfterTimeout) {
  keeps_tensors_ = true;
  be_task_executor(1);
  push(owner, 1);
  finish(running_.at(0).token);
  acknowledge(owner, 2);
  pass(ExecutorOptions{}.evacuation_timeout - Duration(1ms));
  EXPECT_TRUE(commanded<Leave>().empty());
  EXPECT_TRUE(core_.next_deadline().has_value());
  pass(Duration(1ms));
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(Executor, FetchesTensorChunksOfArgumentFirst) {
  be_task_executor();
  RefRecord tensor;
  tensor.object = ObjectId::of(5);
  tensor.tensor = TensorRecord{1 << 20, true, {.direct = true}, {}};
  PushCall call;
  call.number = 1;
  Argument argument;
  argument.value.contained = {RefRecord{}, tensor};
  call.call.arguments.edit() = {argument};
  say(owner, call);
  ASSERT_EQ(commanded<FetchArguments>().size(), 1u);
  EXPECT_TRUE(commanded<FetchArguments>()[0].refs.empty());
  EXPECT_EQ(commanded<FetchArguments>()[0].tensors, (RefRecords{tensor}));
  EXPECT_TRUE(started().empty());
  step(ArgumentsFetched{commanded<FetchArguments>()[0].token, {}});
  EXPECT_EQ(started().size(), 1u);
}

TEST_F(Executor, StaysUntilCallerHoldsReplyContents) {
  be_task_executor(1);
  push(owner, 1);
  RefRecord inside;
  inside.object = ObjectId::of(5);
  finish(running_.at(0).token, {inside});
  acknowledge(owner, 2);
  EXPECT_TRUE(commanded<Leave>().empty());
  say(owner, ReplyClaimed{1});
  EXPECT_EQ(commanded<ReleasePins>().size(), 1u);
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(Executor, ReplyNeverHeld_ReleasesPinsAsUnheld) {
  be_task_executor();
  push(owner, 1);
  RefRecord inside;
  inside.object = ObjectId::of(5);
  finish(running_.at(0).token, {inside});
  say(owner, ReplyClaimed{1, true});
  ASSERT_EQ(commanded<ReleasePins>().size(), 1u);
  EXPECT_TRUE(commanded<ReleasePins>()[0].unheld);
}

TEST_F(Executor, CallerDied_KeepsItsContentsForAWhile) {
  be_task_executor();
  push(owner, 1);
  RefRecord inside;
  inside.object = ObjectId::of(5);
  finish(running_.at(0).token, {inside});
  step(CallerGone{ProcessId::of(owner)});
  EXPECT_TRUE(commanded<ReleasePins>().empty());
  ASSERT_TRUE(core_.next_deadline().has_value());
  pass(ExecutorOptions{}.orphans_delay);
  ASSERT_EQ(commanded<ReleasePins>().size(), 1u);
  EXPECT_FALSE(commanded<ReleasePins>()[0].unheld);
}

TEST_F(Executor, ReturnsQueueOnRequestAndContinues) {
  be_task_executor();
  push(owner, 1);
  push(owner, 2);
  say(owner, ReturnCallsRequest{});
  ASSERT_EQ(sent<CallReturned>().size(), 1u);
  EXPECT_EQ(sent<CallReturned>()[0].number, 2u);
  push(owner, 3);
  finish(running_.at(0).token);
  EXPECT_EQ(order().back(), TaskId::of(103));
}

TEST_F(Executor, CallBlocked_ReturnsQueueAndReleasesCpu) {
  be_task_executor();
  push(owner, 1);
  push(owner, 2);
  const auto token = running_.at(0).token;
  step(CallBlocked{token, true});
  EXPECT_EQ(sent<CallReturned>().size(), 1u);
  EXPECT_TRUE(sent_to_agent<ExecutorBlocked>().empty());
  pass(5ms);
  ASSERT_EQ(sent_to_agent<ExecutorBlocked>().size(), 1u);
  EXPECT_TRUE(sent_to_agent<ExecutorBlocked>()[0].on);
  push(owner, 3);
  EXPECT_EQ(sent<CallReturned>().size(), 1u);
  step(CallBlocked{token, false});
  ASSERT_EQ(sent_to_agent<ExecutorBlocked>().size(), 1u);
  EXPECT_FALSE(sent_to_agent<ExecutorBlocked>()[0].on);
}

TEST_F(Executor, DropsCallsOfDeadCaller) {
  be_actor();
  running_.clear();
  push(1, 1);
  push(1, 2);
  push(2, 1);
  step(CallerGone{ProcessId::of(1)});
  EXPECT_EQ(commanded<CancelRunning>().size(), 1u);
  finish(running_.at(0).token);
  EXPECT_TRUE(sent<CallReply>(1).empty());
  EXPECT_EQ(order().back(), TaskId::of(201));
}

// After a restart, the head reports the agent of a dead node, and not its processes.
TEST_F(Executor, AgentOfCallersDied_DropsTheirCalls) {
  be_actor();
  running_.clear();
  const ProcessId agent = ProcessId::of(70);
  step(CallerAdmitted{ProcessId::of(1), agent});
  step(CallerAdmitted{ProcessId::of(2), {}});  // a driver of the same node
  step(CallerAdmitted{ProcessId::of(3), agent});
  step(CallerAdmitted{ProcessId::of(4), ProcessId::of(71)});
  push(1, 1);
  push(1, 2);
  push(2, 1);
  push(3, 1);
  push(4, 1);
  step(CallerGone{agent});
  EXPECT_EQ(commanded<CancelRunning>().size(), 1u);
  for (std::size_t i = 0; i < running_.size(); ++i) finish(running_[i].token);
  EXPECT_EQ(order(), (std::vector<TaskId>{TaskId::of(101), TaskId::of(201), TaskId::of(401)}));
}

TEST_F(Executor, GracefulEnd_FinishesRunningCall) {
  be_task_executor();
  push(owner, 1);
  push(owner, 2);
  step(EndRequested{true});
  EXPECT_EQ(sent<CallReturned>().size(), 1u);
  EXPECT_TRUE(commanded<Leave>().empty());
  finish(running_.at(0).token);
  EXPECT_EQ(sent<CallReply>().size(), 1u);
  acknowledge(owner, 3);
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

TEST_F(Executor, AbruptEnd_LeavesAtOnce) {
  be_task_executor();
  push(owner, 1);
  step(EndRequested{false});
  EXPECT_EQ(commanded<Leave>().size(), 1u);
}

// ---- resident results -------------------------------------------------------------------------

const ResidentResults two_results{2, 200, ObjectId::of(7)};

}  // namespace
}  // namespace mobula::internal::executor
