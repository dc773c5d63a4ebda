// Reactions to executors that exceed their share of a GPU.
#include "worker/core/slots/gpu_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::gpu_bytes {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t mib = std::int64_t{1} << 20;

GpuHolder holder(std::uint64_t slot, std::int64_t share_mib, std::uint32_t device = 0) {
  return {SlotId::of(slot), 0, device, share_mib * mib, "f" + std::to_string(slot)};
}

GpuMemorySampled sampled(std::vector<std::pair<std::uint64_t, std::int64_t>> uses,
                         bool per_process = true) {
  GpuUse use;
  use.per_process = per_process;
  for (const auto& [slot, size_mib] : uses) {
    use.executors.push_back({SlotId::of(slot), 0, size_mib * mib});
    use.used_bytes += size_mib * mib;
  }
  return {{use}};
}

TEST(GpuGuardTest, ReportsExceededShareOnceUntilItEnds) {
  const WorkerOptions options;
  GpuGuard guard(options);
  const std::vector<GpuHolder> holders{holder(1, 500), holder(2, 500)};
  EXPECT_TRUE(guard.evaluate(sampled({{1, 500}, {2, 532}}), holders).empty())
      << "drivers keep a little themselves";
  const auto over = guard.evaluate(sampled({{1, 500}, {2, 533}}), holders);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(over[0].slot, SlotId::of(2));
  EXPECT_TRUE(over[0].on);
  EXPECT_EQ(over[0].reacts, Reacts::error);
  EXPECT_THAT(over[0].text, HasSubstr("f2 has 533 MiB of GPU 0"));
  EXPECT_THAT(over[0].text, HasSubstr("its share is 500 MiB"));
  EXPECT_TRUE(guard.evaluate(sampled({{1, 500}, {2, 600}}), holders).empty()) << "it was told";
  const auto back = guard.evaluate(sampled({{1, 500}, {2, 400}}), holders);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_FALSE(back[0].on);
  EXPECT_EQ(guard.evaluate(sampled({{2, 600}}), holders).size(), 1u);
  guard.gone(SlotId::of(2));
  EXPECT_EQ(guard.evaluate(sampled({{2, 600}}), holders).size(), 1u)
      << "the next generation was not reported before";
}

TEST(GpuGuardTest, SharedDevice_KillsNothing) {
  WorkerOptions options;
  options.gpu_reacts = Reacts::kill;
  GpuGuard guard(options);
  const std::vector<GpuHolder> holders{holder(1, 300), holder(2, 300), holder(3, 1000, 1)};
  EXPECT_TRUE(guard.evaluate(sampled({{9, 632}}, false), holders).empty());
  const auto over = guard.evaluate(sampled({{9, 633}}, false), holders);
  ASSERT_EQ(over.size(), 2u) << "both who have a part of that device";
  EXPECT_EQ(over[0].reacts, Reacts::log);
  EXPECT_THAT(over[0].text, HasSubstr("f1, f2 share 600 MiB of it"));
}

TEST(GpuGuardTest, NoCountedShare_SparesProcess) {
  const WorkerOptions options;
  GpuGuard guard(options);
  EXPECT_TRUE(guard.evaluate(sampled({{1, 5000}}), std::vector{holder(1, 0)}).empty());
}

// ---- in the agent -------------------------------------------------------------------------------

const JobId job = JobId::of(5);
constexpr LinkId driver_link = 1;
constexpr LinkId executor_link = 2;

class GpuBytesTest : public ::testing::Test {
 protected:
  GpuBytesTest() : agent_(world_.add()), driver_(agent_.driver(driver_link, job)) {
    world_.settle();
    agent_.forget();
    StartSlot slot = slot_of(1, job, driver_);
    ResourceShare gpu{"GPU", {}};
    gpu.shares.push_back({0, Quantity::from_units(2500), 256 * mib});
    slot.allocation.resources.push_back(std::move(gpu));
    agent_.from_head(std::move(slot));
    world_.settle();
    for (const auto& prepare : agent_.did<PrepareProgram>()) {
      agent_.step(ProgramPrepared{prepare.program.id, {}, std::nullopt});
    }
    started_ = agent_.run_executor(executor_link);
    world_.settle();
    agent_.forget();
  }
  void evaluate(std::int64_t size_mib) {
    GpuUse use;
    use.per_process = true;
    use.executors.push_back({started_.slot, started_.generation, size_mib * mib});
    agent_.step(GpuMemorySampled{{use}});
    world_.settle();
  }

  Agents world_;
  Agent& agent_;
  ProcessId driver_;
  StartExecutor started_;
};

TEST_F(GpuBytesTest, NotifiesExecutorAndLogsWarning) {
  evaluate(400);
  const auto received = agent_.received<OverShare>(executor_link);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_THAT(received[0].text, HasSubstr("400 MiB"));
  EXPECT_TRUE(agent_.sent<SlotShareExceeded>().at(0).on);
  EXPECT_EQ(agent_.did<LogWarning>().size(), 1u);
  EXPECT_TRUE(agent_.did<KillExecutor>().empty());
  agent_.forget();
  evaluate(100);
  EXPECT_FALSE(agent_.sent<SlotShareExceeded>().at(0).on);
}

}  // namespace
}  // namespace mobula::internal::worker::gpu_bytes
