// The notes that schedulers give with their decisions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/core/schedulers/hyperband.h"
#include "tune/core/schedulers/median_stopping.h"
#include "tune/core/schedulers/population_training.h"
#include "tune/core/schedulers/resource_changing.h"
#include "tune/core/schedulers/successive_halving.h"

namespace mobula::internal::tune {
namespace {

using Outcome = DecisionNote::Outcome;

class DecisionNotes : public testing::Test {
 protected:
  DecisionNotes() { trials_.keep_notes(); }

  SchedulerStep step() { return {trials_, random_}; }
  TrialNumber start(const Config& config = {}) {
    const TrialNumber trial = trials_.add(config);
    EXPECT_TRUE(scheduler_->added(trial, step()).ok());
    trials_.set_state(trial, TrialState::running);
    return trial;
  }
  // Returns the notes of the report, and carries out a pause.
  std::vector<DecisionNote> report(TrialNumber trial, double time, double value) {
    const auto decision =
        scheduler_->reported({.trial = trial, .time = time, .value = value}, step());
    EXPECT_TRUE(decision.ok());
    if (*decision == Decision::pause) trials_.set_state(trial, TrialState::paused);
    return trials_.take_notes();
  }

  TrialTable trials_;
  TuneRandom random_{NumpyRandom(1), PythonRandom(1)};
  TrialSchedulerPtr scheduler_;
};

TEST_F(DecisionNotes, AshaNamesRungAndCutoff) {
  scheduler_ = make_successive_halving({.max_t = 9, .reduction_factor = 2}).value();
  const TrialNumber good = start();
  const TrialNumber bad = start();
  EXPECT_TRUE(report(good, 0.5, 1).empty());
  const auto passed = report(good, 1, 1);
  ASSERT_EQ(passed.size(), 1U);
  EXPECT_EQ(passed[0].outcome, Outcome::continued);
  EXPECT_EQ(passed[0].cutoff, std::nullopt);
  const auto stopped = report(bad, 1, 3);
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_EQ(stopped[0].trial, bad);
  EXPECT_EQ(stopped[0].outcome, Outcome::stopped);
  EXPECT_EQ(stopped[0].bracket, 0);
  EXPECT_EQ(stopped[0].milestone, 1);
  EXPECT_EQ(stopped[0].value, 3);
  EXPECT_EQ(stopped[0].cutoff, 1);
  EXPECT_EQ(stopped[0].compared, 1);
}

TEST_F(DecisionNotes, PromotionNamesPauseAndPromotion) {
  scheduler_ =
      make_successive_halving(
          {.max_t = 9, .reduction_factor = 3, .type = SuccessiveHalvingSettings::Type::promotion})
          .value();
  for (const double value : {1.0, 2.0, 3.0}) {
    const TrialNumber trial = start();
    const auto paused = report(trial, 1, value);
    ASSERT_EQ(paused.size(), 1U);
    EXPECT_EQ(paused[0].outcome, Outcome::paused);
    EXPECT_EQ(paused[0].cutoff.has_value(), trial > 0);
  }
  EXPECT_EQ(scheduler_->choose(step()), 0);
  const auto promoted = trials_.take_notes();
  ASSERT_EQ(promoted.size(), 1U);
  EXPECT_EQ(promoted[0].outcome, Outcome::promoted);
  EXPECT_EQ(promoted[0].value, 1);
  EXPECT_EQ(promoted[0].compared, 3);
}

TEST_F(DecisionNotes, HyperBandNamesWaitAndHalving) {
  scheduler_ = make_hyperband({.mode = Mode::max, .max_t = 3}).value();
  // The first bracket has no halving, the second one begins at milestone 1.
  for (int i = 0; i < 2; ++i) start();
  std::vector<TrialNumber> trials;
  for (int i = 0; i < 3; ++i) trials.push_back(start());
  const auto waits = report(trials[0], 1, 5);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].outcome, Outcome::paused);
  EXPECT_EQ(waits[0].bracket, 1);
  EXPECT_EQ(waits[0].milestone, 1);
  EXPECT_EQ(waits[0].value, 5);
  report(trials[1], 1, 7);
  const auto halved = report(trials[2], 1, 6);
  ASSERT_EQ(halved.size(), 3U);
  for (const DecisionNote& note : halved) {
    const bool best = note.trial == trials[1];
    EXPECT_EQ(note.outcome, best ? Outcome::promoted : Outcome::stopped);
    EXPECT_EQ(note.cutoff, 7);
    EXPECT_EQ(note.compared, 3);
    EXPECT_EQ(note.bracket, 1);
  }
}

