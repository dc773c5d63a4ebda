// Each deliberate bug of the core, of a rule, or of a resume is detected.
#include "tune/experiment/experiment_mutations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "tune/trace_runner.h"

namespace mobula::internal::tune {
namespace {

using testing::ElementsAre;

class ExperimentMutations : public testing::TestWithParam<ExperimentMutation> {};

TEST_P(ExperimentMutations, FailCheck) {
  const ExperimentMutation& mutation = GetParam();
  int detected = 0;
  std::string others;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const std::optional<int> kill_at =
        mutation.is_killed ? std::optional(static_cast<int>(20 + seed)) : std::nullopt;
    ExperimentWorld correct(mutation.options, seed);
    correct.play(kill_at);
    EXPECT_THAT(correct.faults(), ElementsAre()) << "without the mutation, seed " << seed;
    ExperimentWorld mutated(mutation.options, seed, mutation.make());
    mutated.play(kill_at);
    bool found = false;
    for (const std::string& fault : mutated.faults()) {
      found = found || fault.find(mutation.fault) != std::string::npos;
      if (others.size() < 400) others += fault + "\n";
    }
    detected += found ? 1 : 0;
  }
  EXPECT_GT(detected, 0) << others;
}

INSTANTIATE_TEST_SUITE_P(Core, ExperimentMutations, testing::ValuesIn(experiment_mutations()),
                         [](const auto& info) { return info.param.name; });

TEST(DrawnHistories, KeepInvariants) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const DrawnHistory drawn = draw_history(seed);
    ExperimentWorld world(drawn.options, seed);
    world.play(drawn.kill_at);
    EXPECT_THAT(world.faults(), ElementsAre()) << "seed " << seed;
  }
}

// A rule with another parameter than that of the recorded decisions of Ray.
struct RuleMutation {
  const char* name;
  const char* trace;
  const char* pattern;
  const char* replacement;
};

class RuleMutations : public testing::TestWithParam<RuleMutation> {};

TEST_P(RuleMutations, DifferFromRay) {
  const RuleMutation& mutation = GetParam();
  std::ifstream trace(std::string(MOBULA_SOURCE_DIR "/tests/tune/traces/") + mutation.trace +
                      ".txt");
  ASSERT_TRUE(trace.good());
  std::stringstream changed;
  for (std::string line; std::getline(trace, line);) {
    if (line.starts_with("S "))
      line = std::regex_replace(line, std::regex(mutation.pattern), mutation.replacement);
    changed << line << "\n";
  }
  TraceRunner runner(0);
  runner.run(changed);
  EXPECT_GT(runner.difference_count(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Ray, RuleMutations,
    testing::Values(
        RuleMutation{"AshaQuantile", "asha", "reduction_factor=(\\d)", "reduction_factor=1$1"},
        RuleMutation{"AshaGrace", "asha", "grace_period=\\d+", "grace_period=3"},
        RuleMutation{"AshaLastTrials", "asha", "stop_last_trials=1", "stop_last_trials=0"},
        RuleMutation{"AshaMode", "asha", "mode=min", "mode=max"},
        RuleMutation{"PromotionQuantile", "promotion", "reduction_factor=2", "reduction_factor=3"},
        RuleMutation{"HyperBandHalving", "hyperband", "reduction_factor=\\d+",
                     "reduction_factor=5"},
        RuleMutation{"MedianSamples", "median", "min_samples_required=\\d+",
                     "min_samples_required=1"},
        RuleMutation{"PbtQuantile", "pbt", "quantile_fraction=0\\.5", "quantile_fraction=0.25"},
        RuleMutation{"PbtInterval", "pbt", "perturbation_interval=\\d+",
                     "perturbation_interval=2"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mobula::internal::tune
