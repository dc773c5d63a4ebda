#include "tune/core/searchers/cma/cma_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "tune/core/state_archive.h"
#include "tune/trace_runner.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

TEST(CovarianceAdaptation, EqualsRecordedStates) {
  std::ifstream trace(MOBULA_SOURCE_DIR "/tests/tune/traces/cma.txt");
  std::string line;
  CovarianceAdaptation strategy;
  std::vector<CovarianceAdaptation::Solution> solutions;
  int compared = 0;
  while (std::getline(trace, line)) {
    const TraceWords words = words_of(line);
    if (words[0] == "S") {
      strategy = CovarianceAdaptation(std::stoul(words[1]), 1.0 / 6, std::stoul(words[2]));
      continue;
    }
    std::vector<double> numbers;
    for (std::size_t i = 1; i < words.size(); ++i)
      numbers.push_back(parse_value("f" + words[i]).number());
    if (words[0] == "X") {
      const double loss = numbers.back();
      numbers.pop_back();
      solutions.push_back({numbers, loss});
      continue;
    }
    strategy.tell(std::exchange(solutions, {}));
    std::vector<double> state = strategy.mean();
    state.push_back(strategy.sigma());
    for (const auto* part :
         {&strategy.covariance().values, &strategy.sigma_path(), &strategy.covariance_path()})
      state.insert(state.end(), part->begin(), part->end());
    ASSERT_EQ(state.size(), numbers.size());
    for (std::size_t i = 0; i < state.size(); ++i)
      EXPECT_NEAR(state[i], numbers[i], 1e-9 * std::max(1.0, std::abs(numbers[i]))) << line[0];
    ++compared;
  }
  EXPECT_EQ(compared, 24);
}

TEST(SymmetricMatrix, RestoresFromItsEigenSystem) {
  SquareMatrix matrix(4);
  NumpyRandom random(1);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j <= i; ++j) matrix(i, j) = matrix(j, i) = random.uniform(-1, 1);
  const EigenSystem system = eigen_system(matrix);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 4; ++k)
        sum += system.vectors(i, k) * system.values[k] * system.vectors(j, k);
      EXPECT_NEAR(sum, matrix(i, j), 1e-12);
    }
  }
  EXPECT_LE(system.values[0], system.values[3]);
}

std::unique_ptr<CmaSearch> cma(const Space& space, const CmaSettings& settings = {}) {
  return CmaSearch::make(settings, SearchSpace::make(space).value()).value();
}

TEST(CmaSearch, ApproachesTheMinimum) {
  auto search = cma(Space{{"x", uniform(-5, 5)}, {"y", loguniform(1e-3, 1e3)}});
  NumpyRandom random(3);
  double best = 1e9;
  for (TrialNumber trial = 0; trial < 150; ++trial) {
    const Config config = search->ask(trial, {random, random}).value().config;
    const double x = config.get("x").number() - 1;
    const double y = std::log(config.get("y").number());
    best = std::min(best, x * x + y * y);
    search->tell(trial, {.value = x * x + y * y});
  }
  EXPECT_LT(best, 1e-3);
}

TEST(CmaSearch, MixesNumbersStepsAndCategories) {
  auto search = cma(Space{{"opt", choice({"sgd", "adam"})},
                          {"beta", uniform(0, 1).when("opt", "adam")},
                          {"layers", randint(1, 9)},
                          {"net", constant(3)},
                          {"one", randint(5, 6)}},
                    {.mode = Mode::max, .popsize = 6});
  NumpyRandom random(3);
  std::set<std::int64_t> layers;
  int late = 0;
  for (TrialNumber trial = 0; trial < 120; ++trial) {
    const Config config = search->ask(trial, {random, random}).value().config;
    EXPECT_EQ(config.has("beta"), config.get("opt").text() == "adam");
    EXPECT_EQ(config.get("one"), Value(5));
    EXPECT_EQ(config.get("net"), Value(3));
    layers.insert(config.get("layers").integer());
    const double value = static_cast<double>(config.get("layers").integer()) +
                         (config.get("opt").text() == "adam" ? 5 : 0);
    search->tell(trial, {.value = value});
    if (trial >= 100 && config.get("layers").integer() >= 7) ++late;
  }
  EXPECT_GE(*layers.begin(), 1);
  EXPECT_LE(*layers.rbegin(), 8);
  EXPECT_GT(late, 12);
}

TEST(CmaSearch, TenSuggestionsAtOnceDiffer) {
  auto search = cma(Space{{"x", uniform(0, 1)}});
  NumpyRandom random(3);
  search->ask(0, {random, random}).value();
  search->tell(0, {.value = 1});
  std::set<double> values;
  for (TrialNumber trial = 1; trial <= 10; ++trial)
    values.insert(search->ask(trial, {random, random}).value().config.get("x").number());
  EXPECT_EQ(values.size(), 10U);
}

TEST(CmaSearch, ContinuesFromSavedState) {
  const Space space{{"x", uniform(0, 1)}, {"c", choice({1, 2})}};
  auto search = cma(space);
  NumpyRandom random(3);
  for (TrialNumber trial = 0; trial < 30; ++trial) {
    auto copy = cma(space);
    ASSERT_TRUE(copy->load(search->save()).ok());
    NumpyRandom again = random;
    const Config config = search->ask(trial, {random, random}).value().config;
    EXPECT_EQ(config, copy->ask(trial, {again, again}).value().config);
    search->tell(trial, {.value = config.get("x").number()});
  }
  EXPECT_FALSE(search->load("x").ok());
}

TEST(CmaSearch, RejectsOptionsAndNamesThem) {
  const auto space = SearchSpace::make(Space{{"x", uniform(0, 1)}}).value();
  EXPECT_THAT(CmaSearch::make({.sigma0 = 0}, space).error().text, HasSubstr("::sigma0: 0"));
  EXPECT_THAT(CmaSearch::make({.popsize = 2}, space).error().text, HasSubstr("::popsize: 2"));
  const auto categories = SearchSpace::make(Space{{"c", choice({1, 2})}}).value();
  EXPECT_THAT(CmaSearch::make({}, categories).error().text, HasSubstr("no range of numbers"));
}

}  // namespace
}  // namespace mobula::internal::tune
