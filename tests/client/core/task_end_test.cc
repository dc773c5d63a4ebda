// Ends of tasks: value, error, retries, and cancellation.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

using Retries = SmallClient;
using Cancelling = SmallClient;
using Results = SmallClient;

TEST_F(Retries, Crash_ChargesRetryAndCountsAttempt) {
  SubmitTask given = task(1);
  given.max_retries = 1;
  const TaskId id = submit(given);
  slot(3, 20);
  ASSERT_EQ(calls_at(20).size(), 1u);
  EXPECT_EQ(calls_at(20)[0].call.attempt, 0u);
  slot_executor_ends(3, 20, EndKind::exited);
  slot(3, 21, 1);
  ASSERT_EQ(calls_at(21).size(), 1u);
  EXPECT_EQ(calls_at(21)[0].call.attempt, 1u);
  slot_executor_ends(3, 21, EndKind::exited);
  EXPECT_EQ(error(result(id)).kind, ErrorKind::worker_crashed);
  EXPECT_NE(error(result(id)).text.find("attempt 2 was the last"), std::string::npos);
}

TEST_F(Retries, OutOfMemory_ChargesRetryWithGrowingBackoff) {
  SubmitTask given = task(1);
  given.max_retries = 2;
  const TaskId id = submit(given);
  slot(3, 20);
  ASSERT_EQ(calls_at(20).size(), 1u);
  EXPECT_TRUE(calls_at(20)[0].call.may_run_again);
  slot_executor_ends(3, 20, EndKind::out_of_memory);
  slot(4, 21);
  EXPECT_TRUE(calls_at(21).empty());
  EXPECT_NE(core_.why_pending(now_, result(id)).find("lack of memory"), std::string::npos);
  pass(Duration(499ms));
  slot(5, 22);
  EXPECT_TRUE(calls_at(22).empty());
  pass(Duration(2ms));
  ASSERT_EQ(calls_at(22).size(), 1u);
  EXPECT_EQ(calls_at(22)[0].call.attempt, 1u);
  slot_executor_ends(5, 22, EndKind::out_of_memory);
  pass(Duration(999ms));
  slot(7, 24);
  EXPECT_TRUE(calls_at(24).empty()) << "twice as long";
  pass(Duration(2ms));
  ASSERT_EQ(calls_at(24).size(), 1u);
  EXPECT_FALSE(calls_at(24)[0].call.may_run_again);
  slot_executor_ends(7, 24, EndKind::out_of_memory);
  EXPECT_EQ(error(result(id)).kind, ErrorKind::out_of_memory);
  EXPECT_NE(error(result(id)).text.find("attempt 3 was the last"), std::string::npos);
}

TEST_F(Cancelling, EndsTaskInOutOfMemoryBackoff) {
  const TaskId id = submit();
  slot(3, 20);
  slot_executor_ends(3, 20, EndKind::out_of_memory);
  step(CancelObject{result(id), false, true});
  EXPECT_EQ(error(result(id)).kind, ErrorKind::task_cancelled);
  pass(Duration(1s));
  slot(4, 21);
  EXPECT_TRUE(calls_at(21).empty());
}

TEST_F(Retries, IgnoresReplyOfSupersededAttempt) {
  const TaskId id = submit();
  slot(3, 20);
  const PushCall first = calls_at(20).at(0);
  slot_executor_ends(3, 20, EndKind::exited);
  slot(3, 21, 1);
  CallReply late;
  late.number = first.number;
  late.task = id;
  late.results.push_back(value("old"));
  say(20, late);
  EXPECT_EQ(state(result(id)), "pending");
  reply_value(21, "new");
  EXPECT_EQ(text(result(id)), "new");
}

TEST_F(Retries, UsesRepliesReceivedBeforeDeath) {
  const TaskId id = submit();
  slot(3, 20);
  GenerationEnded ended;
  ended.slot = SlotId::of(3);
  ended.process = ProcessId::of(20);
  head(ended);  // the death overtakes the data
  EXPECT_EQ(state(result(id)), "pending");
  reply_value(20, "done");
  EXPECT_EQ(text(result(id)), "done");
}

// The report about the first executor was lost; the end of its successor implies it.
TEST_F(Retries, LaterGenerationEnded_EndsEarlierToo) {
  const TaskId id = submit();
  slot(3, 20);
  GenerationEnded ended;
  ended.slot = SlotId::of(3);
  ended.generation = 1;
  ended.process = ProcessId::of(21);
  ended.cause.kind = EndKind::retired;
  head(ended);
  step(StreamEnded{ProcessId::of(20)});
  slot(3, 22, 2);
  ASSERT_EQ(calls_at(22).size(), 1u);
  EXPECT_EQ(calls_at(22)[0].call.task, id);
  EXPECT_EQ(calls_at(22)[0].call.attempt, 1u) << "the first may have run it";
}

