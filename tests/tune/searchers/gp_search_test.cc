#include "tune/core/searchers/gaussian/gp_search.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>
#include <set>

namespace mobula::internal::tune {
namespace {

using ::testing::HasSubstr;

Config suggested(SearchAlgorithm& search, TrialNumber trial, NumpyRandom& random) {
  return search.ask(trial, {random, random}).value().config;
}

std::unique_ptr<GpSearch> gp(const Space& space, const GpSettings& settings = {}) {
  return GpSearch::make(settings, SearchSpace::make(space).value()).value();
}

// ---- the process

TEST(ArdProcess, InterpolatesWithoutNoise) {
  std::vector<std::vector<double>> points;
  std::vector<double> targets;
  for (int i = 0; i <= 8; ++i) {
    points.push_back({i / 8.0});
    targets.push_back(std::sin(6 * i / 8.0));
  }
  ArdProcess process({false});
  process.fit(points, targets, {}, true);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_NEAR(process.predict(points[i]).mean, targets[i], 1e-2);
  }
  const std::vector<double> between{0.43};
  EXPECT_NEAR(process.predict(between).mean, std::sin(6 * 0.43), 2e-2);
  EXPECT_LT(process.predict(points[3]).variance, process.predict(between).variance);
}

TEST(ArdProcess, FindsRelevantParameter) {
  NumpyRandom random(3);
  std::vector<std::vector<double>> points;
  std::vector<double> targets;
  for (int i = 0; i < 40; ++i) {
    points.push_back({random.unit(), random.unit()});
    targets.push_back(std::sin(5 * points.back()[0]));
  }
  ArdProcess process({false, false});
  process.fit(points, targets, {}, false);
  EXPECT_GT(process.raw_parameters()[0], process.raw_parameters()[1] + 1);
}

TEST(ArdProcess, ComparesCategoriesForEquality) {
  ArdProcess process({true});
  process.fit({{0.1}, {0.5}, {0.9}, {0.1}}, std::vector<double>{1, -1, 0, 1}, {}, false);
  const std::vector<double> same{0.1};
  EXPECT_NEAR(process.predict(same).mean, 1, 0.3);
}

// ---- acquisitions

TEST(Acquisition, LogImprovementEqualsIntegral) {
  for (const double mean : {-2.0, 0.0, 1.5}) {
    double sum = 0;
    const double width = 1e-3;
    for (double y = 0.3; y < 12; y += width) {
      const double middle = y + width / 2;
      sum += (middle - 0.3) * std::exp(-0.5 * (middle - mean) * (middle - mean) / 0.49) * width /
             (0.7 * std::sqrt(2 * std::numbers::pi));
    }
    EXPECT_NEAR(log_expected_improvement(mean, 0.49, 0.3), std::log(sum), 1e-4) << mean;
  }
}

TEST(Acquisition, LogImprovementIsContinuousFarAway) {
  double before = log_expected_improvement(-10, 1, 0);
  for (double mean = -10.5; mean > -3e4; mean *= 1.05) {
    const double value = log_expected_improvement(mean, 1, 0);
    EXPECT_TRUE(std::isfinite(value)) << mean;
    EXPECT_LT(value, before) << mean;
    EXPECT_NEAR(value / (-0.5 * mean * mean), 1, 0.2) << mean;
    before = value;
  }
}

TEST(Acquisition, ProbabilityIsExactAndFinite) {
  EXPECT_NEAR(log_probability_above(0, 1, 0), std::log(0.5), 1e-12);
  EXPECT_NEAR(log_probability_above(1, 4, 3), std::log(0.15865525393145707), 1e-9);
  EXPECT_NEAR(log_probability_above(0, 1, 7.2), log_probability_above(0, 1, 7.0), 2);
  EXPECT_TRUE(std::isfinite(log_probability_above(0, 1, 1000)));
}

TEST(Acquisition, HypervolumeEqualsCountOfCells) {
  NumpyRandom random(9);
  for (int round = 0; round < 20; ++round) {
    const std::size_t objectives = 1 + round % 4;
    std::vector<ObjectivePoint> points;
    for (int i = 0; i < 6; ++i) {
      ObjectivePoint point;
      for (std::size_t k = 0; k < objectives; ++k) {
        point.push_back(static_cast<double>(random.index(6)));
      }
      points.push_back(point);
    }
    const ObjectivePoint reference(objectives, 0.0);
    std::size_t cells = 1;
    for (std::size_t k = 0; k < objectives; ++k) cells *= 6;
    double covered = 0;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      std::size_t left = cell;
      ObjectivePoint corner;
      for (std::size_t k = 0; k < objectives; ++k, left /= 6) {
        corner.push_back(static_cast<double>(left % 6) + 1);
      }
      covered += std::any_of(points.begin(), points.end(), [&](const auto& point) {
        for (std::size_t k = 0; k < objectives; ++k) {
          if (point[k] < corner[k]) return false;
        }
        return true;
      });
    }
    EXPECT_NEAR(hypervolume(points, reference), covered, 1e-9);
    const ObjectivePoint added(objectives, 3.0);
    auto more = points;
    more.push_back(added);
    EXPECT_NEAR(hypervolume_improvement(added, pareto_front(points), reference),
                hypervolume(more, reference) - covered, 1e-9);
  }
}

