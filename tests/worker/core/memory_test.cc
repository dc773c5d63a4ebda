// The choice of executors to terminate under memory pressure, and its time.
#include "worker/core/slots/memory_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::memory {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t mib = std::int64_t{1} << 20;
const JobId one = JobId::of(1);
const JobId two = JobId::of(2);

MemoryCandidate candidate(JobId job, std::uint64_t order, std::int64_t size_mib,
                          bool may_run_again = true, bool actor = false) {
  MemoryCandidate made;
  made.slot = SlotId::of(order);
  made.job = job;
  made.order = order;
  made.bytes = size_mib * mib;
  made.may_run_again = may_run_again;
  made.actor = actor;
  made.name = "f" + std::to_string(order);
  return made;
}

std::uint64_t chosen(const std::vector<MemoryCandidate>& candidates, bool last_resort = false) {
  const auto index = choose_to_end(candidates, 16 * mib, last_resort);
  return index ? candidates[*index].order : 0;
}

TEST(OomVictimChoice, ChoosesNewestOfLargestJob) {
  EXPECT_EQ(chosen({candidate(one, 1, 200), candidate(one, 2, 100), candidate(two, 3, 250)}), 2u);
  EXPECT_EQ(chosen({candidate(one, 1, 200), candidate(one, 2, 100), candidate(two, 3, 350)}), 3u);
}

TEST(OomVictimChoice, SparesNonRetryableButCountsItForJob) {
  EXPECT_EQ(chosen({candidate(one, 1, 50), candidate(one, 2, 900, false), candidate(two, 3, 250)}),
            1u);
  EXPECT_EQ(chosen({candidate(one, 2, 900, false)}), 0u);
}

TEST(OomVictimChoice, PrefersTasksToActors) {
  EXPECT_EQ(chosen({candidate(one, 1, 50), candidate(two, 2, 900, true, true)}), 1u);
  EXPECT_EQ(chosen({candidate(two, 2, 900, true, true)}), 2u);
  EXPECT_EQ(chosen({candidate(two, 2, 900, false, true)}), 0u);
}

TEST(OomVictimChoice, LastResort_ChoosesNonRetryable) {
  const std::vector<MemoryCandidate> all{candidate(one, 1, 50, false),
                                         candidate(two, 2, 900, false, true),
                                         candidate(two, 3, 20, true, true)};
  EXPECT_EQ(chosen(all, true), 3u) << "still what may first";
  EXPECT_EQ(chosen({all[0], all[1]}, true), 1u);
  EXPECT_EQ(chosen({all[1]}, true), 2u);
}

TEST(OomVictimChoice, SkipsSmallAndEndingProcesses) {
  EXPECT_EQ(chosen({candidate(one, 1, 15)}), 0u);
  auto ends = candidate(one, 2, 900);
  ends.ends_already = true;
  EXPECT_EQ(chosen({candidate(one, 1, 100), ends}), 1u);
}

MemorySampled sampled(std::int64_t used_mib, std::vector<ExecutorMemory> executors = {}) {
  return {"memory of the node", used_mib * mib, 1000 * mib, std::move(executors)};
}

TEST(MemoryGuardTest, KillsOneAtATimeWithBackoff) {
  const WorkerOptions options;
  MemoryGuard guard(options);
  const std::vector<MemoryCandidate> candidates{candidate(one, 1, 500), candidate(one, 2, 500)};
  Time now = Time::from_ns(0) + Duration(1s);
  EXPECT_FALSE(guard.evaluate(now, sampled(950), candidates)) << "at the limit is not beyond it";
  EXPECT_EQ(guard.evaluate(now, sampled(951), candidates), 1u);
  now = now + Duration(4s);
  EXPECT_FALSE(guard.evaluate(now, sampled(990), candidates)) << "it is not gone yet";
  guard.gone(now);
  EXPECT_FALSE(guard.evaluate(now + Duration(499ms), sampled(990), candidates));
  EXPECT_TRUE(guard.evaluate(now + Duration(500ms), sampled(990), candidates));
}

TEST(MemoryGuardTest, StopsWaitingAfterTimeout) {
  const WorkerOptions options;
  MemoryGuard guard(options);
  const std::vector<MemoryCandidate> candidates{candidate(one, 1, 500), candidate(one, 2, 500)};
  const Time now = Time::from_ns(0) + Duration(1s);
  ASSERT_TRUE(guard.evaluate(now, sampled(951), candidates));
  EXPECT_TRUE(guard.evaluate(now + options.memory_end_timeout, sampled(951), candidates));
}

TEST(MemoryGuardTest, WaitsForMemoryOfExitedProcess) {
  const WorkerOptions options;
  MemoryGuard guard(options);
  std::vector<MemoryCandidate> candidates{candidate(one, 1, 500), candidate(one, 2, 0)};
  candidates[1].has_ended = true;
  const Time now = Time::from_ns(0) + Duration(1s);
  EXPECT_FALSE(guard.evaluate(now, sampled(999), candidates));
  candidates.pop_back();
  EXPECT_TRUE(guard.evaluate(now, sampled(999), candidates));
}

TEST(MemoryGuardTest, KillsNonRetryableOnlyNearKernelLimit) {
  const WorkerOptions options;
  MemoryGuard guard(options);
  const std::vector<MemoryCandidate> once{candidate(one, 1, 500, false)};
  const Time now = Time::from_ns(0) + Duration(1s);
  EXPECT_FALSE(guard.evaluate(now, sampled(980), once));
  EXPECT_TRUE(guard.evaluate(now, sampled(981), once));
}

