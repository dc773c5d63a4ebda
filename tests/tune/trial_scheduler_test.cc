#include "tune/core/schedulers/trial_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tune/core/schedulers/hyperband.h"
#include "tune/core/schedulers/median_stopping.h"
#include "tune/core/schedulers/population_training.h"
#include "tune/core/schedulers/resource_changing.h"
#include "tune/core/schedulers/successive_halving.h"

namespace mobula::internal::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

struct Experiment {
  TrialTable trials = {};
  TuneRandom random{NumpyRandom(1), PythonRandom(1)};
  TrialSchedulerPtr scheduler = {};

  SchedulerStep step() { return {trials, random}; }
  TrialNumber add(const Config& config = {}) {
    const TrialNumber trial = trials.add(config);
    EXPECT_TRUE(scheduler->added(trial, step()).ok());
    return trial;
  }
  TrialNumber start(const Config& config = {}) {
    const TrialNumber trial = add(config);
    trials.set_state(trial, TrialState::running);
    return trial;
  }
  Result<Decision> try_report(TrialNumber trial, double time, double value) {
    return scheduler->reported({.trial = trial, .time = time, .value = value}, step());
  }
  Decision report(TrialNumber trial, double time, double value) {
    return try_report(trial, time, value).value();
  }
  // Reports, and carries out a pause.
  Decision report_and_pause(TrialNumber trial, double time, double value) {
    const Decision decision = report(trial, time, value);
    if (decision == Decision::pause) trials.set_state(trial, TrialState::paused);
    return decision;
  }
};

Experiment with(Result<TrialSchedulerPtr> scheduler) {
  Experiment experiment;
  experiment.scheduler = std::move(scheduler).value();
  return experiment;
}

TEST(Fifo, RunsPendingTrialsBeforePausedOnes) {
  Experiment experiment{.scheduler = make_fifo_scheduler()};
  const TrialNumber paused = experiment.start();
  experiment.trials.set_state(paused, TrialState::paused);
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), paused);
  const TrialNumber first = experiment.add();
  const TrialNumber second = experiment.add();
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), first);
  experiment.trials.retry(first);  // moves to the end
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), second);
}

TEST(Asha, ReproducesTheRungCountOfRay) {
  // log(1000) / log(10) is below 3 in floating point, therefore 1000 is no rung.
  auto experiment = with(make_successive_halving({.mode = Mode::max,
                                                  .max_t = 1000,
                                                  .grace_period = 1,
                                                  .reduction_factor = 10,
                                                  .stop_last_trials = false}));
  const TrialNumber first = experiment.start();
  experiment.report(first, 150, 10);
  experiment.report(first, 1000, 100);
  EXPECT_EQ(experiment.report(experiment.start(), 1000, 50), Decision::proceed);
}

TEST(Asha, StopsAtMaxTimeWithoutRecording) {
  auto experiment = with(make_successive_halving({.max_t = 4, .reduction_factor = 2}));
  EXPECT_EQ(experiment.report(experiment.start(), 4, 1), Decision::stop);
  EXPECT_EQ(experiment.report(experiment.start(), 1, 100), Decision::proceed);
}

TEST(Asha, IgnoresNaNAndMissingFields) {
  auto experiment = with(make_successive_halving({.reduction_factor = 2}));
  EXPECT_EQ(experiment.report(experiment.start(), 1, nan_value), Decision::proceed);
  EXPECT_EQ(experiment.report(experiment.start(), 1, 5), Decision::proceed);
  EXPECT_EQ(experiment.report(experiment.start(), 1, 6), Decision::stop);
  EXPECT_EQ(experiment.scheduler->reported({.trial = 1, .time = 2}, experiment.step()).value(),
            Decision::proceed);
}

TEST(Schedulers, TimeThatIsNoNumberIsMissing) {
  for (const bool stop_last : {true, false}) {
    auto asha =
        with(make_successive_halving({.reduction_factor = 2, .stop_last_trials = stop_last}));
    asha.report(asha.start(), 64, 1);
    EXPECT_EQ(asha.report(asha.start(), nan_value, 9), Decision::proceed);
    EXPECT_EQ(asha.report(asha.start(), 64, 0.5), Decision::proceed);
  }
  auto median = with(make_median_stopping({.grace_period = 0, .min_samples_required = 1}));
  median.report(median.start(), 1, 1);
  EXPECT_EQ(median.report(median.start(), nan_value, 9), Decision::proceed);
}

