#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::slots {
namespace {

const JobId job = JobId::of(5);
constexpr LinkId driver_link = 1;
constexpr LinkId executor_link = 2;

EndCause exit_code(int code) {
  EndCause cause;
  cause.exit_code = code;
  return cause;
}

class SlotsTest : public ::testing::Test {
 protected:
  SlotsTest() : agent_(world_.add()), driver_(agent_.driver(driver_link, job)) {
    world_.settle();
    agent_.forget();
  }

  void start(StartSlot slot) {
    agent_.from_head(std::move(slot));
    world_.settle();
    for (const auto& prepare : agent_.did<PrepareProgram>()) {
      agent_.step(ProgramPrepared{prepare.program.id, {}, std::nullopt});
    }
  }
  StartExecutor running(StartSlot slot, LinkId link = executor_link) {
    start(std::move(slot));
    StartExecutor started = agent_.run_executor(link);
    agent_.forget();
    return started;
  }

  Agents world_;
  Agent& agent_;
  ProcessId driver_;
};

TEST_F(SlotsTest, ProgramReady_FirstGenerationStarts) {
  agent_.from_head(slot_of(1, job, driver_));
  world_.settle();
  EXPECT_TRUE(agent_.did<StartExecutor>().empty());
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  const StartExecutor started = agent_.run_executor(executor_link);
  EXPECT_EQ(started.assign.lessee, driver_);
  EXPECT_FALSE(started.assign.process.empty());
  const auto sent = agent_.sent<SlotStarted>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].endpoint.process, started.assign.process);
  const auto lessee = agent_.received<FromHead>(driver_link);
  ASSERT_EQ(lessee.size(), 1u);
  EXPECT_EQ(std::get<SlotReady>(lessee[0].message).slot, SlotId::of(1));
}

// The cost of a step does not depend on the number of slots and connections that it does not
// change.
TEST_F(SlotsTest, StepVisitsFewRowsWhenManySlotsStart) {
  constexpr std::uint64_t slots = 1'000;
  for (std::uint64_t number = 1; number <= slots; ++number)
    agent_.from_head(slot_of(number, job, driver_));
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  ASSERT_EQ(agent_.core().census().slots, slots);
  for (LinkId link = 10; link < 60; ++link) {
    agent_.step(ProcessConnected{link, "user", 7});
    EXPECT_LE(agent_.core().visited_rows(), 10u);
  }
}

TEST_F(SlotsTest, StartRepeated_StartsOnce) {
  running(slot_of(1, job, driver_));
  start(slot_of(1, job, driver_));
  EXPECT_TRUE(agent_.did<StartExecutor>().empty());
}

TEST_F(SlotsTest, StartsNextGenerationAfterPreviousExited) {
  const StartExecutor first = running(slot_of(1, job, driver_));
  agent_.say(executor_link, ExecutorRetires{EndKind::retired});
  EXPECT_TRUE(agent_.did<StartExecutor>().empty());
  agent_.executor_exits(first);
  EXPECT_EQ(agent_.sent<SlotGenerationEnded>().at(0).cause.kind, EndKind::retired);
  const StartExecutor second = agent_.run_executor(3);
  EXPECT_EQ(second.generation, 1u);
  EXPECT_NE(second.assign.process, first.assign.process);
  EXPECT_EQ(agent_.sent<SlotStarted>().at(0).previous.kind, EndKind::retired);
}

TEST_F(SlotsTest, RepeatedCrashes_DelayNextStart) {
  StartExecutor current = running(slot_of(1, job, driver_));
  agent_.executor_exits(current, exit_code(1));
  current = agent_.run_executor(3);
  agent_.executor_exits(current, exit_code(1));
  EXPECT_TRUE(agent_.did<StartExecutor>().empty());
  world_.advance(100ms);
  EXPECT_EQ(agent_.did<StartExecutor>().size(), 1u);
}

TEST_F(SlotsTest, ThreeFailedGenerations_EndSlot) {
  start(slot_of(1, job, driver_));
  for (int i = 0; i < 3; ++i) {
    world_.advance(1s);
    const auto starts = agent_.did<StartExecutor>();
    ASSERT_EQ(starts.size(), 1u) << i;
    agent_.step(ExecutorStarted{starts[0].slot, starts[0].generation, 9, 10});
    agent_.executor_exits(starts[0], exit_code(127));
  }
  const auto gone = agent_.sent<SlotGone>();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].cause.kind, EndKind::start_failed);
  EXPECT_EQ(agent_.core().census().slots, 0u);
}

TEST_F(SlotsTest, ProgramLoadFailed_ReportsLoaderMessage) {
  agent_.from_head(slot_of(1, job, driver_));
  world_.settle();
  agent_.step(ProgramPrepared{
      ProgramId::of(1), {}, failure(ErrorCode::unavailable, "libx.so: cannot open")});
  world_.settle();
  const auto gone = agent_.sent<SlotGone>();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_TRUE(gone[0].program_cannot_start);
  EXPECT_EQ(gone[0].cause.text, "libx.so: cannot open");
  EXPECT_EQ(agent_.core().census().programs, 0u);
}