// ---- the searcher

TEST(GpSearch, NamesBadOptions) {
  const auto space = SearchSpace::make(Space{{"x", uniform(0, 1)}}).value();
  EXPECT_THAT(GpSearch::make({.n_startup_trials = 0}, space).error().text,
              HasSubstr("GpOptions::n_startup_trials: 0"));
  EXPECT_THAT(GpSearch::make({.modes = {}}, space).error().text, HasSubstr("no objective"));
  EXPECT_THAT(GpSearch::make({}, SearchSpace()).error().text, HasSubstr("no parameters"));
}

// Branin has the minimum 0.397887.
TEST(GpSearch, FindsMinimumOfBranin) {
  auto search = gp({{"x", uniform(-5, 10)}, {"y", uniform(0, 15)}});
  NumpyRandom random(1);
  double best = 1e9;
  for (TrialNumber trial = 0; trial < 35; ++trial) {
    const Config config = suggested(*search, trial, random);
    const double x = config.get("x").number();
    const double y = config.get("y").number();
    const double pi = std::numbers::pi;
    const double value = std::pow(y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6, 2) +
                         10 * (1 - 1 / (8 * pi)) * std::cos(x) + 10;
    best = std::min(best, value);
    search->tell(trial, {.value = value});
  }
  EXPECT_LT(best, 0.45);
}

TEST(GpSearch, FindsMixedOptimum) {
  auto search =
      gp({{"n", randint(0, 12)}, {"opt", choice({"a", "b", "c"})}, {"x", loguniform(1e-4, 1)}},
         {.modes = {Mode::max}});
  NumpyRandom random(2);
  double best = -1e9;
  for (TrialNumber trial = 0; trial < 40; ++trial) {
    const Config config = suggested(*search, trial, random);
    const double n = config.get("n").number();
    const double x = std::log10(config.get("x").number()) + 2;
    const double value =
        -std::pow(n - 7, 2) / 10 - x * x + (config.get("opt").text() == "b" ? 1.0 : 0.0);
    best = std::max(best, value);
    search->tell(trial, {.value = value});
  }
  EXPECT_GT(best, 0.9);
}

TEST(GpSearch, ConcurrentSuggestionsDiffer) {
  auto search = gp({{"x", uniform(0, 1)}, {"y", uniform(0, 1)}});
  NumpyRandom random(4);
  for (TrialNumber trial = 0; trial < 12; ++trial) {
    const Config config = suggested(*search, trial, random);
    search->tell(trial, {.value = std::pow(config.get("x").number() - 0.3, 2)});
  }
  std::set<std::pair<double, double>> points;
  for (TrialNumber trial = 12; trial < 22; ++trial) {
    const Config config = suggested(*search, trial, random);
    points.emplace(config.get("x").number(), config.get("y").number());
  }
  EXPECT_EQ(points.size(), 10u);
}

// The best point, x = 0, is infeasible: x has to be at least 0.5.
TEST(GpSearch, RespectsConstraint) {
  auto search = gp({{"x", uniform(0, 1)}});
  NumpyRandom random(6);
  double best = 1e9;
  int infeasible = 0;
  for (TrialNumber trial = 0; trial < 25; ++trial) {
    const double x = suggested(*search, trial, random).get("x").number();
    search->tell(trial, {.value = x, .constraints = {0.5 - x}});
    if (x >= 0.5) best = std::min(best, x);
    if (trial >= 15 && x < 0.45) ++infeasible;
  }
  EXPECT_LT(best, 0.52);
  EXPECT_LE(infeasible, 2);
}

// The front of (x² + y², (x − 1)² + y²) is y = 0.
TEST(GpSearch, ApproachesParetoFront) {
  auto search = gp({{"x", uniform(0, 1)}, {"y", uniform(0, 1)}}, {.modes = {Mode::min, Mode::min}});
  NumpyRandom random(5);
  std::vector<ObjectivePoint> found;
  for (TrialNumber trial = 0; trial < 24; ++trial) {
    const Config config = suggested(*search, trial, random);
    const double x = config.get("x").number();
    const double y = config.get("y").number();
    const ObjectivePoint losses{x * x + y * y, (x - 1) * (x - 1) + y * y};
    search->tell(trial, {.values = losses});
    found.push_back({-losses[0], -losses[1]});
  }
  // The complete front dominates 5/6 of the square below (1, 1).
  const ObjectivePoint reference{-1, -1};
  EXPECT_GT(hypervolume(found, reference), 0.77);
}

TEST(GpSearch, ResumesFromState) {
  const Space space{{"x", uniform(0, 1)}};
  auto search = gp(space);
  NumpyRandom random(8);
  for (TrialNumber trial = 0; trial < 14; ++trial) {
    const double x = suggested(*search, trial, random).get("x").number();
    if (trial != 13) search->tell(trial, {.value = x * x});
  }
  auto again = gp(space);
  ASSERT_TRUE(again->load(search->save()).ok());
  NumpyRandom same = random;
  EXPECT_EQ(suggested(*again, 14, same), suggested(*search, 14, random));
  EXPECT_EQ(again->load("x").error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace mobula::internal::tune
