// Seeded histories of the autoscaler: MOBULA_FLEET_SEEDS=N sets their number.
#include <gtest/gtest.h>

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

TEST(FleetHistories, KeepInvariants) {
  for (const char* scenario : {"fleet", "fleet_faults"}) {
    for (std::uint64_t seed = 1; seed <= number_of_seeds(); ++seed) {
      const auto outcome = run(scenario, seed);
      ASSERT_TRUE(outcome.ok) << scenario << " seed " << seed << " at "
                              << outcome.end.ns() / 1'000'000'000 << " s: " << outcome.checker
                              << ": " << outcome.text;
    }
  }
}

TEST(FleetHistories, RepeatWithEqualSeed) {
  EXPECT_EQ(run("fleet_faults", 3).hash, run("fleet_faults", 3).hash);
}

TEST(FleetHistories, DetectEachMutation) {
  for (const auto& mutation : fleet_mutations()) {
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