TEST(Asha, PromotionResumesTheBestTrial) {
  auto experiment =
      with(make_successive_halving({.max_t = 9,
                                    .grace_period = 1,
                                    .reduction_factor = 3,
                                    .type = SuccessiveHalvingSettings::Type::promotion}));
  std::vector<TrialNumber> trials;
  for (const double loss : {3.0, 1.0, 2.0, 4.0}) {
    trials.push_back(experiment.start());
    EXPECT_EQ(experiment.report_and_pause(trials.back(), 1, loss), Decision::pause);
  }
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), trials[1]);
  experiment.trials.set_state(trials[1], TrialState::running);
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), trials[2]);  // equal to the quantile
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), std::nullopt);
  EXPECT_EQ(experiment.report(trials[1], 2, 1), Decision::proceed);
  EXPECT_EQ(experiment.report_and_pause(trials[1], 3, 1), Decision::pause);
  const TrialNumber fresh = experiment.add();
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), fresh);
  experiment.trials.set_state(fresh, TrialState::running);
  EXPECT_EQ(experiment.report_and_pause(fresh, 1, 0), Decision::pause);
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), fresh);
  experiment.trials.set_state(fresh, TrialState::running);
  EXPECT_EQ(experiment.report(fresh, 9, 0), Decision::stop);
}

TEST(Asha, PromotionNeverResumesNaN) {
  auto experiment = with(make_successive_halving(
      {.reduction_factor = 2, .type = SuccessiveHalvingSettings::Type::promotion}));
  for (int i = 0; i < 4; ++i) experiment.report_and_pause(experiment.start(), 1, nan_value);
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), std::nullopt);
}

std::string fault(const Result<TrialSchedulerPtr>& made) {
  return made.ok() ? "" : made.error().text;
}

TEST(Schedulers, RejectOptionsAndNameThem) {
  EXPECT_THAT(fault(make_successive_halving({.max_t = 0})), HasSubstr("::max_t: 0"));
  EXPECT_THAT(fault(make_successive_halving({.max_t = 5, .grace_period = 6})),
              HasSubstr("::grace_period: 6"));
  EXPECT_THAT(fault(make_successive_halving({.reduction_factor = 1})),
              HasSubstr("::reduction_factor: 1"));
  EXPECT_THAT(fault(make_successive_halving({.brackets = 0})), HasSubstr("::brackets: 0"));
  EXPECT_THAT(make_hyperband({.max_t = 0}).error().text, HasSubstr("::max_t: 0"));
  EXPECT_THAT(make_hyperband({.reduction_factor = 1}).error().text,
              HasSubstr("::reduction_factor: 1"));
  EXPECT_THAT(fault(make_median_stopping({.grace_period = -1})), HasSubstr("::grace_period: -1"));
}

TEST(Schedulers, NameTrialAndFieldOfFaultyReport) {
  Experiment experiment;
  experiment.scheduler = make_hyperband({}).value();
  const TrialNumber trial = experiment.start();
  const auto decision =
      experiment.scheduler->reported({.trial = trial, .time = 1}, experiment.step());
  ASSERT_FALSE(decision.ok());
  EXPECT_EQ(decision.error().text,
            "report of trial 0: no metric, which HyperBand needs; report it in every step");
  // The other trials continue.
  EXPECT_EQ(experiment.report(experiment.start(), 1, 1), Decision::proceed);
}

TEST(HyperBand, NaNIsTheWorstScore) {
  for (const Mode mode : {Mode::min, Mode::max}) {
    Experiment experiment;
    experiment.scheduler =
        make_hyperband({.mode = mode, .max_t = 4, .reduction_factor = 2}).value();
    // The first bracket has 3 trials and no halving; the next one has 3 trials and one halving.
    for (int i = 0; i < 3; ++i) experiment.add();
    std::vector<TrialNumber> trials;
    for (int i = 0; i < 3; ++i) trials.push_back(experiment.start());
    EXPECT_EQ(experiment.report_and_pause(trials[0], 2, nan_value), Decision::pause);
    EXPECT_EQ(experiment.report_and_pause(trials[1], 2, 1), Decision::pause);
    EXPECT_EQ(experiment.report(trials[2], 2, 1), Decision::proceed);
    const auto commands = experiment.trials.take_commands();
    ASSERT_EQ(commands.size(), 1U);
    EXPECT_EQ(std::get<StopTrial>(commands[0]).trial, trials[0]);
  }
}