TEST_F(Retries, SeparatesEndsOfGenerations) {
  submit();
  slot(3, 20);
  SlotReady ready;
  ready.slot = SlotId::of(3);
  ready.demand_class = ClassId::of(5);
  ready.node = node();
  ready.generation = 2;
  ready.endpoint.process = ProcessId::of(22);
  ready.previous.kind = EndKind::retired;  // the executor in between
  head(ready);
  step(StreamEnded{ProcessId::of(20)});
  ASSERT_EQ(calls_at(22).size(), 1u);
  EXPECT_EQ(calls_at(22)[0].call.attempt, 1u);
}

// Slots of a node are lost one by one; a call sent to another dead slot would be charged a retry.
TEST_F(Retries, AvoidsOtherSlotsOfDeadNode) {
  const TaskId id = submit();
  slot(3, 20);
  slot(4, 21);
  EndCause cause;
  cause.kind = EndKind::node_died;
  head(SlotLost{SlotId::of(3), cause});
  step(StreamEnded{ProcessId::of(20)});
  EXPECT_TRUE(calls_at(21).empty());
  head(SlotLost{SlotId::of(4), cause});
  EXPECT_EQ(state(result(id)), "pending");
  slot(5, 22);
  ASSERT_EQ(calls_at(22).size(), 1u);
  EXPECT_EQ(calls_at(22)[0].call.attempt, 1u);
}

TEST_F(Retries, PlannedEnd_ChargesNoRetry) {
  SubmitTask given = task(1);
  given.max_retries = 0;
  const TaskId id = submit(given);
  slot(3, 20);
  say(20, StreamClosing{0});
  slot_executor_ends(3, 20, EndKind::retired);
  slot(3, 21, 1);
  ASSERT_EQ(calls_at(21).size(), 1u);
  EXPECT_EQ(calls_at(21)[0].call.attempt, 0u);
  reply_value(21, "done");
  EXPECT_EQ(text(result(id)), "done");
}

TEST_F(Retries, RetriesExceptionsOnlyWhenRequested) {
  const TaskId plain = submit();
  slot(3, 20);
  reply_exception(20);
  EXPECT_EQ(state(result(plain)), "error");
  SubmitTask given = task(1);
  given.retry_exceptions = true;
  given.max_retries = 1;
  const TaskId again = submit(given);
  reply_exception(20);
  EXPECT_EQ(state(result(again)), "pending");
  ASSERT_EQ(calls_at(20).size(), 1u);
  EXPECT_EQ(calls_at(20)[0].call.attempt, 1u);
  reply_exception(20);
  EXPECT_EQ(error(result(again)).text, "thrown");
}

TEST_F(Retries, CallReturned_ChargesNoRetry) {
  SubmitTask given = task(1);
  given.max_retries = 0;
  const TaskId id = submit(given);
  slot(3, 20);
  head(RecallSlot{SlotId::of(3), "another job waits"});
  hand_back_all(20);
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
  EXPECT_TRUE(calls_at(20).empty());
  slot(4, 30);
  ASSERT_EQ(calls_at(30).size(), 1u);
  EXPECT_EQ(calls_at(30)[0].call.attempt, 0u);
  reply_value(30, "done");
  EXPECT_EQ(text(result(id)), "done");
}

TEST_F(Cancelling, WaitingForArguments_EndsAtOnce) {
  const TaskId first = submit();
  SubmitTask second = task(2);
  second.call.arguments.edit().push_back(by_ref(core_.ref_of(result(first))));
  const TaskId id = submit(second);
  step(CancelObject{result(id)});
  EXPECT_EQ(error(result(id)).kind, ErrorKind::task_cancelled);
  slot(3, 20);
  reply_value(20, "first");
  EXPECT_TRUE(calls_at(20).empty());
}

TEST_F(Cancelling, QueuedTask_IsNeverSent) {
  const TaskId id = submit();
  step(CancelObject{result(id)});
  EXPECT_EQ(error(result(id)).kind, ErrorKind::task_cancelled);
  slot(3, 20);
  EXPECT_TRUE(calls_at(20).empty());
}

TEST_F(Cancelling, SentTask_IsCancelledByExecutor) {
  const TaskId id = submit();
  slot(3, 20);
  step(CancelObject{result(id), true, true});
  ASSERT_EQ(to_executor<CancelCall>().size(), 1u);
  EXPECT_TRUE(to_executor<CancelCall>()[0].force);
  EXPECT_EQ(state(result(id)), "pending");
  CallReply answer;
  answer.outcome = CallOutcome::cancelled;
  reply(20, answer);
  EXPECT_EQ(error(result(id)).kind, ErrorKind::task_cancelled);
}

TEST_F(Cancelling, CrashDuringCancel_DoesNotRetry) {
  const TaskId id = submit();
  slot(3, 20);
  step(CancelObject{result(id)});
  slot_executor_ends(3, 20, EndKind::exited);
  EXPECT_EQ(error(result(id)).kind, ErrorKind::task_cancelled);
  slot(3, 21, 1);
  EXPECT_TRUE(calls_at(21).empty());
}