TEST_F(DecisionNotes, MedianNamesBestAndMedian) {
  scheduler_ = make_median_stopping({.grace_period = 0, .min_samples_required = 2}).value();
  for (const double value : {1.0, 2.0}) report(start(), 1, value);
  const auto stopped = report(start(), 1, 4);
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_EQ(stopped[0].rule, DecisionNote::Rule::median);
  EXPECT_EQ(stopped[0].outcome, Outcome::stopped);
  EXPECT_EQ(stopped[0].value, 4);
  EXPECT_EQ(stopped[0].cutoff, 1.5);
  EXPECT_EQ(stopped[0].compared, 2);
}

TEST_F(DecisionNotes, ExploitNamesDonorAndQuantile) {
  PopulationSettings settings{.perturbation_interval = 1};
  settings.explore.mutations = Space{{"x", uniform(0, 1)}};
  scheduler_ = make_population_training(std::move(settings)).value();
  for (int i = 0; i < 4; ++i) start({{"x", 0.5}});
  for (TrialNumber trial = 0; trial < 3; ++trial) {
    EXPECT_TRUE(report(trial, 1, static_cast<double>(trial)).empty());
    trials_.take_commands();
    ASSERT_TRUE(scheduler_->saved(trial, trial + 1, step()).ok());
  }
  // Trial 0 saves its checkpoint as the best one.
  report(0, 2, 0);
  ASSERT_TRUE(scheduler_->saved(0, 9, step()).ok());
  const auto exploited = report(3, 2, 8);
  ASSERT_EQ(exploited.size(), 1U);
  EXPECT_EQ(exploited[0].outcome, Outcome::exploited);
  EXPECT_EQ(exploited[0].trial, 3);
  EXPECT_EQ(exploited[0].donor, 0);
  EXPECT_EQ(exploited[0].donor_value, 0);
  EXPECT_EQ(exploited[0].value, 8);
  EXPECT_EQ(exploited[0].cutoff, 8);
  EXPECT_EQ(exploited[0].compared, 4);
}

TEST_F(DecisionNotes, ResourcesNameNewGroup) {
  scheduler_ = make_resource_changing(
      make_fifo_scheduler(), [](const Report&, const TrialTable&, const ResourceBundles&) {
        return Result<std::optional<ResourceBundles>>(
            std::optional(ResourceBundles{{{"CPU", 20'000}, {"GPU", 5'000}}, {{"CPU", 10'000}}}));
      });
  const auto paused = report(start(), 3, 7);
  ASSERT_EQ(paused.size(), 1U);
  EXPECT_EQ(paused[0].rule, DecisionNote::Rule::resources);
  EXPECT_EQ(paused[0].outcome, Outcome::paused);
  EXPECT_EQ(paused[0].milestone, 3);
  EXPECT_EQ(paused[0].words(), "the trial continues in a group of {CPU 2, GPU 0.5}, {CPU 1}");
}

TEST_F(DecisionNotes, PolicyNamesIteration) {
  scheduler_ = make_policy_replay({{"0", "1", 4, 4, {{"lr", 1}}, {{"lr", 2}}}});
  const TrialNumber trial = start({{"lr", 9}});
  EXPECT_TRUE(report(trial, 3, 7).empty());
  const auto replaced = report(trial, 4, 7);
  ASSERT_EQ(replaced.size(), 1U);
  EXPECT_EQ(replaced[0].rule, DecisionNote::Rule::policy);
  EXPECT_EQ(replaced[0].outcome, Outcome::exploited);
  EXPECT_EQ(replaced[0].milestone, 4);
}

TEST_F(DecisionNotes, DroppedUnlessKept) {
  TrialTable table;
  table.note({.trial = 1});
  EXPECT_TRUE(table.take_notes().empty());
}

}  // namespace
}  // namespace mobula::internal::tune
