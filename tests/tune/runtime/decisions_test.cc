// Searchers, schedulers, stoppers, and checkpoints through the public interface.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <mobula/context.h>

#include "tune/runtime/run_fixture.h"

namespace mobula::testing {
namespace {

void curve(const tune::Config& config) {
  for (int step = 1; step <= 9; ++step) tune::report({{"loss", config.number("x") + 1.0 / step}});
}

// Several reports reach the driver at once, and the last one of them waits.
void burst(const tune::Config& config) {
  for (int step = 1; step <= 300; ++step)
    tune::report({{"loss", config.number("x") + 1.0 / step}}, {.wait = step % 10 == 0});
}

TEST(TuneSearch, DecidesReportsThatArriveTogether) {
  for (const auto durability : {tune::Durability::relaxed, tune::Durability::strict}) {
    auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 4);
    options.durability = durability;
    const auto results = tune::run<burst>(options);
    for (const auto& result : results.all()) EXPECT_EQ(iterations(result), 300);
  }
}

void mismeasure(const tune::Config& /*config*/) {
  for (int step = 1; step <= 3; ++step)
    tune::report({{"a", step}, {"loss", 1}, {"training_iteration", 77}, {"z", "last"}});
}

TEST(TuneSearch, MeasuredMetricsReplaceOnesOfTheUser) {
  const auto results = tune::run<mismeasure>(quiet_options({{"x", tune::constant(1)}}, 1));
  const tune::Metrics& metrics = results.all()[0].metrics;
  EXPECT_EQ(metrics.size(), 6U);
  EXPECT_EQ(metrics.at("training_iteration").integer(), 3);
  EXPECT_EQ(metrics.at("a").integer(), 3);
  EXPECT_EQ(metrics.at("z").text(), "last");
  EXPECT_GT(metrics.at("time_this_iter_s").number(), 0);
  EXPECT_GE(metrics.at("time_total_s").number(), metrics.at("time_this_iter_s").number());
}

TEST(TuneSearch, RunsEveryCellOfGrid) {
  auto options =
      quiet_options({{"x", tune::grid_search({1, 2, 3})}, {"y", tune::grid_search({"a", "b"})}}, 2);
  const auto results = tune::run<curve>(options);
  std::map<std::string, int> seen;
  for (const auto& result : results.all())
    ++seen[result.config.text("y") + std::to_string(result.config.integer("x"))];
  EXPECT_EQ(seen.size(), 6U);
  for (const auto& [cell, count] : seen) EXPECT_EQ(count, 2) << cell;
  EXPECT_EQ(results.best().config.integer("x"), 1);
}

TEST(TuneSearch, RepeatsConfigurationsOfSeed) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 4);
  const auto first = tune::run<curve>(options);
  options.name += "-again";
  const auto second = tune::run<curve>(options);
  for (std::size_t i = 0; i < first.all().size(); ++i)
    EXPECT_EQ(first.all()[i].config, second.all()[i].config);
}

TEST(TuneSearch, RunsEverySearcher) {
  const std::map<std::string, tune::SearcherPtr> searchers{
      {"tpe", tune::TPESearch({.n_startup_trials = 3})},
      {"sobol", tune::SobolSearch()},
      {"cma", tune::CmaEsSearch()},
      {"nsga", tune::Nsga2Search()},
      {"bayes", tune::BayesOptSearch({.random_search_steps = 3})},
      {"repeater", tune::Repeater(tune::TPESearch(), {.repeat = 2})}};
  for (const auto& [name, searcher] : searchers) {
    auto options = quiet_options({{"x", tune::uniform(0, 1)}, {"z", tune::uniform(0, 1)}}, 6);
    options.search_alg = searcher;
    options.stop = {{"training_iteration", 2}};
    const auto results = tune::run<curve>(options);
    EXPECT_EQ(results.all().size(), 6U) << name;
    for (const auto& result : results.all()) EXPECT_EQ(result.error, "") << name;
  }
}

TEST(TuneScheduler, StopsBadTrialsWithAsha) {
  auto options = quiet_options({{"x", tune::grid_search({0, 1, 2, 3, 4, 5, 6, 7})}}, 1);
  options.scheduler = tune::AsyncHyperBandScheduler({.max_t = 9, .reduction_factor = 3});
  options.max_concurrent_trials = 1;
  const auto results = tune::run<curve>(options);
  EXPECT_EQ(iterations(results.all()[0]), 9);
  for (std::size_t i = 1; i < 8; ++i) EXPECT_LT(iterations(results.all()[i]), 9) << i;
}

TEST(TuneScheduler, StopsAtLimit) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 3);
  options.stop = {{"training_iteration", 4}};
  const auto results = tune::run<curve>(options);
  for (const auto& result : results.all()) EXPECT_EQ(iterations(result), 4);
}

