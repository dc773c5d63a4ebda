// Several objectives, constraints, and duplicates through the public interface.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "tune/runtime/run_fixture.h"

namespace mobula::testing {
namespace {

// The front is x in [0, 1].
void two_losses(const tune::Config& config) {
  const double x = config.number("x");
  tune::report({{"near", x * x}, {"far", std::pow(x - 1, 2)}, {"over", x - 0.8}});
}

tune::RunOptions two_objectives(int num_samples) {
  auto options = quiet_options({{"x", tune::uniform(-4, 4)}}, num_samples);
  options.metric = "";
  options.objectives = {{.metric = "near"}, {.metric = "far"}};
  return options;
}

TEST(TuneObjectives, SearchersFindTheFront) {
  const std::map<std::string, tune::SearcherPtr> searchers{
      {"random", nullptr},
      {"gp", tune::GPSearch({.n_startup_trials = 6})},
      {"nsga2", tune::Nsga2Search({.population_size = 6})},
      {"tpe", tune::TPESearch({.n_startup_trials = 6})},
      {"repeated", tune::Repeater(tune::TPESearch({.n_startup_trials = 4}), {.repeat = 2})},
      {"sobol", tune::SobolSearch({.scramble = true})},
      {"limited", tune::ConcurrencyLimiter(tune::Nsga2Search({.population_size = 4}),
                                           {.max_concurrent = 2, .batch = true})}};
  for (const auto& [name, searcher] : searchers) {
    auto options = two_objectives(16);
    options.search_alg = searcher;
    options.max_concurrent_trials = 4;
    const auto results = tune::run<two_losses>(options);
    ASSERT_EQ(results.all().size(), 16U) << name;
    for (const auto& result : results.all()) EXPECT_EQ(result.error, "") << name;
    EXPECT_FALSE(results.front().empty()) << name;
    int inside = 0;
    for (const auto& result : results.front())
      inside += result.config.number("x") >= 0 && result.config.number("x") <= 1 ? 1 : 0;
    // Outside of [0, 1], at most the nearest configuration of each side is on the front.
    const int nearest = name == "repeated" ? 4 : 2;
    EXPECT_GE(inside + nearest, static_cast<int>(results.front().size())) << name;
    if (name == "gp") {
      EXPECT_GE(inside, 4);
    }
    EXPECT_THROW(static_cast<void>(results.best()), InvalidRequestError);
  }
}

TEST(TuneObjectives, FrontHasTrialsThatNoOtherDominates) {
  auto options = two_objectives(1);
  options.space = {{"x", tune::grid_search({-1.0, 0.0, 0.25, 1.0, 3.0})}};
  options.constraints = {"over"};
  const auto results = tune::run<two_losses>(options);
  std::set<double> front;
  for (const auto& result : results.front()) front.insert(result.config.number("x"));
  EXPECT_EQ(front, (std::set<double>{0, 0.25}));
}

TEST(TuneObjectives, SearchersKeepConstraints) {
  const std::map<std::string, tune::SearcherPtr> searchers{
      {"tpe", tune::TPESearch({.n_startup_trials = 5})},
      {"gp", tune::GPSearch({.n_startup_trials = 5})},
      {"nsga2", tune::Nsga2Search({.population_size = 5})}};
  for (const auto& [name, searcher] : searchers) {
    auto options = quiet_options({{"x", tune::uniform(-4, 4)}}, 14);
    options.metric = "far";
    options.constraints = {"over"};
    options.search_alg = searcher;
    const auto results = tune::run<two_losses>(options);
    EXPECT_LE(results.best().config.number("x"), 0.8) << name;
    if (name == "gp") {
      EXPECT_GT(results.best().config.number("x"), 0.5);
    }
  }
}

TEST(TuneObjectives, MissingObjectiveFailsTrial) {
  auto options = two_objectives(1);
  options.objectives.push_back({.metric = "cost"});
  const auto results = tune::run<two_losses>(options);
  EXPECT_NE(results.all()[0].error.find("trial 0: report 1: metric 'cost' is missing"),
            std::string::npos)
      << results.all()[0].error;
  EXPECT_TRUE(results.front().empty());
}

std::string refusal_of_two(const tune::RunOptions& options) {
  try {
    static_cast<void>(tune::run<two_losses>(options));
  } catch (const InvalidRequestError& error) {
    return error.field() + " | " + error.what();
  }
  return "";
}

TEST(TuneObjectives, RefusesRulesForOneObjective) {
  auto options = two_objectives(1);
  options.search_alg = tune::CmaEsSearch();
  EXPECT_NE(refusal_of_two(options).find("CmaEsSearch: 2 objectives"), std::string::npos);
  options.search_alg = {};
  options.scheduler = tune::AsyncHyperBandScheduler();
  EXPECT_NE(refusal_of_two(options).find("AsyncHyperBandScheduler compares trials by one metric"),
            std::string::npos);
  options.scheduler = {};
  options.metric = "near";
  EXPECT_TRUE(refusal_of_two(options).starts_with("RunOptions::objectives"));
  options.metric = "";
  options.objectives = {{.metric = "near"}, {.metric = "near"}};
  EXPECT_NE(refusal_of_two(options).find("'near' is empty or repeated"), std::string::npos);
  auto constrained = quiet_options({{"x", tune::uniform(0, 1)}}, 1);
  constrained.metric = "near";
  constrained.constraints = {"over"};
  constrained.search_alg = tune::BayesOptSearch();
  EXPECT_NE(refusal_of_two(constrained).find("constraints are not supported"), std::string::npos);
}

TEST(TuneObjectives, OneObjectiveEqualsMetric) {
  auto options = two_objectives(4);
  options.objectives = {{.metric = "near", .mode = tune::Mode::max}};
  options.search_alg = tune::TPESearch();
  options.scheduler = tune::AsyncHyperBandScheduler();
  const auto results = tune::run<two_losses>(options);
  for (const auto& result : results.all())
    EXPECT_LE(result.metrics.at("near").number(), results.best().metrics.at("near").number());
}

void counted(const tune::Config& config) {
  tune::report({{"loss", config.integer("x")}, {"ran", tune::get_context().trial}});
}

tune::RunOptions six_values(tune::OnDuplicate rule, int num_samples) {
  auto options = quiet_options({{"x", tune::randint(0, 6)}}, num_samples);
  options.on_duplicate = rule;
  options.max_concurrent_trials = 1;
  return options;
}

TEST(TuneDuplicates, ReuseTakesResultOfEarlierTrial) {
  for (const tune::SearcherPtr& searcher : {tune::SearcherPtr(), tune::TPESearch()}) {
    auto options = six_values(tune::OnDuplicate::reuse, 12);
    options.search_alg = searcher;
    const auto results = tune::run<counted>(options);
    ASSERT_EQ(results.all().size(), 12U);
    std::map<std::int64_t, std::int64_t> first;
    for (const auto& result : results.all()) {
      const auto [at, fresh] = first.emplace(result.config.integer("x"), result.trial);
      EXPECT_EQ(result.metrics.at("ran").integer(), at->second);
      EXPECT_EQ(result.attempts, fresh ? 1 : 0);
    }
    EXPECT_LE(first.size(), 6U);
  }
}

TEST(TuneDuplicates, ResampleAsksAgain) {
  auto options = six_values(tune::OnDuplicate::resample, 5);
  options.search_alg = tune::TPESearch({.n_startup_trials = 20});
  const auto results = tune::run<counted>(options);
  std::set<std::int64_t> values;
  for (const auto& result : results.all()) values.insert(result.config.integer("x"));
  EXPECT_EQ(values.size(), 5U);
}

// Preset points run once and come first, with every searcher and around wrappers.
struct Ones final : tune::Searcher {
  Suggestion ask(std::int64_t /*trial*/, tune::RandomStream& /*random*/) override {
    return {.kind = Suggestion::Kind::config, .config = {{"x", 1}}};
  }
  void tell(std::int64_t /*trial*/, const tune::Metrics& metrics, tune::State /*state*/) override {
    if (metrics.contains("ran")) ++complete;
  }
  int complete = 0;
};

TEST(TuneSearch, RunsPresetPointsOnce) {
  const auto ones = std::make_shared<Ones>();
  const std::map<std::string, tune::SearcherPtr> searchers{
      {"random", nullptr},
      {"tpe", tune::TPESearch()},
      {"limited", tune::ConcurrencyLimiter(tune::TPESearch(), {.max_concurrent = 2})},
      {"user", ones}};
  for (const auto& [name, searcher] : searchers) {
    auto options = quiet_options({{"x", tune::randint(0, 6)}}, 5);
    options.search_alg = searcher;
    options.points_to_evaluate = {{{"x", 5}}, {{"x", 4}}};
    const auto results = tune::run<counted>(options);
    ASSERT_EQ(results.all().size(), 5U) << name;
    EXPECT_EQ(results.all()[0].config.integer("x"), 5) << name;
    EXPECT_EQ(results.all()[1].config.integer("x"), 4) << name;
    if (name == "user") {
      EXPECT_EQ(results.all()[2].config.integer("x"), 1);
    }
  }
  // The searcher of a user gets all metrics of a report.
  EXPECT_EQ(ones->complete, 3);
}

}  // namespace
}  // namespace mobula::testing
