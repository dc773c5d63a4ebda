#include "tune/core/searchers/bohb/bohb_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tune/core/schedulers/hyperband.h"
#include "tune/core/searchers/search_wrappers.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

std::unique_ptr<BohbSearch> bohb(const Space& space, const BohbSettings& settings = {}) {
  return BohbSearch::make(settings, SearchSpace::make(space).value()).value();
}

double loss_of(const Config& config) {
  const double x = config.get("x").number() - 0.3;
  return x * x + (config.get("c").text() == "good" ? 0 : 0.2);
}

const Space& mixed_space() {
  static const Space space{{"x", uniform(0, 1)}, {"c", choice({"good", "bad", "ugly"})}};
  return space;
}

TEST(BohbSearch, ApproachesTheMinimum) {
  auto search = bohb(mixed_space());
  NumpyRandom random(3);
  double late = 0;
  for (TrialNumber trial = 0; trial < 100; ++trial) {
    const Config config = search->ask(trial, {random, random}).value().config;
    search->budget_reached(trial, 9, loss_of(config));
    search->tell(trial, {.value = loss_of(config)});
    if (trial >= 70) late += loss_of(config) / 30;
  }
  EXPECT_LT(late, 0.15);  // 0.24 for random search
}

TEST(BohbSearch, IgnoresResultsOfSmallerBudgets) {
  auto search = bohb(mixed_space(), {.random_fraction = 0});
  NumpyRandom random(3);
  TrialNumber trial = 0;
  for (; trial < 20; ++trial) {
    const Config config = search->ask(trial, {random, random}).value().config;
    search->budget_reached(trial, 9, loss_of(config));
  }
  const std::string state = search->save();
  search->budget_reached(0, 3, -100);
  EXPECT_EQ(search->save(), state);
  search->budget_reached(0, 27, std::nan(""));  // counts as infinite
  EXPECT_NE(search->save(), state);
}

TEST(BohbSearch, PausedTrialsDoNotCountAgainstLimit) {
  auto limited = make_concurrency_limiter(bohb(mixed_space()), {.max_concurrent = 2}).value();
  NumpyRandom random(3);
  EXPECT_EQ(limited->ask(0, {random, random}).value().kind, Suggestion::Kind::config);
  EXPECT_EQ(limited->ask(1, {random, random}).value().kind, Suggestion::Kind::config);
  EXPECT_EQ(limited->ask(2, {random, random}).value().kind, Suggestion::Kind::later);
  limited->paused(0);
  EXPECT_EQ(limited->ask(2, {random, random}).value().kind, Suggestion::Kind::config);
  limited->resumed(0);
  EXPECT_EQ(limited->ask(3, {random, random}).value().kind, Suggestion::Kind::later);
}

// The searcher and HyperBandForBOHB, driven as the controller drives them.
TEST(BohbSearch, RunsWithItsScheduler) {
  auto scheduler = make_hyperband({.max_t = 9, .reduction_factor = 3, .for_bohb = true}).value();
  auto search = bohb(mixed_space());
  TrialTable trials;
  TuneRandom random{NumpyRandom(1), PythonRandom(1)};
  const SchedulerStep step{trials, random};
  std::vector<double> times;
  std::vector<Config> configs;
  int stopped = 0;
  for (int round = 0; round < 400; ++round) {
    auto chosen = scheduler->choose(step);
    if (!chosen) {
      const auto trial = static_cast<TrialNumber>(trials.size());
      configs.push_back(search->ask(trial, {random.numpy, random.numpy}).value().config);
      times.push_back(0);
      trials.add(configs.back());
      ASSERT_TRUE(scheduler->added(trial, step).ok());
      continue;
    }
    const auto at = static_cast<std::size_t>(*chosen);
    trials.set_state(*chosen, TrialState::running);
    Decision decision = Decision::proceed;
    while (decision == Decision::proceed) {
      times[at] += 1;
      const double loss = loss_of(configs[at]) / times[at];
      decision =
          scheduler->reported({.trial = *chosen, .time = times[at], .value = loss}, step).value();
      if (const auto budget = scheduler->budget_of_report(*chosen))
        search->budget_reached(*chosen, *budget, loss);
    }
    if (decision == Decision::pause) {
      trials.set_state(*chosen, TrialState::paused);
      continue;
    }
    ++stopped;
    scheduler->completed({.trial = *chosen}, step);
    trials.set_state(*chosen, TrialState::terminated);
    search->tell(*chosen, {});
  }
  EXPECT_GT(stopped, 10);
}

TEST(BohbSearch, ContinuesFromSavedState) {
  auto search = bohb(mixed_space());
  NumpyRandom random(3);
  for (TrialNumber trial = 0; trial < 30; ++trial) {
    auto copy = bohb(mixed_space());
    ASSERT_TRUE(copy->load(search->save()).ok());
    NumpyRandom again = random;
    const Config config = search->ask(trial, {random, random}).value().config;
    EXPECT_EQ(config, copy->ask(trial, {again, again}).value().config);
    search->budget_reached(trial, 3, loss_of(config));
  }
}

TEST(BohbSearch, RejectsOptionsAndNamesThem) {
  const auto space = SearchSpace::make(mixed_space()).value();
  EXPECT_THAT(BohbSearch::make({.top_n_percent = 0}, space).error().text,
              HasSubstr("::top_n_percent: 0"));
  EXPECT_THAT(BohbSearch::make({.num_samples = 0}, space).error().text,
              HasSubstr("::num_samples: 0"));
  EXPECT_THAT(BohbSearch::make({}, SearchSpace()).error().text, HasSubstr("no parameters"));
}

}  // namespace
}  // namespace mobula::internal::tune