// Each attempt continues from the step in its checkpoint.
void resumable(const tune::Config& config) {
  const std::string state = tune::get_context().directory + "/state";
  int step = 0;
  if (const auto last = tune::get_checkpoint()) std::ifstream(last->path + "/step") >> step;
  while (step < 12) {
    std::filesystem::create_directories(state);
    std::ofstream(state + "/step") << ++step;
    tune::report({{"score", config.number("lr") * step}, {"step", step}}, {.checkpoint = "state"});
  }
}

TEST(TuneScheduler, ExploitsCheckpointsWithPbt) {
  auto options = quiet_options({}, 6);
  options.metric = "score";
  options.mode = tune::Mode::max;
  options.scheduler =
      tune::PopulationBasedTraining({.time_attr = "training_iteration",
                                     .perturbation_interval = 3,
                                     .hyperparam_mutations = {{"lr", tune::uniform(0.1, 1)}}});
  options.checkpoint.num_to_keep = 2;
  const auto results = tune::run<resumable>(options);
  int attempts = 0;
  for (const auto& result : results.all()) {
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("step").integer(), 12);
    EXPECT_EQ(iterations(result), 12);
    attempts += result.attempts;
  }
  EXPECT_GT(attempts, 6);
  const std::string location = options.storage_path + "/" + options.name + "/checkpoints";
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(location)) left.insert(entry.path());
  EXPECT_LE(left.size(), 6U * 3U);
}

// A class that saves on request.
struct Counter {
  void setup(const tune::Config& config) { slope_ = config.number("x"); }
  tune::Metrics step() {
    ++steps_;
    return {{"loss", slope_ / steps_}, {"steps", steps_}, {"done", steps_ == 9}};
  }
  void save(const std::string& directory) const { std::ofstream(directory + "/n") << steps_; }
  void load(const std::string& directory) { std::ifstream(directory + "/n") >> steps_; }

 private:
  double slope_ = 0;
  int steps_ = 0;
};

TEST(TuneScheduler, PausesClassesWithHyperBand) {
  auto options = quiet_options({{"x", tune::uniform(1, 2)}}, 8);
  options.scheduler = tune::HyperBandScheduler({.max_t = 9});
  const auto results = tune::run<Counter>(options);
  int attempts = 0;
  for (const auto& result : results.all()) {
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.metrics.at("steps").integer(), iterations(result));
    attempts += result.attempts;
  }
  EXPECT_GT(attempts, 8);
}

TEST(TuneScheduler, PromotesTrialsWithAsha) {
  auto options = quiet_options({{"x", tune::uniform(1, 2)}}, 9);
  options.scheduler = tune::AsyncHyperBandScheduler(
      {.max_t = 9, .reduction_factor = 3, .type = tune::AsyncHyperBandOptions::Type::promotion});
  const auto results = tune::run<Counter>(options);
  std::set<std::int64_t> levels;
  for (const auto& result : results.all()) levels.insert(iterations(result));
  EXPECT_TRUE(levels.contains(1));
  EXPECT_TRUE(levels.contains(9));
}

// A class whose process runs several trials.
struct Reusable : Counter {
  bool reset(const tune::Config& config) {
    *this = Reusable();
    setup(config);
    return true;
  }
  tune::Metrics step() {
    auto metrics = Counter::step();
    metrics["process"] = static_cast<std::int64_t>(::getpid());
    return metrics;
  }
};

TEST(TuneProcesses, ReuseGivesTheSameReports) {
  auto options = quiet_options({{"x", tune::uniform(1, 2)}}, 6);
  options.max_concurrent_trials = 1;
  std::map<bool, std::set<std::int64_t>> processes;
  std::map<bool, std::vector<double>> losses;
  for (const bool reuses : {false, true}) {
    options.name += reuses ? "-reuse" : "-fresh";
    options.reuse_actors = reuses ? tune::ReuseActors::automatic : tune::ReuseActors::never;
    const auto results = tune::run<Reusable>(options);
    for (const auto& result : results.all()) {
      ASSERT_EQ(result.error, "");
      processes[reuses].insert(result.metrics.at("process").integer());
      losses[reuses].push_back(result.metrics.at("loss").number());
    }
  }
  EXPECT_EQ(processes[false].size(), 6U);
  EXPECT_EQ(processes[true].size(), 1U);
  EXPECT_EQ(losses[false], losses[true]);
}

// Waits for a file of the test before its first report.
void silent(const tune::Config& config) {
  const fs::path gate = fs::path(tune::get_context().directory).parent_path() / "gate";
  while (!fs::exists(gate)) ::poll(nullptr, 0, 1);
  tune::report(
      {{"loss", config.number("x")}, {"node", current().node_id}, {"process", ::getpid()}});
}

std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) output += part.data();
  ::pclose(pipe);
  return output;
}

