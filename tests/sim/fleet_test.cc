// Seeded histories of the autoscaler: MOBULA_FLEET_SEEDS=N sets their number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "sim/fleet/fleet_world.h"
#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

std::uint64_t number_of_seeds() {
  const char* given = std::getenv("MOBULA_FLEET_SEEDS");
  return given == nullptr ? 5 : std::strtoull(given, nullptr, 10);
}

Outcome run(const std::string& scenario, std::uint64_t seed, Hooks hooks = {}) {
  HistoryOptions options;
  options.scenario = scenario;
  options.seed = seed;
  options.hooks = std::move(hooks);
  return FleetWorld(options).run();
}

class FleetScenarios : public testing::TestWithParam<const char*> {};

// Runs histories and returns the number of their scale-downs.
std::uint64_t scale_downs_of(const char* scenario, std::uint64_t seeds) {
  std::uint64_t scale_downs = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto outcome = run(scenario, seed);
    EXPECT_TRUE(outcome.ok) << scenario << " seed " << seed << " at "
                            << outcome.end.ns() / 1'000'000'000 << " s: " << outcome.checker << ": "
                            << outcome.text;
    scale_downs += outcome.scale_downs;
    if (!outcome.ok) break;
  }
  std::printf("%s: %llu scale-downs, none of a node with work\n", scenario,
              static_cast<unsigned long long>(scale_downs));
  return scale_downs;
}

TEST_P(FleetScenarios, KeepInvariants) { scale_downs_of(GetParam(), number_of_seeds()); }

TEST(FleetHistories, EndThousandNodesWithoutWork) {
  EXPECT_GE(scale_downs_of("fleet", std::max<std::uint64_t>(80, number_of_seeds())), 1000u);
}

INSTANTIATE_TEST_SUITE_P(All, FleetScenarios,
                         testing::Values("fleet", "fleet_faults", "fleet_head"));

TEST(FleetHistories, RepeatWithEqualSeed) {
  EXPECT_EQ(run("fleet_faults", 3).hash, run("fleet_faults", 3).hash);
}

TEST(FleetHistories, DetectEachMutation) {
  for (const auto& mutation : fleet_mutations()) {
    // Slow without optimization: `mobula-sim --mutations` runs them.
    if (mutation.scenarios.front() == "fleet_head") continue;
    Outcome outcome;
    for (std::uint64_t seed = 1; seed <= 40 && outcome.ok; ++seed) {
      for (const auto& scenario : mutation.scenarios) {
        if (outcome.ok) outcome = run(scenario, seed, mutation.make());
      }
    }
    EXPECT_FALSE(outcome.ok) << mutation.name;
  }
}

}  // namespace
}  // namespace mobula::internal::sim
