#include "tune/core/schedulers/resource_distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tune/trace_runner.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, mark);) parts.push_back(part);
  return parts;
}

ProcessorAmounts amounts_of(const std::string& word) {
  const auto parts = split(word, ',');
  return {std::stoll(parts.at(0)) * 10'000, std::stoll(parts.at(1)) * 10'000};
}

ProcessorBundles bundles_of_word(const std::string& word) {
  ProcessorBundles bundles;
  if (word == "-") return bundles;
  for (const std::string& part : split(word, '|')) bundles.push_back(amounts_of(part));
  return bundles;
}

TEST(ResourceDistribution, EqualsRecordedAllocations) {
  std::ifstream trace(MOBULA_SOURCE_DIR "/tests/tune/traces/resources.txt");
  std::string line;
  int compared = 0;
  while (std::getline(trace, line)) {
    const TraceWords words = words_of(line);
    const DistributionSettings settings{.add_bundles = words.at(0) == "1",
                                        .increase_by = amounts_of(words[1]),
                                        .increase_by_times = std::stoi(words[2]),
                                        .reserve = amounts_of(words[3]),
                                        .to_top_job = words[4] == "1",
                                        .mode = words[5] == "max" ? Mode::max : Mode::min};
    DistributionInput input{.total = amounts_of(words[6]),
                            .base = bundles_of_word(words[7]),
                            .reporter = std::stoul(words[8])};
    for (const std::string& bundles : split(words[9], ';'))
      input.trials.push_back(bundles_of_word(bundles));
    for (const std::string& value : split(words[10], ';'))
      input.values.push_back(value == "-" ? std::nullopt : std::optional(std::stod(value)));
    const auto result = distribute(settings, input);
    ASSERT_TRUE(result.ok()) << line;
    EXPECT_EQ(*result, bundles_of_word(words[12])) << line;
    ++compared;
  }
  EXPECT_GT(compared, 500);
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