PopulationSettings population(const Domain& lr) {
  PopulationSettings settings{.mode = Mode::max, .perturbation_interval = 1};
  settings.quantile_fraction = 0.5;
  settings.explore.mutations = Space{{"lr", lr}};
  settings.explore.resample_probability = 0;
  return settings;
}

TEST(Pbt, RejectsChoiceOfText) {
  EXPECT_EQ(fault(make_population_training(population(choice({"a", "b"})))),
            "hyperparam_mutations 'lr': choice of text cannot be multiplied; use ordered");
  EXPECT_EQ(fault(make_population_training(population(ordered({"a", "b"})))), "");
  EXPECT_THAT(fault(make_population_training({})), HasSubstr("::hyperparam_mutations: empty"));
}

TEST(Pbt, RejectsTextInConfigurationOfTrial) {
  auto experiment = with(make_population_training(population(uniform(0, 1))));
  const TrialNumber trial = experiment.trials.add(Config{{"lr", "high"}});
  const auto added = experiment.scheduler->added(trial, experiment.step());
  ASSERT_FALSE(added.ok());
  EXPECT_THAT(added.error().text, HasSubstr("trial 0: hyperparam_mutations 'lr': 'high'"));
}

// Two trials: `good` saves a checkpoint, and `bad` exploits it.
struct Pair {
  Experiment experiment;
  TrialNumber good, bad;
};
Pair pair_of(const PopulationSettings& settings) {
  Pair pair{with(make_population_training(settings)), 0, 0};
  pair.good = pair.experiment.start(Config{{"lr", 1.0}});
  pair.bad = pair.experiment.start(Config{{"lr", 0.1}});
  EXPECT_EQ(pair.experiment.report(pair.bad, 1, 0), Decision::proceed);
  EXPECT_EQ(pair.experiment.report(pair.good, 1, 9), Decision::proceed);
  return pair;
}

TEST(Pbt, ExploitWaitsForCheckpointOfDonor) {
  Pair pair = pair_of(population(uniform(0, 1)));
  Experiment& experiment = pair.experiment;
  EXPECT_EQ(std::get<SaveTrial>(experiment.trials.take_commands().at(0)).trial, pair.good);
  EXPECT_EQ(experiment.report(pair.bad, 2, 1), Decision::wait);
  EXPECT_TRUE(experiment.scheduler->waits_for_checkpoint());
  // A copy of the state continues as the original does.
  auto copy = make_population_training(population(uniform(0, 1))).value();
  ASSERT_TRUE(copy->load(experiment.scheduler->save()).ok());
  experiment.scheduler = std::move(copy);
  const auto decided = experiment.scheduler->saved(pair.good, 7, experiment.step()).value();
  ASSERT_TRUE(decided.has_value());
  EXPECT_EQ(decided->trial, pair.bad);
  EXPECT_EQ(decided->decision, Decision::none);
  const auto commands = experiment.trials.take_commands();
  const auto& exploit = std::get<ExploitTrial>(commands.at(0));
  EXPECT_EQ(exploit.donor, pair.good);
  EXPECT_EQ(exploit.checkpoint, 7);
  std::vector<CheckpointNumber> used;
  experiment.scheduler->checkpoints_in_use(used);
  EXPECT_THAT(used, ElementsAre(7));
}

TEST(Pbt, EndOfTrialReleasesItsCheckpoint) {
  Pair pair = pair_of(population(uniform(0, 1)));
  Experiment& experiment = pair.experiment;
  ASSERT_TRUE(experiment.scheduler->saved(pair.good, 7, experiment.step()).ok());
  experiment.scheduler->completed({.trial = pair.good}, experiment.step());
  std::vector<CheckpointNumber> used;
  experiment.scheduler->checkpoints_in_use(used);
  EXPECT_TRUE(used.empty());
}

