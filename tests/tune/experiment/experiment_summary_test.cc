// The progress that an experiment sends to the head.
#include "tune/runtime/experiment/experiment_summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tune/experiment/experiment_world.h"

namespace mobula::internal::tune {
namespace {

using Json = nlohmann::json;

Json summary_of(const ExperimentCore& core, bool finished = true, Mode mode = Mode::min) {
  return Json::parse(experiment_summary(
      core, {.name = "one", .metric = "loss", .mode = mode, .samples = 8, .finished = finished},
      {{0, "node-a"}}));
}

TEST(ExperimentSummary, CountsTrialsByState) {
  ExperimentWorld world({.trials = 8}, 3);
  world.play();
  const Json json = summary_of(world.core());
  EXPECT_EQ(json["state"], "FINISHED");
  EXPECT_EQ(json["counts"]["running"], 0);
  EXPECT_EQ(json["counts"]["terminated"].get<int>() + json["counts"]["failed"].get<int>(), 8);
  EXPECT_EQ(summary_of(world.core(), false)["state"], "RUNNING");
}

TEST(ExperimentSummary, CurveHasImprovementsUpToBest) {
  ExperimentWorld world({.trials = 30}, 5);
  world.play();
  for (const Mode mode : {Mode::min, Mode::max}) {
    const Json json = summary_of(world.core(), true, mode);
    const Json& curve = json["curve"];
    ASSERT_FALSE(curve.empty());
    for (std::size_t i = 1; i < curve.size(); ++i) {
      EXPECT_LT(curve[i - 1][0], curve[i][0]);
      EXPECT_EQ(mode == Mode::min, curve[i][1] < curve[i - 1][1]);
    }
    EXPECT_EQ(curve.back()[0], json["best"]["trial"]);
    EXPECT_EQ(curve.back()[1], json["best"]["value"]);
  }
}

TEST(ExperimentSummary, BoundsRowsOfLargeExperiments) {
  ExperimentWorld world({.trials = 340, .slots = 50}, 7);
  world.play();
  const Json json = summary_of(world.core());
  EXPECT_LE(json["trials"].size(), 70u);
  EXPECT_LE(json["points"].size(), 300u);
  EXPECT_LT(json.dump().size(), 40u << 10);
  const auto best = json["best"]["trial"];
  EXPECT_TRUE(
      std::ranges::any_of(json["trials"], [&](const Json& row) { return row["trial"] == best; }));
}

}  // namespace
}  // namespace mobula::internal::tune