TEST(TuneProcesses, SilentTrial_CommandsNameItsProcess) {
  const auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 1);
  const auto ask = [&](const std::string& command) {
    return output_of(MOBULA_BINARY_DIR "/bin/mobula tune " + command + " " + options.name +
                     " 0 --storage " + options.storage_path + " 2>&1");
  };
  std::string reason, shown;
  std::thread observer([&] {
    const double deadline = steady_seconds() + 60;
    while (reason.find("runs on node ") == std::string::npos && steady_seconds() < deadline)
      reason = ask("explain");
    shown = ask("show");
    const fs::path trials = fs::path(options.storage_path) / options.name / "trials";
    fs::create_directories(trials);
    std::ofstream(trials / "gate").put('x');
  });
  const auto results = tune::run<silent>(options);
  observer.join();
  ASSERT_EQ(results.all()[0].error, "");
  const tune::Metrics& metrics = results.all()[0].metrics;
  EXPECT_NE(reason.find("runs on node " + metrics.at("node").text()), std::string::npos) << reason;
  EXPECT_NE(shown.find(std::to_string(metrics.at("process").integer())), std::string::npos)
      << shown;
}

struct Halving final : tune::Searcher {
  Suggestion ask(std::int64_t trial, tune::RandomStream& /*random*/) override {
    if (trial == 5) return {.kind = Suggestion::Kind::finished};
    return {.kind = Suggestion::Kind::config,
            .config = {{"x", 1.0 / static_cast<double>(trial + 1)}}};
  }
  void tell(std::int64_t /*trial*/, const tune::Metrics& metrics, tune::State /*state*/) override {
    results.push_back(metrics.at("loss").number());
  }
  std::vector<double> results = {};
};

struct StopAtThird final : tune::Scheduler {
  tune::Decision on_trial_result(std::int64_t /*trial*/, const tune::Metrics& metrics) override {
    return metrics.at("training_iteration").integer() >= 3 ? tune::Decision::stop
                                                           : tune::Decision::proceed;
  }
};

TEST(TuneSearch, UsesSearcherAndSchedulerOfUser) {
  auto options = quiet_options({{"x", tune::uniform(0, 1)}}, 100);
  const auto searcher = std::make_shared<Halving>();
  options.search_alg = searcher;
  options.scheduler = std::make_shared<StopAtThird>();
  options.verbose = 1;
  ::testing::internal::CaptureStderr();
  const auto results = tune::run<curve>(options);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(
                "the search algorithm finished after 5 of 100 samples"),
            std::string::npos);
  EXPECT_EQ(results.all().size(), 5U);
  EXPECT_EQ(searcher->results.size(), 5U);
  for (const auto& result : results.all()) EXPECT_EQ(iterations(result), 3);
}

TEST(TuneStudy, FindsMinimumWithoutCluster) {
  tune::Study study({}, {.seed = 3});
  for (int i = 0; i < 40; ++i) {
    tune::Trial trial = study.ask();
    const double x = trial.uniform("x", -1, 1);
    const double factor = trial.choice("kind", {"good", "bad"}) == "good" ? 1 : 3;
    study.tell(trial, {{"loss", factor * x * x}});
  }
  EXPECT_LT(std::abs(study.best().number("x")), 0.3);
}

// The front of x² and (x - 1)² is [0, 1]; the constraint excludes its upper half.
TEST(TuneStudy, FindsFrontOfSeveralObjectives) {
  for (const auto& searcher : {tune::TPESearch(), tune::Nsga2Search({.population_size = 8})}) {
    tune::Study study(
        searcher,
        {.seed = 3, .objectives = {{"near"}, {"far", tune::Mode::max}}, .constraints = {"over"}});
    for (int i = 0; i < 80; ++i) {
      tune::Trial trial = study.ask();
      const double x = trial.uniform("x", -4, 4);
      trial.report({{"near", 1}});
      study.tell(trial, {{"near", x * x}, {"far", -std::pow(x - 1, 2)}, {"over", x - 0.5}});
    }
    const auto front = study.front();
    EXPECT_GE(front.size(), 3U);
    int inside = 0;
    for (const tune::Config& config : front) {
      EXPECT_LE(config.number("x"), 0.5);
      inside += config.number("x") >= 0 ? 1 : 0;
    }
    EXPECT_GE(inside + 1, static_cast<int>(front.size()));
    EXPECT_THROW(static_cast<void>(study.best()), InvalidRequestError);
  }
  EXPECT_THROW(tune::Study(tune::CmaEsSearch(), {.objectives = {{"a"}, {"b"}}}),
               InvalidRequestError);
  EXPECT_THROW(tune::Study({}, {.metric = "a", .objectives = {{"a"}, {"b"}}}), InvalidRequestError);
}

}  // namespace
}  // namespace mobula::testing
