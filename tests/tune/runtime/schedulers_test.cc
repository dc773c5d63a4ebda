// Schedulers and stoppers through the public interface.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>

#include "tune/runtime/run_fixture.h"

namespace mobula::testing {
namespace {

// A class that pauses without a loss.
struct Falling {
  void setup(const tune::Config& config) { x_ = config.number("x"); }
  tune::Metrics step() {
    ++steps_;
    return {{"loss", x_ + 1.0 / steps_}, {"done", steps_ == 9}};
  }
  void save(const std::string& directory) const { std::ofstream(directory + "/n") << steps_; }
  void load(const std::string& directory) { std::ifstream(directory + "/n") >> steps_; }

 private:
  double x_ = 0;
  int steps_ = 0;
};

TEST(TuneScheduler, StopsBelowMedian) {
  auto options = quiet_options({{"x", tune::grid_search({0, 0, 0, 5})}}, 1);
  options.max_concurrent_trials = 1;
  options.scheduler = tune::MedianStoppingRule({.time_attr = "training_iteration",
                                                .grace_period = 2,
                                                .min_time_slice = 100,
                                                .min_samples_required = 2});
  const auto results = tune::run<Falling>(options);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(iterations(results.all()[i]), 9) << i;
  EXPECT_EQ(iterations(results.all()[3]), 2);
}

// A class whose state is in its checkpoints: a sum of "lr" over all steps.
struct Summing {
  void setup(const tune::Config& config) { rate_ = config.number("lr"); }
  tune::Metrics step() {
    ++steps_;
    sum_ += rate_;
    return {{"score", sum_}, {"steps", steps_}, {"rate", rate_}, {"done", steps_ == 12}};
  }
  void save(const std::string& directory) const {
    std::ofstream(directory + "/state") << steps_ << " " << sum_;
  }
  void load(const std::string& directory) { std::ifstream(directory + "/state") >> steps_ >> sum_; }