TEST(WhyEnded, StatesNumbers) {
  const WorkerOptions options;
  const std::vector<MemoryCandidate> all{candidate(one, 1, 300), candidate(one, 2, 600)};
  const std::string why = why_ended_for_memory(sampled(960), all, 0, 40 * mib, options);
  EXPECT_THAT(why,
              HasSubstr("memory of the node: 960 MiB of 1000 MiB in use (96.0 %, at most 95 %)"));
  EXPECT_THAT(why, HasSubstr("this process: 300 MiB, f2: 600 MiB, the object store: 40 MiB"));
}

// ---- in the agent -------------------------------------------------------------------------------

const JobId job = JobId::of(5);
constexpr LinkId driver_link = 1;

class MemoryTest : public ::testing::Test {
 protected:
  MemoryTest() : agent_(world_.add()), driver_(agent_.driver(driver_link, job)) {
    world_.settle();
    agent_.forget();
  }

  StartExecutor running(StartSlot slot, LinkId link, bool may_run_again) {
    agent_.from_head(std::move(slot));
    world_.settle();
    for (const auto& prepare : agent_.did<PrepareProgram>()) {
      agent_.step(ProgramPrepared{prepare.program.id, {}, std::nullopt});
    }
    StartExecutor started = agent_.run_executor(link);
    agent_.say(link, RunningNow{"square", TaskId::of(link), may_run_again});
    agent_.forget();
    return started;
  }
  void evaluate(std::int64_t used_mib,
                const std::vector<std::pair<StartExecutor, std::int64_t>>& own) {
    std::vector<ExecutorMemory> executors;
    for (const auto& [start, size_mib] : own) {
      executors.push_back({start.slot, start.generation, size_mib * mib});
    }
    agent_.step(sampled(used_mib, std::move(executors)));
  }

  Agents world_;
  Agent& agent_;
  ProcessId driver_;
};

EndCause signal(int number) {
  EndCause cause;
  cause.kind = EndKind::signalled;
  cause.signal = number;
  return cause;
}

TEST_F(MemoryTest, ReportsNumbersOfKilledExecutor) {
  const auto once = running(slot_of(1, job, driver_), 2, false);
  const auto again = running(slot_of(2, job, driver_), 3, true);
  evaluate(960, {{once, 500}, {again, 300}});
  const auto kills = agent_.did<KillExecutor>();
  ASSERT_EQ(kills.size(), 1u);
  EXPECT_EQ(kills[0].slot, again.slot);
  EXPECT_THAT(kills[0].why, HasSubstr("this process: 300 MiB, square (pid"));
  agent_.executor_exits(again, signal(9));
  const auto sent = agent_.received<FromHead>(driver_link);
  ASSERT_FALSE(sent.empty());
  const EndCause cause = std::get<GenerationEnded>(sent[0].message).cause;
  EXPECT_EQ(cause.kind, EndKind::out_of_memory);
  EXPECT_EQ(cause.text, kills[0].why);
  EXPECT_TRUE(agent_.did<StartExecutor>().empty()) << "the next one waits a moment";
  world_.advance(Duration(200ms));
  EXPECT_EQ(agent_.did<StartExecutor>().size(), 1u);
}

// The memory of the killed executor is counted for a moment. No other one is terminated for it.
TEST_F(MemoryTest, KernelOomKill_WaitsForMemoryToReturn) {
  const auto first = running(slot_of(1, job, driver_), 2, true);
  const auto second = running(slot_of(2, job, driver_), 3, true);
  EndCause by_the_kernel = signal(9);
  by_the_kernel.kind = EndKind::out_of_memory;
  agent_.executor_exits(first, by_the_kernel);
  agent_.forget();
  evaluate(990, {{second, 300}});
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
  world_.advance(Duration(600ms));
  evaluate(990, {{second, 300}});
  EXPECT_EQ(agent_.did<KillExecutor>().size(), 1u) << "it was not enough";
}

TEST_F(MemoryTest, ExitedByItself_IsNotReportedAsOom) {
  const auto again = running(slot_of(2, job, driver_), 3, true);
  evaluate(960, {{again, 300}});
  agent_.executor_exits(again, signal(11));
  const auto sent = agent_.received<FromHead>(driver_link);
  ASSERT_FALSE(sent.empty());
  EXPECT_NE(std::get<GenerationEnded>(sent[0].message).cause.kind, EndKind::out_of_memory);
}

TEST_F(MemoryTest, KillsRestartableActorAfterTasks) {
  StartSlot slot = actor_slot(1, job);
  slot.actor.max_restarts = 1;
  const auto actor = running(std::move(slot), 2, false);
  evaluate(960, {{actor, 500}});
  EXPECT_EQ(agent_.did<KillExecutor>().size(), 1u);
}

TEST_F(MemoryTest, SparesActorWithoutRestarts) {
  const auto actor = running(actor_slot(1, job), 2, false);
  evaluate(960, {{actor, 500}});
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
  evaluate(990, {{actor, 500}});
  EXPECT_EQ(agent_.did<KillExecutor>().size(), 1u) << "but for the last resort";
}

TEST_F(MemoryTest, NotifiesHeadOfPressureStartAndEnd) {
  evaluate(940, {});
  world_.settle();
  EXPECT_TRUE(agent_.sent<MemoryPressure>().empty());
  evaluate(960, {});
  evaluate(970, {});
  world_.settle();
  const auto begun = agent_.sent<MemoryPressure>();
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_TRUE(begun[0].on);
  EXPECT_THAT(begun[0].text, HasSubstr("960 MiB of 1000 MiB"));
  evaluate(900, {});
  world_.settle();
  const auto ended = agent_.sent<MemoryPressure>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_FALSE(ended[0].on);
}

}  // namespace
}  // namespace mobula::internal::worker::memory