TEST_F(SlotsTest, ExecutorHangs_KilledAndSlotEndsAfterwards) {
  const StartExecutor started = running(slot_of(1, job, driver_));
  agent_.from_head(StopSlot{SlotId::of(1), false, "its lessee returned it"});
  world_.settle();
  EXPECT_EQ(agent_.received<EndExecutor>(executor_link).size(), 1u);
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
  world_.advance(1s);
  EXPECT_EQ(agent_.did<KillExecutor>().size(), 1u);
  EXPECT_TRUE(agent_.sent<SlotGone>().empty()) << "not before the process is gone";
  agent_.executor_exits(started);
  EXPECT_EQ(agent_.sent<SlotGone>().size(), 1u);
  EXPECT_EQ(agent_.core().census().processes, 1u) << "the driver";
}

TEST_F(SlotsTest, GracefulStop_WaitsForCall) {
  running(slot_of(1, job, driver_));
  agent_.from_head(StopSlot{SlotId::of(1), true, "drained"});
  world_.advance(60s);
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
  agent_.from_head(StopSlot{SlotId::of(1), false, "at once after all"});
  world_.advance(1s);
  EXPECT_EQ(agent_.did<KillExecutor>().size(), 1u);
}

TEST_F(SlotsTest, ForcedStop_IsNotReportedAsRetired) {
  for (const bool graceful : {true, false}) {
    const auto number = graceful ? 1u : 2u;
    const StartExecutor started = running(slot_of(number, job, driver_));
    agent_.from_head(StopSlot{SlotId::of(number), graceful, "the lessee did not reconnect"});
    world_.settle();
    agent_.executor_exits(started);
    const auto ended = agent_.sent<SlotGenerationEnded>();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].cause.kind, graceful ? EndKind::retired : EndKind::killed);
    EXPECT_EQ(ended[0].cause.text, "the lessee did not reconnect");
    agent_.forget();
  }
}

TEST_F(SlotsTest, StopDuringStart_EndsExecutorWhenStarted) {
  start(slot_of(1, job, driver_));
  const auto starts = agent_.did<StartExecutor>();
  agent_.from_head(StopSlot{SlotId::of(1), false, "returned"});
  world_.settle();
  EXPECT_TRUE(agent_.sent<SlotGone>().empty());
  agent_.step(ExecutorStarted{starts[0].slot, 0, 9, executor_link});
  EXPECT_EQ(agent_.received<EndExecutor>(executor_link).size(), 1u);
  agent_.executor_exits(starts[0]);
  EXPECT_EQ(agent_.sent<SlotGone>().size(), 1u);
}

TEST_F(SlotsTest, StopOfUnknownSlot_RepliesEnded) {
  agent_.from_head(StopSlot{SlotId::of(9), false, ""});
  world_.settle();
  EXPECT_EQ(agent_.sent<SlotGone>().size(), 1u);
}

TEST_F(SlotsTest, LeavesActorRestartsToHead) {
  const StartExecutor started = running(actor_slot(1, job));
  EXPECT_EQ(started.assign.incarnation, 1u);
  agent_.say(executor_link, ConstructorFinished{});
  world_.settle();
  EXPECT_EQ(agent_.sent<ActorConstructed>().size(), 1u);
  agent_.executor_exits(started, exit_code(3));
  EXPECT_EQ(agent_.sent<SlotGenerationEnded>().size(), 1u);
  EXPECT_EQ(agent_.sent<SlotGone>().size(), 1u);
  EXPECT_TRUE(agent_.did<StartExecutor>().empty());
}

TEST_F(SlotsTest, ReportsExitActorAsIntended) {
  const StartExecutor started = running(actor_slot(1, job));
  agent_.say(executor_link, ExecutorRetires{EndKind::intended});
  agent_.executor_exits(started);
  EXPECT_EQ(agent_.sent<SlotGone>().at(0).cause.kind, EndKind::intended);
}

TEST_F(SlotsTest, HeadUnreachable_KillsExclusiveActorOnly) {
  StartSlot exclusive = actor_slot(1, job);
  exclusive.actor.exclusive = true;
  running(exclusive);
  running(actor_slot(2, job), 3);
  agent_.head_answers = false;
  world_.advance(7s);
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
  world_.advance(2s);
  const auto killed = agent_.did<KillExecutor>();
  ASSERT_EQ(killed.size(), 1u);
  EXPECT_EQ(killed[0].slot, SlotId::of(1));
}

TEST_F(SlotsTest, AgentPaused_HeadIsNotConsideredSilent) {
  StartSlot exclusive = actor_slot(1, job);
  exclusive.actor.exclusive = true;
  running(exclusive);
  world_.now = world_.now + 20s;
  agent_.step(Paused{20s});
  agent_.step(Tick{});
  world_.settle();
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
}

TEST_F(SlotsTest, BlockedExecutorExits_CpuIsReacquired) {
  const StartExecutor started = running(slot_of(1, job, driver_));
  agent_.say(executor_link, ExecutorBlocked{true});
  world_.settle();
  EXPECT_TRUE(agent_.sent<SlotCpuReleased>().at(0).on);
  agent_.executor_exits(started, exit_code(1));
  EXPECT_FALSE(agent_.sent<SlotCpuReleased>().at(0).on);
}

