// Slots that run the command of a submitted job.
#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::slots_entry {
namespace {

const JobId job = JobId::of(5);

class EntryTest : public ::testing::Test {
 protected:
  EntryTest() : agent_(world_.add()) {
    world_.settle();
    agent_.forget();
  }

  StartExecutor running(Duration time_limit = {}) {
    StartSlot start = slot_of(1, job, ProcessId());
    start.program = {};
    start.actor.actor = ActorId::of(9);
    start.actor.job = job;
    start.actor.entry.argv = {"/bin/work"};
    start.actor.entry.time_limit = time_limit;
    start.actor.entry.grace = 3s;
    agent_.from_head(std::move(start));
    world_.settle();
    const auto starts = agent_.did<StartExecutor>();
    EXPECT_EQ(starts.size(), 1u) << "the start waits for no program";
    agent_.step(ExecutorStarted{starts.at(0).slot, 0, 77, 0});
    EXPECT_EQ(agent_.sent<SlotStarted>().size(), 1u) << "it is ready when it runs";
    EXPECT_EQ(agent_.sent<ActorConstructed>().size(), 1u);
    return starts.at(0);
  }
  void exits(const StartExecutor& started, int signal, int code = 0) {
    EndCause cause;
    cause.kind = signal != 0 ? EndKind::signalled : EndKind::exited;
    cause.signal = signal;
    cause.exit_code = code;
    agent_.step(ExecutorExited{started.slot, 0, cause});
  }

  Agents world_;
  Agent& agent_;
};

TEST_F(EntryTest, ReportsExitCodeAndEndsSlot) {
  const auto started = running();
  exits(started, 0, 7);
  const auto ended = agent_.sent<SlotGenerationEnded>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause.exit_code, 7);
  EXPECT_EQ(agent_.sent<SlotGone>().size(), 1u);
  EXPECT_TRUE(agent_.did<StartExecutor>().empty()) << "whether it runs again the head decides";
}

TEST_F(EntryTest, KeepsEndAmongFacts) {
  exits(running(), 0, 7);
  agent_.forget();
  agent_.from_head(FactsRequest{});
  world_.settle();
  const auto stated = agent_.sent<FactsReply>();
  ASSERT_FALSE(stated.empty());
  ASSERT_EQ(stated[0].facts.ended_entries.size(), 1u);
  EXPECT_EQ(stated[0].facts.ended_entries[0].actor, ActorId::of(9));
  EXPECT_EQ(stated[0].facts.ended_entries[0].cause.exit_code, 7);
}

TEST_F(EntryTest, Stopped_GetsItsGrace) {
  const auto started = running();
  agent_.from_head(StopSlot{started.slot, true, "stopped by a tool", {}});
  world_.settle();
  const auto killed = agent_.did<KillExecutor>();
  ASSERT_EQ(killed.size(), 1u);
  EXPECT_EQ(killed[0].grace, Duration(3s));
  exits(started, 15);
  EXPECT_EQ(agent_.sent<SlotGone>().size(), 1u);
}

TEST_F(EntryTest, TimeLimitReached_TerminatesWithReason) {
  const auto started = running(20s);
  world_.advance(19s);
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
  world_.advance(2s);
  const auto killed = agent_.did<KillExecutor>();
  ASSERT_EQ(killed.size(), 1u);
  EXPECT_EQ(killed[0].grace, Duration(3s));
  exits(started, 15);
  const auto ended = agent_.sent<SlotGenerationEnded>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause.kind, EndKind::killed);
  EXPECT_EQ(ended[0].cause.signal, 15);
  EXPECT_NE(ended[0].cause.text.find("time limit of 20000 ms"), std::string::npos);
}

TEST_F(EntryTest, NoTimeLimit_RunsOn) {
  running();
  world_.advance(std::chrono::hours(1));
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
}

}  // namespace
}  // namespace mobula::internal::worker::slots_entry