TEST(Pbt, LostCheckpointEndsTheExploit) {
  Pair pair = pair_of(population(uniform(0, 1)));
  EXPECT_EQ(pair.experiment.report(pair.bad, 2, 1), Decision::wait);
  const auto decided =
      pair.experiment.scheduler->saved(pair.good, 0, pair.experiment.step()).value();
  ASSERT_TRUE(decided.has_value());
  EXPECT_EQ(decided->decision, Decision::proceed);
}

TEST(Pbt, ClampKeepsValuesWithinTheirRange) {
  for (const bool clamp : {true, false}) {
    PopulationSettings settings = population(uniform(0, 1));
    settings.explore.perturbation_factors = {1.2};
    settings.explore.clamp = clamp;
    Pair pair = pair_of(settings);
    ASSERT_TRUE(pair.experiment.scheduler->saved(pair.good, 1, pair.experiment.step()).ok());
    EXPECT_EQ(pair.experiment.report(pair.bad, 2, 1), Decision::none);
    EXPECT_EQ(pair.experiment.trials.row(pair.bad).config.get("lr"), Value(clamp ? 1.0 : 1.2));
  }
}

TEST(PolicyReplay, FollowsTheLastChainOfDonors) {
  // The donor of each row is the recipient of the row before it. The first row was replaced.
  Experiment experiment;
  experiment.scheduler = make_policy_replay({{"9", "8", 1, 1, {{"lr", 9}}, {{"lr", 8}}},
                                             {"1", "5", 4, 4, {{"lr", 1}}, {{"lr", 2}}},
                                             {"3", "1", 8, 10, {{"lr", 2}}, {{"lr", 3}}}});
  const TrialNumber trial = experiment.start(Config{{"lr", 7}});
  auto lr = [&] { return experiment.trials.row(trial).config.get("lr").integer(); };
  EXPECT_EQ(lr(), 1);
  EXPECT_EQ(experiment.report(trial, 3, 0), Decision::proceed);
  EXPECT_EQ(experiment.report(trial, 4, 0), Decision::none);
  EXPECT_EQ(lr(), 2);
  EXPECT_EQ(experiment.report(trial, 10, 0), Decision::none);
  EXPECT_EQ(lr(), 3);
  EXPECT_EQ(experiment.report(trial, 11, 0), Decision::proceed);
  const TrialNumber second = experiment.trials.add({});
  EXPECT_FALSE(experiment.scheduler->added(second, experiment.step()).ok());
}

ResourceBundles cpus(std::int64_t count) { return {{{"CPU", count * 10'000}}}; }

TEST(ResourceChanging, AppliesEveryChangeOfARound) {
  Experiment experiment;
  experiment.scheduler = make_resource_changing(
      make_fifo_scheduler(), [](const Report& report, const TrialTable&, const ResourceBundles&) {
        return Result<std::optional<ResourceBundles>>(std::optional(cpus(report.trial + 2)));
      });
  for (int i = 0; i < 2; ++i) {
    const TrialNumber trial = experiment.trials.add({}, cpus(1));
    ASSERT_TRUE(experiment.scheduler->added(trial, experiment.step()).ok());
    experiment.trials.set_state(trial, TrialState::running);
    EXPECT_EQ(experiment.report_and_pause(trial, 1, 1), Decision::pause);
  }
  EXPECT_EQ(experiment.scheduler->choose(experiment.step()), 0);
  EXPECT_EQ(experiment.trials.take_commands().size(), 2U);
  EXPECT_EQ(experiment.trials.row(1).resources, cpus(3));
  experiment.trials.set_state(1, TrialState::running);
  EXPECT_EQ(experiment.report(1, 2, 1), Decision::proceed);  // unchanged
}

TEST(ResourceChanging, RejectsTrialWithOtherResources) {
  Experiment experiment;
  experiment.scheduler = make_resource_changing(make_fifo_scheduler(), {});
  experiment.trials.add({}, cpus(1));
  experiment.trials.add({}, cpus(2));
  EXPECT_TRUE(experiment.scheduler->added(0, experiment.step()).ok());
  const auto added = experiment.scheduler->added(1, experiment.step());
  ASSERT_FALSE(added.ok());
  EXPECT_THAT(added.error().text, HasSubstr("trial 1: its resources differ"));
}

}  // namespace
}  // namespace mobula::internal::tune
