#include "tune/core/searchers/genetic/nsga_search.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace mobula::internal::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SearchSpace unit_square() {
  return SearchSpace::make(Space{{"x", uniform(0, 1)}, {"y", uniform(0, 1)}}).value();
}

Config ask(SearchAlgorithm& search, TrialNumber trial, NumpyRandom& random) {
  return search.ask(trial, {random, random}).value().config;
}

TEST(NsgaSearch, NamesBadOptions) {
  const auto fault = [](const NsgaSettings& settings) {
    return NsgaSearch::make(settings, unit_square()).error().text;
  };
  EXPECT_THAT(fault({.population_size = 1}), HasSubstr("Nsga2Options::population_size: 1"));
  EXPECT_THAT(fault({.crossover_prob = 1.5}), HasSubstr("crossover_prob: 1.5"));
  EXPECT_THAT(fault({.swapping_prob = -1}), HasSubstr("swapping_prob: -1"));
  EXPECT_THAT(fault({.mutation_prob = 2}), HasSubstr("mutation_prob: 2"));
  EXPECT_THAT(fault({.modes = {}}), HasSubstr("no objective"));
}

TEST(NsgaSearch, ConcurrentSuggestionsDiffer) {
  auto search = NsgaSearch::make({.population_size = 5}, unit_square()).value();
  NumpyRandom random(1);
  for (TrialNumber trial = 0; trial < 20; ++trial) {
    const double x = ask(*search, trial, random).get("x").number();
    search->tell(trial, {.value = x});
  }
  std::set<std::pair<double, double>> points;
  for (TrialNumber trial = 20; trial < 30; ++trial) {
    const Config config = ask(*search, trial, random);
    points.emplace(config.get("x").number(), config.get("y").number());
  }
  EXPECT_EQ(points.size(), 10u);
}

// The front of (x² + y², (x − 1)² + y²) is y = 0.
TEST(NsgaSearch, ApproachesParetoFront) {
  auto search = NsgaSearch::make(
                    {.modes = {Mode::min, Mode::min}, .population_size = 20, .mutation_prob = 0.05},
                    unit_square())
                    .value();
  NumpyRandom random(5);
  double first = 0;
  double last = 0;
  for (TrialNumber trial = 0; trial < 600; ++trial) {
    const Config config = ask(*search, trial, random);
    const double x = config.get("x").number();
    const double y = config.get("y").number();
    search->tell(trial, {.values = {x * x + y * y, (x - 1) * (x - 1) + y * y}});
    (trial < 100 ? first : last) += trial < 100 || trial >= 500 ? y / 100 : 0;
  }
  EXPECT_LT(last, 0.3 * first);
}

TEST(NsgaSearch, IgnoresTrialsWithoutAllValues) {
  auto search = NsgaSearch::make({.modes = {Mode::min, Mode::max}}, unit_square()).value();
  NumpyRandom random(1);
  ask(*search, 0, random);
  const std::string before = search->save();
  search->tell(7, {.values = {1, 2}});
  EXPECT_EQ(search->save(), before);
  search->tell(0, {.value = 1.0});
  EXPECT_FALSE(search->suggest(0, "x", real_dimension(0, 1), {random, random}).ok());
}

TEST(NsgaSearch, RejectsMalformedState) {
  auto search = NsgaSearch::make({}, unit_square()).value();
  EXPECT_EQ(search->load("x").error().code, ErrorCode::corrupt);
}

TEST(Nondomination, RanksFrontsAndEqualRows) {
  const std::vector<Losses> losses{{1, 4}, {2, 2}, {2, 2}, {3, 3}, {4, 4}, {0, 5}};
  EXPECT_THAT(nondomination_ranks(losses), ElementsAre(0, 0, 0, 1, 2, 0));
}

TEST(Nondomination, RanksInfeasibleByPenaltyAlone) {
  const std::vector<Losses> losses{{1, 1}, {2, 2}, {0, 0}, {9, 9}};
  const std::vector<double> penalties{0, 0, 0.5, 0.1};
  EXPECT_THAT(nondomination_ranks(losses, penalties), ElementsAre(0, 1, 3, 2));
}

TEST(Nondomination, PrefersEndsOfFront) {
  const std::vector<Losses> values{{0, 10}, {1, 6}, {1.2, 5.8}, {5, 1}, {9, 0}};
  const auto order = by_crowding(values);
  EXPECT_EQ((std::set{order[0], order[1]}), (std::set<std::size_t>{0, 4}));
  EXPECT_EQ(order[2], 3u);
}

}  // namespace
}  // namespace mobula::internal::tune
