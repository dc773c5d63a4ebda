// The number of trials at one time, as it follows from the resources of a trial.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tune/runtime/run_fixture.h"

namespace mobula::testing {
namespace {

// The first trials wait for each other, so that a smaller concurrency fails.
void overlapping(const tune::Config& config) {
  const std::int64_t expected = config.integer("expected");
  const double begin = steady_seconds();
  if (tune::get_context().trial < expected && !wait_for_trials(expected))
    throw std::runtime_error("too few trials run at one time");
  const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
  tune::report({{"loss", config.number("x")},
                {"begin", begin},
                {"end", steady_seconds()},
                {"devices", devices == nullptr ? "unset" : devices}});
}

tune::RunOptions options_for(int expected, int num_samples,
                             tune::ResourcesPerTrial resources = {{"cpu", 1}}) {
  auto options = quiet_options({{"expected", tune::constant(expected)}, {"x", tune::uniform(0, 1)}},
                               num_samples);
  options.resources_per_trial = std::move(resources);
  return options;
}

void expect_at_once(int expected, const tune::RunOptions& options) {
  const auto results = tune::run<overlapping>(options);
  EXPECT_EQ(results.all().size(), static_cast<std::size_t>(options.num_samples));
  for (const auto& result : results.all()) EXPECT_EQ(result.error, "");
  EXPECT_EQ(most_at_once(results), expected);
}

TEST(TuneResources, RunsOneTrialPerCpuByDefault) { expect_at_once(4, options_for(4, 10)); }

TEST(TuneResources, RunsTwoTrialsOfTwoCpus) { expect_at_once(2, options_for(2, 5, {{"cpu", 2}})); }

TEST(TuneResources, RunsOneTrialOfFourCpus) { expect_at_once(1, options_for(1, 3, {{"cpu", 4}})); }

TEST(TuneResources, RunsEightTrialsOfHalfACpu) {
  expect_at_once(8, options_for(8, 12, {{"cpu", 0.5}}));
}

TEST(TuneResources, RunsOneTrialPerGpuAndMasksDevices) {
  const auto with = tune::run<overlapping>(options_for(1, 3, {{"gpu", 1}}));
  EXPECT_EQ(most_at_once(with), 1);
  for (const auto& result : with.all()) EXPECT_EQ(result.metrics.at("devices").text(), "0");
  const auto without = tune::run<overlapping>(options_for(1, 1));
  EXPECT_EQ(without.all()[0].metrics.at("devices").text(), "");
}

TEST(TuneResources, RunsOneTrialOfCpusAndGpu) {
  expect_at_once(1, options_for(1, 3, {{"cpu", 2}, {"gpu", 1}, {"memory", 1 << 20}}));
}

TEST(TuneResources, RunsPlacementGroupFactory) {
  expect_at_once(1, options_for(1, 2, tune::PlacementGroupFactory{{{{"CPU", 2}, {"GPU", 1}}}}));
}

TEST(TuneResources, RunsTwoTrialsWithCustomResource) {
  expect_at_once(2, options_for(2, 4, {{"cpu", 0.5}, {"license", 1}}));
}

TEST(TuneResources, LimitsConcurrentTrials) {
  auto options = options_for(3, 7);
  options.max_concurrent_trials = 3;
  expect_at_once(3, options);
}

TEST(TuneResources, LimitsTrialsOfSearcher) {
  auto options = options_for(2, 6);
  options.search_alg = tune::ConcurrencyLimiter(tune::TPESearch(), {.max_concurrent = 2});
  expect_at_once(2, options);
}

TEST(TuneResources, UsesFunctionOfConfiguration) {
  auto options =
      quiet_options({{"expected", tune::constant(1)}, {"x", tune::grid_search({1, 2, 4})}}, 1);
  options.resources_per_trial = tune::ResourcesPerTrial::ByConfig([](const tune::Config& config) {
    return tune::PlacementGroupFactory{{{{"cpu", config.integer("x")}}}};
  });
  const auto results = tune::run<overlapping>(options);
  ASSERT_EQ(results.all().size(), 3U);
  for (const auto& result : results.all()) EXPECT_EQ(result.error, "");
}

TEST(TuneResources, FailsTrialOfGroupThatNeverFits) {
  auto options =
      quiet_options({{"expected", tune::constant(0)}, {"x", tune::grid_search({1, 1000})}}, 1);
  options.resources_per_trial = tune::ResourcesPerTrial::ByConfig([](const tune::Config& config) {
    return tune::PlacementGroupFactory{{{{"cpu", config.integer("x")}}}};
  });
  const auto results = tune::run<overlapping>(options);
  ASSERT_EQ(results.all().size(), 2U);
  EXPECT_EQ(results.all()[0].error, "");
  EXPECT_NE(results.all()[1].error.find("trial 1: resources_per_trial"), std::string::npos)
      << results.all()[1].error;
}

struct Adder {
  int add(int a, int b) { return a + b; }
};

void gang(const tune::Config& config) {
  auto ranks = tune::workers<Adder>(2);
  int sum = 0;
  for (auto& rank : ranks) sum += mobula::get(rank.call<&Adder::add>(1, 2));
  tune::report({{"loss", config.number("x")}, {"sum", sum}});
}

TEST(TuneResources, StartsWorkersInBundles) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 2);
  options.resources_per_trial = tune::PlacementGroupFactory{{{}, {{"cpu", 1}}, {{"cpu", 1}}}};
  const auto results = tune::run<gang>(options);
  for (const auto& result : results.all()) {
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("sum").integer(), 6);
  }
}

}  // namespace
}  // namespace mobula::testing
