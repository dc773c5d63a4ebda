// Executors that await their submitted calls, and handles of actors whose owners have exited.
#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::planned_end {
namespace {

const JobId job = JobId::of(5);
constexpr LinkId driver_link = 1;
constexpr LinkId executor_link = 2;

ExecutorBlocked departing(bool released) {
  ExecutorBlocked message;
  message.on = released;
  message.departing = true;
  message.submitted = 2;
  message.example = "log";
  return message;
}

class PlannedEndTest : public ::testing::Test {
 protected:
  PlannedEndTest() : agent_(world_.add()), driver_(agent_.driver(driver_link, job)) {
    world_.settle();
    agent_.from_head(slot_of(1, job, driver_));
    world_.settle();
    for (const auto& prepare : agent_.did<PrepareProgram>()) {
      agent_.step(ProgramPrepared{prepare.program.id, {}, std::nullopt});
    }
    executor_ = agent_.run_executor(executor_link);
    agent_.forget();
  }

  Agents world_;
  Agent& agent_;
  ProcessId driver_;
  StartExecutor executor_;
};

TEST_F(PlannedEndTest, CallsPending_DelaysKill) {
  agent_.from_head(StopSlot{SlotId::of(1), false, "returned by its lessee", 30s});
  world_.settle();
  agent_.say(executor_link, departing(false));
  world_.settle();
  world_.advance(100s);
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
}

TEST_F(PlannedEndTest, DepartedExecutor_ReturnsSlot) {
  agent_.say(executor_link, departing(true));
  world_.settle();
  const auto lent = agent_.sent<SlotCpuReleased>();
  ASSERT_EQ(lent.size(), 1u);
  EXPECT_TRUE(lent[0].departed);
  EXPECT_EQ(lent[0].cause.kind, EndKind::retired);
  const auto received = agent_.received<FromHead>(driver_link);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<SlotLost>(received[0].message));
  agent_.say(executor_link, ExecutorRetires{EndKind::retired});
  world_.settle();
  agent_.executor_exits(executor_);
  EXPECT_EQ(agent_.sent<SlotGenerationEnded>().at(0).cut_calls, 0u);
  EXPECT_EQ(agent_.sent<SlotGone>().size(), 1u);
  EXPECT_TRUE(agent_.did<StartExecutor>().empty());
}

TEST_F(PlannedEndTest, SlotReturnedLater_DelaysKill) {
  agent_.say(executor_link, departing(false));
  world_.settle();
  agent_.from_head(StopSlot{SlotId::of(1), false, "returned by its lessee", 30s});
  world_.settle();
  world_.advance(100s);
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
}

// The head may send the order before it receives the departure.
TEST_F(PlannedEndTest, AwaitsCallsWhenStoppedAfterDeparture) {
  agent_.say(executor_link, departing(true));
  world_.settle();
  agent_.from_head(StopSlot{SlotId::of(1), false, "returned by its lessee", 30s});
  world_.settle();
  const auto end = agent_.received<EndExecutor>(executor_link);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_TRUE(end[0].stores);
  world_.advance(100s);
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
}

TEST_F(PlannedEndTest, ReportsUnfinishedCalls) {
  agent_.from_head(StopSlot{SlotId::of(1), false, "returned by its lessee", 30s});
  world_.settle();
  agent_.say(executor_link, departing(true));
  world_.settle();
  agent_.received<EndExecutor>(executor_link);
  agent_.from_head(StopSlot{SlotId::of(1), false, "its node is drained", {}});
  world_.settle();
  EXPECT_EQ(agent_.received<EndExecutor>(executor_link).size(), 1u);
  agent_.executor_exits(executor_);
  const auto ended = agent_.sent<SlotGenerationEnded>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cut_calls, 2u);
  EXPECT_NE(ended[0].cause.text.find("not finished: 2, one of them log"), std::string::npos)
      << ended[0].cause.text;
}

TEST_F(PlannedEndTest, CutsExitHandlersAfterTimeout) {
  agent_.say(executor_link, ExecutorRetires{EndKind::retired});
  world_.settle();
  world_.advance(WorkerOptions{}.exit_timeout - 100ms);
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
  world_.advance(200ms);
  EXPECT_EQ(agent_.did<KillExecutor>().size(), 1u);
  EndCause cause;
  cause.kind = EndKind::signalled;
  cause.signal = 9;
  agent_.executor_exits(executor_, cause);
  const auto ended = agent_.sent<SlotGenerationEnded>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause.kind, EndKind::retired) << "the calls of the executor are finished";
  EXPECT_EQ(ended[0].exit_failure,
            "its exit handlers were cut: they did not return within 5000 ms");
}

TEST_F(PlannedEndTest, ReportsExitHandlerThatThrows) {
  agent_.say(executor_link, ExecutorRetires{EndKind::retired});
  world_.settle();
  EndCause cause;
  cause.kind = EndKind::signalled;
  cause.signal = 6;
  cause.last_lines = "what(): flush failed";
  agent_.executor_exits(executor_, cause);
  const auto ended = agent_.sent<SlotGenerationEnded>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause.kind, EndKind::retired);
  EXPECT_NE(ended[0].exit_failure.find("signal 6"), std::string::npos) << ended[0].exit_failure;
  EXPECT_NE(ended[0].exit_failure.find("flush failed"), std::string::npos);
}

TEST_F(PlannedEndTest, ExitHandlersReturn_ReportsNoFailure) {
  agent_.say(executor_link, ExecutorRetires{EndKind::retired});
  world_.settle();
  agent_.executor_exits(executor_);
  EXPECT_EQ(agent_.sent<SlotGenerationEnded>().at(0).exit_failure, "");
}

TEST_F(PlannedEndTest, JobEnded_ActorsAreDestroyed) {
  agent_.from_head(JobEnded{job, {}, false});
  world_.settle();
  const auto end = agent_.received<EndExecutor>(executor_link);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_FALSE(end[0].graceful);
  EXPECT_TRUE(end[0].orderly);
}

TEST_F(PlannedEndTest, ReportsLastHandleOfEntrustedActor) {
  const ObjectId handles = ObjectId::of(70);
  const ProcessId owner = executor_.assign.process;
  agent_.say(executor_link, ExportObject{handles, false});
  world_.settle();
  agent_.say(driver_link, HoldObjectRequest{ref_of(handles, agent_, owner)});
  world_.settle();
  agent_.say(executor_link, ExportObject{handles, false, ActorId::of(7)});
  world_.settle();
  agent_.say(executor_link, ExecutorRetires{EndKind::retired});
  world_.settle();
  agent_.executor_exits(executor_);
  const auto held = agent_.sent<ObjectCopies>();
  ASSERT_EQ(held.size(), 1u);
  ASSERT_EQ(held[0].entrusted.size(), 1u);
  EXPECT_EQ(held[0].entrusted[0], (EntrustedActor{ActorId::of(7), job, true}));
  agent_.say(driver_link, ReleaseObject{handles});
  world_.settle();
  const auto unheld = agent_.sent<ObjectCopies>();
  ASSERT_EQ(unheld.size(), 1u);
  EXPECT_EQ(unheld[0].entrusted.at(0), (EntrustedActor{ActorId::of(7), job, false}));
}

}  // namespace
}  // namespace mobula::internal::worker::planned_end
