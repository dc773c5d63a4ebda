#include "tune/core/schedulers/population_bandit.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace mobula::internal::tune {
namespace {

using ::testing::HasSubstr;

const Pb2Settings one_parameter{
    .mode = Mode::max, .perturbation_interval = 1, .bounds = {{"lr", {0.0, 1.0}}}};

// The score of trial `trial` grows by 1 − (lr − 0.7)² per step.
void record_round(ExploreModel& model, std::vector<double>& scores,
                  const std::vector<double>& rates, double time) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    scores[i] += 1 - std::pow(rates[i] - 0.7, 2);
    model.record(static_cast<TrialNumber>(i), time, scores[i], {{"lr", rates[i]}});
  }
}

TEST(PopulationBandit, NamesBadOptions) {
  EXPECT_THAT(make_population_bandit({}).error().text,
              HasSubstr("Pb2Options::hyperparam_bounds: empty"));
  EXPECT_THAT(make_population_bandit({.bounds = {{"lr", {1.0, 1.0}}}}).error().text,
              HasSubstr("'lr' has the bounds 1 and 1"));
}

TEST(BanditModel, SuggestsParametersThatImproveMost) {
  auto model = make_bandit_model(one_parameter);
  const std::vector<double> rates{0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95};
  std::vector<double> scores(rates.size(), 0.0);
  for (double time = 1; time <= 6; ++time) record_round(*model, scores, rates, time);
  NumpyRandom random(1);
  const Config config = model->suggest(0, 4, {{"lr", 0.65}}, random);
  EXPECT_NEAR(config.get("lr").number(), 0.7, 0.12);
}

TEST(BanditModel, CopiesDonorWithoutChanges) {
  auto model = make_bandit_model(one_parameter);
  model->record(1, 1, 0.5, {{"lr", 0.3}});
  NumpyRandom random(1);
  EXPECT_EQ(model->suggest(0, 1, {{"lr", 0.3}}, random).get("lr").number(), 0.3);
}

TEST(BanditModel, SpreadsSuggestionsOfOneRound) {
  auto model = make_bandit_model(one_parameter);
  const std::vector<double> rates{0.1, 0.4, 0.6, 0.9};
  std::vector<double> scores(rates.size(), 0.0);
  for (double time = 1; time <= 4; ++time) record_round(*model, scores, rates, time);
  NumpyRandom random(2);
  const double first = model->suggest(0, 2, {{"lr", 0.6}}, random).get("lr").number();
  const double second = model->suggest(1, 2, {{"lr", 0.6}}, random).get("lr").number();
  EXPECT_NE(first, second);
  for (const double value : {first, second}) {
    EXPECT_GE(value, 0);
    EXPECT_LE(value, 1);
  }
}

TEST(BanditModel, KeepsIntegersAndIgnoresNan) {
  auto model = make_bandit_model({.mode = Mode::max, .bounds = {{"batch", {8.0, 64.0}}}});
  for (double time = 1; time <= 4; ++time) {
    model->record(0, time, time, {{"batch", 16}});
    model->record(1, time, time == 2 ? std::nan("") : 2 * time, {{"batch", 32}});
  }
  NumpyRandom random(3);
  const Config config = model->suggest(0, 1, {{"batch", 32}}, random);
  EXPECT_TRUE(config.get("batch").is_integer());
  EXPECT_GE(config.get("batch").integer(), 8);
  EXPECT_LE(config.get("batch").integer(), 64);
}

// The whole scheduler: weak trials take over the checkpoints of strong ones.
TEST(PopulationBandit, ExploitsAndResumes) {
  auto scheduler = make_population_bandit(one_parameter).value();
  auto again = make_population_bandit(one_parameter).value();
  TrialTable trials;
  TuneRandom random{NumpyRandom(5), PythonRandom(5)};
  for (int i = 0; i < 4; ++i) {
    const TrialNumber trial = trials.add({{"lr", 0.1 + 0.2 * i}});
    ASSERT_TRUE(scheduler->added(trial, {trials, random}).ok());
    trials.set_state(trial, TrialState::running);
  }
  int exploits = 0;
  std::vector<double> scores(4, 0.0);
  CheckpointNumber checkpoint = 0;
  for (double time = 1; time <= 12; ++time) {
    for (TrialNumber trial = 0; trial < 4; ++trial) {
      const double lr = trials.row(trial).config.get("lr").number();
      auto& score = scores[static_cast<std::size_t>(trial)];
      score += 1 - std::pow(lr - 0.7, 2);
      const auto decision =
          scheduler->reported({.trial = trial, .time = time, .value = score}, {trials, random});
      ASSERT_TRUE(decision.ok()) << decision.error().text;
      for (const auto& command : trials.take_commands()) {
        if (const auto* save = std::get_if<SaveTrial>(&command)) {
          trials.row(save->trial).checkpoint = ++checkpoint;
          ASSERT_TRUE(scheduler->saved(save->trial, checkpoint, {trials, random}).ok());
        }
        if (const auto* exploit = std::get_if<ExploitTrial>(&command)) {
          ++exploits;
          scores[static_cast<std::size_t>(exploit->trial)] =
              scores[static_cast<std::size_t>(exploit->donor)];
          trials.set_state(exploit->trial, TrialState::running);
        }
      }
    }
    const std::string state = scheduler->save();
    ASSERT_TRUE(again->load(state).ok());
    EXPECT_EQ(again->save(), state);
    std::swap(scheduler, again);
  }
  EXPECT_GE(exploits, 2);
  EXPECT_FALSE(scheduler->load("x").ok());
}

}  // namespace
}  // namespace mobula::internal::tune
