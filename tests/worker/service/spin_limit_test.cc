#include "worker/spin_governor.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "transport/loop_fixture.h"

namespace mobula::internal::worker {
namespace {

std::size_t permits_after(IdleCpuEstimate estimate, int samples, int running, int spinning) {
  std::size_t last = 0;
  for (int i = 0; i < samples; ++i) last = estimate.sample(running, spinning);
  return last;
}

TEST(IdleCpuEstimateTest, LeavesOneProcessorForAwaitedThread) {
  EXPECT_EQ(permits_after(IdleCpuEstimate(8, 8), 20, 0, 0), 7u);
  EXPECT_EQ(permits_after(IdleCpuEstimate(2, 2), 20, 0, 0), 1u);
  EXPECT_EQ(permits_after(IdleCpuEstimate(1, 1), 20, 0, 0), 0u);
}

TEST(IdleCpuEstimateTest, CountsRunningButNotSpinningThreads) {
  EXPECT_EQ(permits_after(IdleCpuEstimate(8, 8), 40, 5, 0), 3u);
  EXPECT_EQ(permits_after(IdleCpuEstimate(8, 8), 40, 5, 3), 6u);
  EXPECT_EQ(permits_after(IdleCpuEstimate(2, 2), 40, 2, 1),
            1u);  // a spinning caller and a running executor
}

TEST(IdleCpuEstimateTest, TooManyRunnable_AllowsNoSpinners) {
  EXPECT_EQ(permits_after(IdleCpuEstimate(2, 2), 40, 2, 0), 0u);
  EXPECT_EQ(permits_after(IdleCpuEstimate(8, 8), 40, 30, 4), 0u);
}

TEST(IdleCpuEstimateTest, ForgetsSingleBurst) {
  IdleCpuEstimate estimate(4, 4);
  for (int i = 0; i < 20; ++i) (void)estimate.sample(1, 0);
  const std::size_t before = estimate.sample(1, 0);
  EXPECT_GE(estimate.sample(3, 0) + 1, before);
  EXPECT_EQ(permits_after(estimate, 20, 1, 0), before);
}

// Samples of a caller and an executor that wait for each other, alone on two processors.
TEST(IdleCpuEstimateTest, AwaitedThreads_KeepBudgetOpen) {
  IdleCpuEstimate estimate(2, 2);
  (void)estimate.sample(1, 0);
  for (const int running : {3, 3, 1, 1, 2, 2, 3, 1, 3, 2, 3, 3, 3, 1, 3, 2, 2, 2, 2, 4, 4, 1}) {
    EXPECT_EQ(estimate.sample(running, 0), 1u) << running;
  }
}

TEST(IdleCpuEstimateTest, PermanentLoad_ClosesBudget) {
  IdleCpuEstimate estimate(2, 2);
  (void)estimate.sample(1, 0);
  EXPECT_EQ(permits_after(estimate, 6, 2, 0), 1u);
  EXPECT_EQ(permits_after(estimate, 8, 2, 0), 0u);
}

TEST(IdleCpuEstimateTest, LimitsToProcessorsOfNode) {
  EXPECT_EQ(permits_after(IdleCpuEstimate(64, 4), 20, 10, 0), 3u);
  EXPECT_EQ(permits_after(IdleCpuEstimate(64, 4), 40, 62, 0), 2u);
}

class SpinLimitTest : public ::testing::Test {
 protected:
  SpinLimitTest() {
    std::string directory = std::filesystem::temp_directory_path().string() + "/mobula-spin-XXXXXX";
    EXPECT_NE(::mkdtemp(directory.data()), nullptr);
    directory_ = directory;
  }
  ~SpinLimitTest() override { std::filesystem::remove_all(directory_); }
  SpinLimitOptions running(const std::string& text) {
    std::ofstream(directory_ / "loadavg") << text;
    return {.longest = 50us, .load_file = (directory_ / "loadavg").string()};
  }

  std::filesystem::path directory_;
  std::unique_ptr<EventLoop> loop_ = make_loop();
};

TEST_F(SpinLimitTest, UnreadableLoad_AllowsNoSpinners) {
  for (const auto* text : {"", "0.1 0.1 0.1", "0.1 0.1 0.1 x/80 1", "0.1 0.1 0.1 3"}) {
    EXPECT_EQ(SpinGovernor::create(*loop_, running(text)).value()->permits(), 0u);
  }
  EXPECT_EQ(
      SpinGovernor::create(*loop_, {.longest = 50us, .load_file = "/nowhere"}).value()->permits(),
      0u);
}

TEST_F(SpinLimitTest, FollowsLoadOfMachine) {
  const auto limit = SpinGovernor::create(*loop_, running("0.1 0.1 0.1 100000/200000 1\n")).value();
  const auto page = SpinBudget::open(limit->file().value().get()).value();
  EXPECT_EQ(page.longest(), 50us);
  EXPECT_EQ(page.permits(), 0u);
  // A thread requests a permit, so samples continue.
  (void)running("0.1 0.1 0.1 1/200000 1         \n");
  if (std::thread::hardware_concurrency() == 1) return;
  for (const Time until = monotonic_now() + 20s; page.permits() == 0 && monotonic_now() < until;) {
    (void)page.take(3);
    loop_->turn(10ms);
  }
  EXPECT_GT(page.permits(), 0u);
}

TEST_F(SpinLimitTest, ReclaimsPermitsOfDeadProcesses) {
  const auto limit = SpinGovernor::create(*loop_, running("0 0 0 1/1 1\n")).value();
  const auto page = SpinBudget::open(limit->file().value().get()).value();
  page.set_permits(1);
  const auto ticket = page.take(spin_number(ProcessId::of(4)));
  EXPECT_EQ(page.taken(), 1u);
  limit->left(ProcessId::of(5));
  EXPECT_EQ(page.taken(), 1u);
  limit->left(ProcessId::of(4));
  EXPECT_EQ(page.taken(), 0u);
}

TEST_F(SpinLimitTest, LimitZero_AllowsNoSpinners) {
  auto options = running("0 0 0 1/1 1\n");
  options.longest = Duration(0);
  const auto limit = SpinGovernor::create(*loop_, options).value();
  EXPECT_EQ(limit->permits(), 0u);
}

}  // namespace
}  // namespace mobula::internal::worker
