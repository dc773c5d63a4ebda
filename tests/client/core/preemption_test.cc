// The owner of a task when work of a higher priority needs its slot.
#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class Preemption : public SmallClient {
 protected:
  TaskId submit_with_retries(std::int32_t max_retries, std::uint64_t number = 1) {
    SubmitTask given = task(number);
    given.max_retries = max_retries;
    return submit(given);
  }
  void preempt(std::uint64_t slot) {
    head(RecallSlot{SlotId::of(slot), "work of a higher priority waits", RunningTask::ends});
  }
  void ended_by_executor(std::uint64_t executor) {
    CallReply answer;
    answer.outcome = CallOutcome::cancelled;
    reply(executor, answer);
  }
  TaskFact fact() {
    TasksRequest question;
    question.limit = 10;
    head(question);
    const auto answer = to_head<TasksReply>();
    return answer.empty() || answer[0].tasks.empty() ? TaskFact{} : answer[0].tasks[0];
  }
};

TEST_F(Preemption, RetryableTask_RunsAgainWithoutCharge) {
  const TaskId id = submit_with_retries(1);
  slot(3, 20);
  preempt(3);
  ASSERT_EQ(to_executor<CancelCall>().size(), 1u);
  EXPECT_TRUE(to_executor<CancelCall>()[0].force);
  EXPECT_TRUE(to_head<PreemptionAnswer>().empty());
  ended_by_executor(20);
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
  EXPECT_EQ(to_head<Demand>().size(), 1u) << "it wants another slot";
  EXPECT_EQ(state(result(id)), "pending");
  EXPECT_EQ(fact().preemptions, 1u);
  EXPECT_EQ(fact().retries_left, 1);
  EXPECT_NE(core_.why_pending(now_, result(id)).find("higher priority"), std::string::npos);
  slot(4, 30);
  ASSERT_EQ(calls_at(30).size(), 1u);
  EXPECT_EQ(calls_at(30)[0].call.attempt, 1u)
      << "another attempt: the first one's results are void";
  reply_value(30, "done");
  EXPECT_EQ(text(result(id)), "done");
}

TEST_F(Preemption, RepeatedPreemption_IsNeverCharged) {
  const TaskId id = submit_with_retries(1);
  for (std::uint64_t round = 0; round < 5; ++round) {
    slot(3 + round, 20 + round);
    preempt(3 + round);
    ended_by_executor(20 + round);
  }
  EXPECT_EQ(fact().preemptions, 5u);
  slot(50, 60);
  slot_executor_ends(50, 60, EndKind::exited);
  EXPECT_EQ(state(result(id)), "pending") << "its own retry is still there";
  slot(50, 61, 1);
  slot_executor_ends(50, 61, EndKind::exited);
  EXPECT_EQ(error(result(id)).kind, ErrorKind::worker_crashed);
}

TEST_F(Preemption, NonRetryableTask_IsSparedAndHeadNotified) {
  const TaskId id = submit_with_retries(0);
  slot(3, 20);
  preempt(3);
  EXPECT_TRUE(to_executor<CancelCall>().empty());
  ASSERT_EQ(to_head<PreemptionAnswer>().size(), 1u);
  EXPECT_EQ(to_head<PreemptionAnswer>()[0].slot, SlotId::of(3));
  EXPECT_TRUE(to_head<ReturnSlot>().empty());
  reply_value(20, "done");
  EXPECT_EQ(text(result(id)), "done");
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u) << "recalled nevertheless";
}

TEST_F(Preemption, RetriesUsedUp_TaskIsSpared) {
  submit_with_retries(1);
  slot(3, 20);
  slot_executor_ends(3, 20, EndKind::exited);
  slot(3, 21, 1);
  preempt(3);
  EXPECT_EQ(to_head<PreemptionAnswer>().size(), 1u);
}

TEST_F(Preemption, Query_ReportsWhetherTaskMayBePreempted) {
  submit_with_retries(1);
  slot(3, 20);
  head(RecallSlot{SlotId::of(3), "work of a higher priority waits", RunningTask::is_queried});
  EXPECT_TRUE(to_executor<CancelCall>().empty());
  ASSERT_EQ(to_head<PreemptionAnswer>().size(), 1u);
  EXPECT_TRUE(to_head<PreemptionAnswer>()[0].may_end);
  submit_with_retries(0, 2);
  slot(4, 21);
  head(RecallSlot{SlotId::of(4), "work of a higher priority waits", RunningTask::is_queried});
  ASSERT_EQ(to_head<PreemptionAnswer>().size(), 1u);
  EXPECT_FALSE(to_head<PreemptionAnswer>()[0].may_end);
}

TEST_F(Preemption, CancelledTask_IsNotPreempted) {
  const TaskId id = submit_with_retries(3);
  slot(3, 20);
  step(CancelObject{result(id)});
  preempt(3);
  EXPECT_TRUE(to_executor<CancelCall>().empty());
  EXPECT_EQ(to_head<PreemptionAnswer>().size(), 1u);
  ended_by_executor(20);
  EXPECT_EQ(error(result(id)).kind, ErrorKind::task_cancelled);
}

TEST_F(Preemption, CancelDuringPreemption_Wins) {
  const TaskId id = submit_with_retries(3);
  slot(3, 20);
  preempt(3);
  step(CancelObject{result(id)});
  ended_by_executor(20);
  EXPECT_EQ(error(result(id)).kind, ErrorKind::task_cancelled);
}

TEST_F(Preemption, ValueArrivesFirst_IsUsed) {
  const TaskId id = submit_with_retries(3);
  slot(3, 20);
  preempt(3);
  reply_value(20, "done");
  EXPECT_EQ(text(result(id)), "done");
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
}

TEST_F(Preemption, ExecutorExitsWithoutReply_ChargesNoRetry) {
  const TaskId id = submit_with_retries(1);
  slot(3, 20);
  preempt(3);
  slot_executor_ends(3, 20, EndKind::killed);
  EXPECT_EQ(fact().preemptions, 1u);
  EXPECT_EQ(fact().retries_left, 1);
  slot(4, 30);
  ASSERT_EQ(calls_at(30).size(), 1u);
  slot_executor_ends(4, 30, EndKind::exited);
  EXPECT_EQ(fact().retries_left, 0) << "the next end is not a preemption and costs a retry";
  EXPECT_EQ(state(result(id)), "pending");
}

TEST_F(Preemption, PreemptedTwice_EndsOnce) {
  submit_with_retries(3);
  slot(3, 20);
  preempt(3);
  preempt(3);
  EXPECT_TRUE(to_executor<CancelCall>().empty());
  ended_by_executor(20);
  EXPECT_EQ(fact().preemptions, 1u);
}

TEST_F(Preemption, ReturnsIdleAndUnknownSlots) {
  submit_with_retries(3);
  slot(3, 20);
  reply_value(20, "done");
  preempt(3);
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
  preempt(9);
  EXPECT_EQ(to_head<ReturnSlot>().size(), 1u);
}

TEST_F(Preemption, PreemptedTask_RunsBeforeItsClass) {
  const TaskId first = submit_with_retries(3, 1);
  submit_with_retries(3, 2);
  slot(3, 20);
  preempt(3);
  ended_by_executor(20);
  slot(4, 30);
  ASSERT_EQ(calls_at(30).size(), 1u);
  EXPECT_EQ(calls_at(30)[0].call.task, first);
}

}  // namespace
}  // namespace mobula::internal::client
