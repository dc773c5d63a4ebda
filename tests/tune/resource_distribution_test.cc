#include "tune/core/schedulers/resource_distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tune/resource_runner.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

TEST(ResourceDistribution, EqualsRecordedAllocations) {
  std::ifstream trace(MOBULA_SOURCE_DIR "/tests/tune/traces/resources.txt");
  ResourceRunner runner;
  runner.run(trace);
  for (const auto& difference : runner.differences()) ADD_FAILURE() << difference;
  EXPECT_EQ(runner.difference_count(), 0);
  EXPECT_GT(runner.compared(), 500);
}

TEST(ResourceDistribution, GivesFreeProcessorsToTrialThatReports) {
  TrialTable trials;
  TuneRandom random{NumpyRandom(1), PythonRandom(1)};
  const SchedulerStep step{trials, random};
  auto scheduler = make_resource_changing(make_fifo_scheduler(), make_distribution({}, [] {
                                            return ProcessorAmounts{40'000, 0};
                                          }));
  const ResourceBundles base{{{"CPU", 10'000}, {"memory", 5}}};
  for (int i = 0; i < 2; ++i) {
    const TrialNumber trial = trials.add({}, base);
    ASSERT_TRUE(scheduler->added(trial, step).ok());
    trials.set_state(trial, TrialState::running);
  }
  const auto decision = scheduler->reported({.trial = 0, .time = 1, .value = 1}, step);
  EXPECT_EQ(decision.value(), Decision::pause);
  trials.set_state(0, TrialState::paused);
  EXPECT_EQ(scheduler->choose(step), 0);
  EXPECT_EQ(trials.row(0).resources, (ResourceBundles{{{"CPU", 20'000}, {"memory", 5}}}));
}

TEST(ResourceDistribution, RejectsSeveralBundlesWithoutAdding) {
  const auto result = distribute({}, {.base = {{10'000, 0}, {10'000, 0}}, .trials = {{}}});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().text, HasSubstr("has 2 bundles, expected 1; set add_bundles"));
}

}  // namespace
}  // namespace mobula::internal::tune