TEST_F(Cancelling, FinishedTask_KeepsValue) {
  const TaskId id = submit();
  slot(3, 20);
  reply_value(20, "done");
  step(CancelObject{result(id)});
  EXPECT_TRUE(to_executor<CancelCall>().empty());
  EXPECT_EQ(text(result(id)), "done");
}

TEST_F(Cancelling, UnsentActorCall_UnblocksNextCall) {
  const ActorId actor = make_actor(1);
  const TaskId first = call(actor);
  const TaskId second = call(actor);
  step(CancelObject{result(first)});
  EXPECT_EQ(error(result(first)).kind, ErrorKind::task_cancelled);
  actor_alive(actor, 20, 1);
  ASSERT_EQ(calls_at(20).size(), 1u);
  EXPECT_EQ(calls_at(20)[0].call.task, second);
}

TEST_F(Cancelling, CancelsChildrenWithTheirTask) {
  SubmitTask given = task(1);
  given.parent = TaskId::of(50);
  const TaskId child = submit(given);
  const TaskId other = submit();
  step(CancelChildren{TaskId::of(50)});
  EXPECT_EQ(state(result(child)), "error");
  EXPECT_EQ(state(result(other)), "pending");
}

TEST_F(Results, SplitCall_GivesEachPartItsObject) {
  SubmitTask given = task(1);
  given.call.form.edit().num_returns = 3;
  const TaskId id = submit(given);
  slot(3, 20);
  CallReply answer;
  for (const char* each : {"a", "b", "c"}) answer.results.push_back(value(each));
  reply(20, answer);
  EXPECT_EQ(text(result(id, 0)) + text(result(id, 1)) + text(result(id, 2)), "abc");
  for (std::uint32_t i = 0; i < 3; ++i) release(result(id, i));
  EXPECT_EQ(core_.sizes().objects, 0u);
  EXPECT_EQ(core_.sizes().tasks, 0u);
}

TEST_F(Results, SplitCallFailed_AllPartsHoldError) {
  SubmitTask given = task(1);
  given.call.form.edit().num_returns = 2;
  const TaskId id = submit(given);
  slot(3, 20);
  reply_exception(20);
  EXPECT_EQ(error(result(id, 0)).text, "thrown");
  EXPECT_EQ(error(result(id, 1)).text, "thrown");
}

TEST_F(Results, ArgumentFailed_TaskFailsWithoutRun) {
  const TaskId first = submit();
  SubmitTask second = task(2);
  second.call.arguments.edit().push_back(by_ref(core_.ref_of(result(first))));
  const TaskId id = submit(second);
  slot(3, 20);
  reply_exception(20);
  EXPECT_EQ(error(result(id)).text, "thrown");
  EXPECT_TRUE(calls_at(20).empty());
}

TEST_F(Results, InlinesSmallArguments) {
  const TaskId first = submit();
  SubmitTask second = task(2);
  second.call.arguments.edit().push_back(by_ref(core_.ref_of(result(first))));
  submit(second);
  slot(3, 20);
  reply_value(20, "small");
  ASSERT_EQ(calls_at(20).size(), 1u);
  const Argument sent = calls_at(20)[0].call.arguments->at(0);
  EXPECT_FALSE(sent.is_ref);
  EXPECT_EQ(sent.value.bytes.size(), 5u);
}

TEST_F(Results, ReportsUnreadErrors) {
  SubmitTask once = task(1);
  once.max_retries = 0;
  const TaskId failed = submit(once);
  slot(3, 20);
  reply_exception(20);
  ASSERT_EQ(state(result(failed)), "error");
  EXPECT_TRUE(core_.is_unread(result(failed)));
  EXPECT_NE(core_.unread_errors().find("1 failure was never read"), std::string::npos)
      << core_.unread_errors();
  step(ErrorRead{result(failed)});
  EXPECT_FALSE(core_.is_unread(result(failed)));
  EXPECT_EQ(core_.unread_errors(), "");
}

TEST_F(Results, DroppedRef_ErrorStaysUnread) {
  SubmitTask once = task(1);
  once.max_retries = 0;
  const TaskId failed = submit(once);
  slot(3, 20);
  reply_exception(20);
  release(result(failed));
  EXPECT_NE(core_.unread_errors(), "");
}

TEST_F(Results, CountsStoredArgumentsAsPending) {
  SubmitTask given = task(1);
  given.stored_bytes = 4'000'000;
  submit(given);
  EXPECT_EQ(core_.pending_bytes(), 4'000'000);
  slot(3, 20);
  reply_value(20, "done");
  EXPECT_EQ(core_.pending_bytes(), 0);
}

TEST_F(Results, CountsOnlyUnfinishedCallsAsPending) {
  SubmitTask given = task(1);
  Argument argument;
  argument.value = value("12345");
  given.call.arguments.edit().push_back(argument);
  submit(given);
  EXPECT_EQ(core_.pending_bytes(), 5);
  slot(3, 20);
  EXPECT_EQ(core_.pending_bytes(), 5);
  reply_value(20, "done");
  EXPECT_EQ(core_.pending_bytes(), 0);
}

}  // namespace
}  // namespace mobula::internal::client
