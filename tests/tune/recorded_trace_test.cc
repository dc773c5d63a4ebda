// Compares the cores with recorded decisions of Ray Tune 2.60 and Optuna 5.0
// (tests/tune/oracle/record.sh).
#include <gtest/gtest.h>

#include <fstream>

#include "tune/searchers/suggestion_runner.h"
#include "tune/searchers/wrapper_runner.h"
#include "tune/trace_runner.h"

namespace mobula::internal::tune {
namespace {

class RecordedTrace : public testing::TestWithParam<const char*> {};

TEST_P(RecordedTrace, EqualsRay) {
  std::ifstream trace(std::string(MOBULA_SOURCE_DIR "/tests/tune/traces/") + GetParam() + ".txt");
  ASSERT_TRUE(trace.good());
  TraceRunner runner(50);
  runner.run(trace);
  for (const auto& difference : runner.differences()) ADD_FAILURE() << difference;
  EXPECT_EQ(runner.difference_count(), 0);
  EXPECT_GT(runner.compared(), 500);
}

INSTANTIATE_TEST_SUITE_P(Ray, RecordedTrace,
                         testing::Values("fifo", "asha", "hyperband", "bohb", "median", "pbt",
                                         "promotion", "replay", "variants"),
                         [](const auto& instance) { return std::string(instance.param); });

class RecordedSuggestions : public testing::TestWithParam<const char*> {};

TEST_P(RecordedSuggestions, EqualOptuna) {
  std::ifstream trace(std::string(MOBULA_SOURCE_DIR "/tests/tune/traces/") + GetParam() + ".txt");
  ASSERT_TRUE(trace.good());
  SuggestionRunner runner(50);
  runner.run(trace);
  for (const auto& difference : runner.differences()) ADD_FAILURE() << difference;
  EXPECT_EQ(runner.difference_count(), 0);
  EXPECT_GT(runner.compared(), 1000);
}

INSTANTIATE_TEST_SUITE_P(Optuna, RecordedSuggestions, testing::Values("tpe", "motpe", "nsga2"),
                         [](const auto& instance) { return std::string(instance.param); });

class RecordedWrapper : public testing::TestWithParam<const char*> {};

TEST_P(RecordedWrapper, EqualsRay) {
  std::ifstream trace(std::string(MOBULA_SOURCE_DIR "/tests/tune/traces/") + GetParam() + ".txt");
  ASSERT_TRUE(trace.good());
  WrapperRunner runner(25);
  runner.run(trace);
  for (const auto& difference : runner.differences()) ADD_FAILURE() << difference;
  EXPECT_EQ(runner.difference_count(), 0);
  EXPECT_GT(runner.compared(), 800);
}

INSTANTIATE_TEST_SUITE_P(Ray, RecordedWrapper, testing::Values("limiter", "repeater", "stoppers"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(TraceRunner, ReportsDifference) {
  std::istringstream trace("S asha mode=min reduction_factor=2\nA 0 - > -\nT 0 R\nR 0 1 1 > S\n");
  TraceRunner runner;
  runner.run(trace);
  EXPECT_EQ(runner.difference_count(), 1);
}

}  // namespace
}  // namespace mobula::internal::tune