 private:
  double rate_ = 0, sum_ = 0;
  int steps_ = 0;
};

tune::RunOptions population(int num_samples) {
  auto options = quiet_options({}, num_samples);
  options.metric = "score";
  options.mode = tune::Mode::max;
  return options;
}

// Each trial keeps its steps over all pauses, and its iterations count them.
int expect_whole_trials(const tune::ResultGrid& results) {
  int attempts = 0;
  for (const auto& result : results.all()) {
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("steps").integer(), 12)
        << "trial " << result.trial << ", " << result.attempts << " attempts";
    EXPECT_EQ(iterations(result), 12);
    attempts += result.attempts;
  }
  return attempts;
}

// One trial at a time: each pauses at its perturbation, so that the order does not depend on time.
TEST(TuneScheduler, ExploitsWithPb2) {
  auto options = population(6);
  options.seed = 3;
  options.max_concurrent_trials = 1;
  options.scheduler = tune::PB2({.time_attr = "training_iteration",
                                 .perturbation_interval = 2,
                                 .hyperparam_bounds = {{"lr", {0.1, 1}}}});
  const auto results = tune::run<Summing>(options);
  expect_whole_trials(results);
  for (const auto& result : results.all()) {
    EXPECT_GE(result.metrics.at("rate").number(), 0.1);
    EXPECT_LE(result.metrics.at("rate").number(), 1);
  }
  EXPECT_TRUE(fs::exists(options.storage_path + "/" + options.name + "/policies"));
}

// All trials reach a perturbation before any continues.
TEST(TuneScheduler, SynchronousPopulation_KeepsAllSteps) {
  for (const bool bandits : {false, true}) {
    auto options = population(4);
    options.seed = 5;
    if (bandits)
      options.scheduler = tune::PB2({.time_attr = "training_iteration",
                                     .perturbation_interval = 2,
                                     .hyperparam_bounds = {{"lr", {0.1, 1}}},
                                     .synch = true});
    else
      options.scheduler =
          tune::PopulationBasedTraining({.time_attr = "training_iteration",
                                         .perturbation_interval = 2,
                                         .hyperparam_mutations = {{"lr", tune::uniform(0.1, 1)}},
                                         .synch = true});
    expect_whole_trials(tune::run<Summing>(options));
  }
}

TEST(TuneScheduler, ReplaysPolicyOfTrial) {
  auto options = population(6);
  options.seed = 3;
  options.max_concurrent_trials = 1;
  options.scheduler =
      tune::PopulationBasedTraining({.time_attr = "training_iteration",
                                     .perturbation_interval = 2,
                                     .hyperparam_mutations = {{"lr", tune::uniform(0.1, 1)}}});
  const auto recorded = tune::run<Summing>(options);
  expect_whole_trials(recorded);
  const fs::path policies = fs::path(options.storage_path) / options.name / "policies";
  int replayed = 0;
  for (const auto& result : recorded.all()) {
    const fs::path file = policies / ("pbt_policy_" + std::to_string(result.trial) + ".txt");
    if (!fs::exists(file)) continue;
    auto replay = population(1);
    replay.scheduler = tune::PopulationBasedTrainingReplay(file);
    const auto repeated = tune::run<Summing>(replay);
    expect_whole_trials(repeated);
    EXPECT_GT(repeated.all()[0].attempts, 1);
    EXPECT_EQ(repeated.all()[0].metrics.at("rate").number(), result.metrics.at("rate").number());
    ++replayed;
  }
  EXPECT_GE(replayed, 1);
}

TEST(TuneScheduler, RefusesSecondTrialOfReplay) {
  auto options = population(2);
  const std::string file = options.storage_path + "/policy.txt";
  std::ofstream(file) << R"(["0", "1", 2, 2, {"lr": 0.5}, {"lr": 0.25}])"
                      << "\n";
  options.scheduler = tune::PopulationBasedTrainingReplay(file);
  const auto results = tune::run<Summing>(options);
  ASSERT_EQ(results.all().size(), 2U);
  EXPECT_EQ(results.all()[0].error, "");
  EXPECT_EQ(results.all()[0].metrics.at("score").number(), 2 * 0.5 + 10 * 0.25);
  EXPECT_NE(results.all()[1].error.find("trial 1: a replay of a policy has one trial"),
            std::string::npos)
      << results.all()[1].error;
}

void train_x(const tune::Config& config) {
  for (int step = 1; step <= 9; ++step)
    tune::report({{"loss", config.number("x") / step}, {"c", config.text("c")}});
}

TEST(TuneScheduler, RunsBohbWithHyperBand) {
  auto options = quiet_options({{"x", tune::uniform(1, 2)}, {"c", tune::choice({"a", "b"})}}, 12);
  options.scheduler = tune::HyperBandForBOHB({.max_t = 9});
  options.search_alg = tune::BOHBSearch();
  options.max_concurrent_trials = 4;
  const auto results = tune::run<train_x>(options);
  ASSERT_EQ(results.all().size(), 12U);
  std::set<std::int64_t> levels;
  for (const auto& result : results.all()) {
    EXPECT_EQ(result.error, "");
    levels.insert(iterations(result));
  }
  EXPECT_GT(levels.size(), 1U);
  EXPECT_TRUE(levels.contains(9));
}

// Reports the CPUs of its group, and continues from its checkpoint.
struct Growing {
  void setup(const tune::Config& config) { x_ = config.number("x"); }
  tune::Metrics step() {
    ++steps_;
    const auto group = tune::get_context().resources;
    return {{"loss", x_ / steps_},
            {"steps", steps_},
            {"cpus", group.bundles.front().at("CPU").value()},
            {"done", steps_ == 4}};
  }
  void save(const std::string& directory) const { std::ofstream(directory + "/n") << steps_; }
  void load(const std::string& directory) { std::ifstream(directory + "/n") >> steps_; }

 private:
  double x_ = 0;
  int steps_ = 0;
};

TEST(TuneScheduler, FunctionChangesResources) {
  auto options = quiet_options({{"x", tune::uniform(1, 2)}}, 2);
  options.scheduler = tune::ResourceChangingScheduler(
      {},
      [](std::int64_t trial,
         const tune::Metrics& metrics) -> std::optional<tune::PlacementGroupFactory> {
        if (trial != 0 || metrics.at("steps").integer() != 2) return std::nullopt;
        return tune::PlacementGroupFactory{{{{"cpu", 2}}}};
      });
  const auto results = tune::run<Growing>(options);
  for (const auto& result : results.all()) {
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("steps").integer(), 4);
    EXPECT_EQ(result.metrics.at("cpus").number(), result.trial == 0 ? 2 : 1);
    EXPECT_EQ(result.attempts, result.trial == 0 ? 2 : 1);
  }
}

struct StopAtThirdStep final : tune::Scheduler {
  tune::Decision on_trial_result(std::int64_t /*trial*/, const tune::Metrics& metrics) override {
    return metrics.at("steps").integer() >= 3 ? tune::Decision::stop : tune::Decision::proceed;
  }
};