TEST_F(SlotsTest, LinkOfExecutorClosed_ExecutorEnds) {
  running(slot_of(1, job, driver_));
  agent_.step(ProcessLinkLost{executor_link});
  world_.advance(1s);
  EXPECT_EQ(agent_.did<KillExecutor>().size(), 1u);
}

TEST_F(SlotsTest, JobEnded_EndsAllButKeptSlots) {
  const StartExecutor task = running(slot_of(1, job, driver_));
  running(actor_slot(2, job), 3);
  agent_.from_head(JobEnded{job, {SlotId::of(2)}});
  world_.settle();
  EXPECT_EQ(agent_.received<EndExecutor>(executor_link).size(), 1u);
  EXPECT_TRUE(agent_.received<EndExecutor>(3).empty());
  agent_.executor_exits(task);
  EXPECT_EQ(agent_.core().census().slots, 1u);
}

TEST_F(SlotsTest, PullsMissingProgramFilesFromSource) {
  Agent& source = world_.add();
  StartSlot slot = slot_of(1, job, driver_);
  slot.program.source = source.node();
  agent_.from_head(slot);
  world_.settle();
  const ProgramFile file{"app", Hash128{1, 2}, 10};
  agent_.step(ProgramPrepared{ProgramId::of(1), {file}, std::nullopt});
  world_.settle();
  EXPECT_EQ(source.did<OfferFile>().at(0).file, file.hash);
  EXPECT_EQ(agent_.did<StartFilePull>().at(0).file, file.hash);
  EXPECT_EQ(agent_.did<PrepareProgram>().size(), 2u) << "before and after";
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  EXPECT_EQ(agent_.did<StartExecutor>().size(), 1u);
}

TEST_F(SlotsTest, ProgramSourceDied_SlotEndsButMayRetry) {
  Agent& source = world_.add();
  world_.die(source);
  StartSlot slot = slot_of(1, job, driver_);
  slot.program.source = source.node();
  agent_.from_head(slot);
  world_.settle();
  agent_.step(ProgramPrepared{ProgramId::of(1), {{"app", Hash128{1, 2}, 10}}, std::nullopt});
  world_.announce_death(source);
  const auto gone = agent_.sent<SlotGone>();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_FALSE(gone[0].program_cannot_start);
  EXPECT_EQ(agent_.core().census().pulls, 0u);
}

// Without a backoff, a slot that is placed here again would fail again at once, without end.
TEST_F(SlotsTest, FilesUnavailable_RetriesWithGrowingBackoff) {
  const auto fails = [&] {  // the source is this node, which has lost the files
    agent_.step(ProgramPrepared{ProgramId::of(1), {{"app", Hash128{1, 2}, 10}}, std::nullopt});
    world_.settle();
    return agent_.sent<SlotGone>();
  };
  const auto starts = [&](std::uint64_t number) {
    StartSlot slot = slot_of(number, job, driver_);
    slot.program.source = agent_.node();
    agent_.from_head(slot);
    world_.settle();
    return agent_.did<PrepareProgram>().size();
  };
  ASSERT_EQ(starts(1), 1u);
  auto gone = fails();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_NE(gone[0].cause.text.find("it is tried again in 0.5 s"), std::string::npos)
      << gone[0].cause.text;
  EXPECT_EQ(starts(2), 0u);
  world_.advance(400ms);
  EXPECT_TRUE(agent_.did<PrepareProgram>().empty());
  world_.advance(200ms);
  ASSERT_EQ(agent_.did<PrepareProgram>().size(), 1u);
  gone = fails();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_NE(gone[0].cause.text.find("in 1 s"), std::string::npos) << gone[0].cause.text;
  EXPECT_EQ(starts(3), 0u);
  world_.advance(900ms);
  EXPECT_TRUE(agent_.did<PrepareProgram>().empty());
  world_.advance(200ms);
  ASSERT_EQ(agent_.did<PrepareProgram>().size(), 1u);
  agent_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
  EXPECT_EQ(agent_.did<StartExecutor>().size(), 1u);
}

TEST_F(SlotsTest, SendsExecutorOutputToDriversOfJob) {
  running(slot_of(1, job, driver_));
  agent_.say(executor_link, RunningNow{"square", TaskId::of(1)});
  agent_.step(ExecutorPrinted{SlotId::of(1), 0, {"hello"}});
  const auto lines = agent_.received<LogLines>(driver_link);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].source.substr(0, 14), "square pid=100");
}

TEST_F(SlotsTest, LabelsOutputByItsTask) {
  running(slot_of(1, job, driver_));
  agent_.say(executor_link, RunningNow{"square", TaskId::of(1)});
  agent_.step(ExecutorPrinted{SlotId::of(1), 0, {"hello"}, "cube"});
  const auto lines = agent_.received<LogLines>(driver_link);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].source.substr(0, 12), "cube pid=100");
}

}  // namespace
}  // namespace mobula::internal::worker::slots
