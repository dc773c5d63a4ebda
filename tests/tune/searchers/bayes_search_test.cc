#include "tune/core/searchers/gaussian/bayes_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tune/core/searchers/box_minimizer.h"
#include "tune/trace_runner.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

double bits_of(const std::string& word) { return parse_value("f" + word).number(); }

std::unique_ptr<BayesSearch> bayes(const Space& space, const BayesSettings& settings = {}) {
  return BayesSearch::make(settings, SearchSpace::make(space).value()).value();
}

// The recorded suggestions and predictions (tests/tune/oracle/bayes_oracle.py).
TEST(BayesSearch, EqualsRecordedSuggestions) {
  std::ifstream trace(MOBULA_SOURCE_DIR "/tests/tune/traces/bayes.txt");
  std::string line;
  Space space;
  std::unique_ptr<BayesSearch> search;
  NumpyRandom model;
  NumpyRandom startup;
  TrialNumber trial = 0;
  int compared = 0;
  while (std::getline(trace, line)) {
    const TraceWords words = words_of(line);
    if (words[0] == "S") {
      startup = NumpyRandom(static_cast<std::uint32_t>(std::stoul(words[1])));
      space = Space();
      search.reset();
      trial = 0;
    } else if (words[0] == "M") {
      space.add(words[1], uniform(bits_of(words[2]), bits_of(words[3])));
    } else if (words[0] == "W") {
      if (!search) search = bayes(space);
      const Config config = search->ask(trial++, {model, startup}).value().config;
      EXPECT_TRUE(same_config(config, parse_config(words[1]))) << line;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 30);
}

TEST(MaternProcess, EqualsRecordedPredictions) {
  std::ifstream trace(MOBULA_SOURCE_DIR "/tests/tune/traces/bayes.txt");
  std::string line;
  std::vector<std::vector<double>> points;
  std::vector<double> targets;
  MaternProcess process;
  double scale = 0;
  bool fitted = false;
  int compared = 0;
  while (std::getline(trace, line)) {
    const TraceWords words = words_of(line);
    std::vector<double> numbers;
    if (words[0] == "G" || words[0] == "X" || words[0] == "Y")
      for (std::size_t i = 1; i < words.size(); ++i) numbers.push_back(bits_of(words[i]));
    if (words[0] == "G") {
      scale = numbers[0];
      points.clear();
      targets.clear();
      fitted = false;
    } else if (words[0] == "X") {
      targets.push_back(numbers.back());
      numbers.pop_back();
      points.push_back(numbers);
    } else if (words[0] == "Y") {
      if (!fitted) process.fit(points, targets, scale);
      fitted = true;
      const double deviation = numbers.back();
      numbers.pop_back();
      const double mean = numbers.back();
      numbers.pop_back();
      const auto prediction = process.predict(numbers);
      EXPECT_NEAR(prediction.mean, mean, 1e-6);
      EXPECT_NEAR(prediction.deviation, deviation, 1e-6);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 200);
}

TEST(MaternProcess, FindsTheLengthScale) {
  NumpyRandom random(1);
  std::vector<std::vector<double>> points;
  std::vector<double> targets;
  for (int i = 0; i < 30; ++i) {
    points.push_back({random.uniform(0, 10)});
    targets.push_back(std::sin(points.back()[0]));
  }
  MaternProcess process;
  process.fit(points, targets);
  EXPECT_GT(process.length_scale(), 1);
  EXPECT_LT(process.length_scale(), 30);
  EXPECT_NEAR(process.predict(std::vector<double>{5.5}).mean, std::sin(5.5), 0.05);
}

TEST(BoxMinimizer, FindsMinimumWithinAndAtBounds) {
  const std::vector<BoxBounds> bounds{{-2, 2}, {-2, 2}};
  auto valley = [](std::span<const double> x) {
    const double a = 1 - x[0];
    const double b = x[1] - x[0] * x[0];
    return a * a + 100 * b * b;
  };
  const BoxMinimum inside = minimize_in_box(valley, {-1.2, 1}, bounds, 500);
  EXPECT_NEAR(inside.point[0], 1, 1e-2);
  EXPECT_NEAR(inside.point[1], 1, 2e-2);
  auto slope = [](std::span<const double> x) { return x[0] + (x[1] - 0.5) * (x[1] - 0.5); };
  const BoxMinimum edge = minimize_in_box(slope, {1, -1}, bounds);
  EXPECT_EQ(edge.point[0], -2);
  EXPECT_NEAR(edge.point[1], 0.5, 1e-4);
}

TEST(BayesSearch, ApproachesTheMaximum) {
  for (const auto kind :
       {BayesSettings::Kind::ucb, BayesSettings::Kind::ei, BayesSettings::Kind::poi}) {
    auto search = bayes(Space{{"x", uniform(-2, 2)}, {"name", constant("net")}},
                        {.mode = Mode::max, .kind = kind, .random_search_steps = 4});
    NumpyRandom random(3);
    double best = -100;
    for (TrialNumber trial = 0; trial < 12; ++trial) {
      const Suggestion suggestion = search->ask(trial, {random, random}).value();
      if (suggestion.kind != Suggestion::Kind::config) continue;
      EXPECT_EQ(suggestion.config.get("name").text(), "net");
      const double x = suggestion.config.get("x").number();
      const double value = -(x - 0.7) * (x - 0.7);
      best = std::max(best, value);
      search->tell(trial, {.value = value});
    }
    EXPECT_GT(best, -0.01);
  }
}

TEST(BayesSearch, FailedTrialsDoNotBlockTheSearch) {
  auto search = bayes(Space{{"x", uniform(0, 1)}}, {.random_search_steps = 3});
  NumpyRandom random(3);
  for (TrialNumber trial = 0; trial < 3; ++trial)
    ASSERT_TRUE(search->ask(trial, {random, random}).ok());
  EXPECT_EQ(search->ask(3, {random, random}).value().kind, Suggestion::Kind::later);
  search->tell(0, {.state = EndState::failed});
  search->tell(1, {.value = 1});
  search->tell(2, {.value = std::nan("")});
  // A copy of the state continues equally.
  auto copy = bayes(Space{{"x", uniform(0, 1)}}, {.random_search_steps = 3});
  ASSERT_TRUE(copy->load(search->save()).ok());
  NumpyRandom again = random;
  const Suggestion next = search->ask(3, {random, random}).value();
  EXPECT_EQ(next.kind, Suggestion::Kind::config);
  EXPECT_EQ(next.config, copy->ask(3, {again, again}).value().config);
}

TEST(BayesSearch, RepeatedPointEndsTheSearch) {
  // One possible point: low equals high.
  auto search = bayes(Space{{"x", uniform(1, 1)}}, {.patience = 2});
  NumpyRandom random(3);
  EXPECT_EQ(search->ask(0, {random, random}).value().kind, Suggestion::Kind::config);
  // A repetition counts once until a result arrives, however often the experiment asks.
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(search->ask(1, {random, random}).value().kind, Suggestion::Kind::later);
  search->tell(0, {.value = 1});
  EXPECT_EQ(search->ask(2, {random, random}).value().kind, Suggestion::Kind::finished);
}

TEST(BayesSearch, NamesParameterThatIsNoRange) {
  const auto space = SearchSpace::make(Space{{"c", choice({1, 2})}}).value();
  EXPECT_THAT(BayesSearch::make({}, space).error().text, HasSubstr("parameter 'c'"));
  EXPECT_THAT(BayesSearch::make({}, SearchSpace()).error().text, HasSubstr("no parameters"));
  EXPECT_THAT(BayesSearch::make({.patience = 0}, space).error().text, HasSubstr("::patience: 0"));
}

}  // namespace
}  // namespace mobula::internal::tune