TEST(TuneScheduler, ChangesResourcesAroundUserScheduler) {
  auto options = quiet_options({{"x", tune::uniform(1, 2)}}, 1);
  options.scheduler = tune::ResourceChangingScheduler(
      std::make_shared<StopAtThirdStep>(),
      [](std::int64_t /*trial*/,
         const tune::Metrics& /*metrics*/) -> std::optional<tune::PlacementGroupFactory> {
        return tune::PlacementGroupFactory{{{{"cpu", 3}}}};
      });
  const auto results = tune::run<Growing>(options);
  EXPECT_EQ(results.all()[0].error, "");
  EXPECT_EQ(results.all()[0].metrics.at("steps").integer(), 3);
  EXPECT_EQ(results.all()[0].metrics.at("cpus").number(), 3);
}

TEST(TuneScheduler, DistributesFreeCpus) {
  auto options = quiet_options({{"x", tune::uniform(1, 2)}}, 1);
  options.scheduler = tune::ResourceChangingScheduler({}, {.reserve_resources = {{"cpu", 1}}});
  const auto results = tune::run<Growing>(options);
  EXPECT_EQ(results.all()[0].error, "");
  EXPECT_EQ(results.all()[0].metrics.at("steps").integer(), 4);
  EXPECT_EQ(results.all()[0].metrics.at("cpus").number(), 3);
  options.name += "-refused";
  options.scheduler = tune::ResourceChangingScheduler({}, {.increase_by = {{"license", 1}}});
  EXPECT_THROW(static_cast<void>(tune::run<Growing>(options)), InvalidRequestError);
}

void flat(const tune::Config& config) {
  for (int step = 1; step <= 30; ++step)
    tune::report({{"loss", step < 4 ? 1.0 / step : config.number("x")}});
}

TEST(TuneStopper, StopsTrialOnPlateau) {
  auto options = quiet_options({{"x", tune::uniform(0, 0.1)}}, 2);
  options.stop = tune::TrialPlateauStopper("loss", {.num_results = 3, .grace_period = 2});
  const auto results = tune::run<flat>(options);
  for (const auto& result : results.all()) {
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(iterations(result), 6);
  }
}

TEST(TuneStopper, StopsExperimentOnPlateau) {
  auto options = quiet_options({{"x", tune::constant(0.1)}}, 50);
  options.max_concurrent_trials = 1;
  options.stop = tune::CombinedStopper(
      {tune::MaximumIterationStopper(5), tune::ExperimentPlateauStopper("loss", {.top = 4})});
  const auto results = tune::run<flat>(options);
  // Each trial passes four reports on, and the best four of all trials have to be equal.
  int started = 0;
  for (const auto& result : results.all()) started += result.attempts;
  EXPECT_EQ(started, 4);
}

TEST(TuneStopper, StopsByFunctionAndIterations) {
  auto options = quiet_options({{"x", tune::constant(0.1)}}, 3);
  options.stop = tune::CombinedStopper(
      {tune::FunctionStopper([](std::int64_t trial, const tune::Metrics& metrics) {
         return trial == 1 && metrics.at("training_iteration").integer() == 2;
       }),
       tune::MaximumIterationStopper(4)});
  const auto results = tune::run<flat>(options);
  for (const auto& result : results.all())
    EXPECT_EQ(iterations(result), result.trial == 1 ? 2 : 4) << result.trial;
}

TEST(TuneStopper, StopsExperimentAfterTimeout) {
  auto options = quiet_options({{"x", tune::constant(0.1)}}, 5000);
  options.stop = tune::TimeoutStopper(std::chrono::milliseconds(200));
  const auto results = tune::run<flat>(options);
  EXPECT_EQ(results.all().back().attempts, 0);
}

TEST(TuneStopper, MissingMetricFailsTrial) {
  auto options = quiet_options({{"x", tune::constant(0.1)}}, 1);
  options.stop = {{"accuracy", 0.9}};
  const auto results = tune::run<flat>(options);
  EXPECT_NE(results.all()[0].error.find("trial 0"), std::string::npos) << results.all()[0].error;
  EXPECT_NE(results.all()[0].error.find("accuracy"), std::string::npos) << results.all()[0].error;
}

TEST(TuneScheduler, MissingTimeIsWarning) {
  auto options = quiet_options({{"x", tune::constant(0.1)}}, 1);
  options.scheduler = tune::AsyncHyperBandScheduler({.time_attr = "epoch"});
  options.checkpoint.score_attribute = "quality";
  const auto results = tune::run<flat>(options);
  EXPECT_EQ(results.all()[0].error, "");
  ASSERT_EQ(results.all()[0].warnings.size(), 2U);
  EXPECT_NE(results.all()[0].warnings[0].find("trial 0: report 1: time_attr 'epoch' is missing"),
            std::string::npos);
  EXPECT_NE(results.all()[0].warnings[1].find("score_attribute 'quality' is missing"),
            std::string::npos);
}

}  // namespace
}  // namespace mobula::testing
