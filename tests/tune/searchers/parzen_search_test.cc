#include "tune/core/searchers/tpe/parzen_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tune/core/searchers/tpe/truncated_normal.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

struct ParzenStudy {
  NumpyRandom random{7};
  std::unique_ptr<ParzenSearch> search;

  explicit ParzenStudy(const Space& space, const ParzenSettings& settings = {}) {
    search = ParzenSearch::make(settings, SearchSpace::make(space).value()).value();
  }
  Config ask(TrialNumber trial) { return search->ask(trial, {random, random}).value().config; }
};

double parabola(const Config& config) {
  const double x = config.get("x").number() - 0.25;
  return x * x;
}

TEST(ParzenSearch, ApproachesTheMinimum) {
  ParzenStudy study(Space{{"x", uniform(0, 1)}});
  double late = 0;
  for (TrialNumber trial = 0; trial < 100; ++trial) {
    const double loss = parabola(study.ask(trial));
    study.search->tell(trial, {.value = loss});
    if (trial >= 80) late += std::sqrt(loss) / 20;
  }
  EXPECT_LT(late, 0.15);  // 0.31 for random search
}

TEST(ParzenSearch, TenSuggestionsAtOnceDiffer) {
  ParzenStudy study(Space{{"x", uniform(0, 1)}});
  for (TrialNumber trial = 0; trial < 20; ++trial)
    study.search->tell(trial, {.value = parabola(study.ask(trial))});
  std::set<double> values;
  for (TrialNumber trial = 20; trial < 30; ++trial)
    values.insert(study.ask(trial).get("x").number());
  EXPECT_EQ(values.size(), 10U);
}

TEST(ParzenSearch, SuggestsConditionalParameters) {
  ParzenStudy study(Space{{"beta", uniform(.8, .99).when("opt", "adam")},
                          {"opt", choice({"sgd", "adam"})},
                          {"steps", randint(1, 5)},
                          {"kind", constant("net")}});
  int active = 0;
  for (TrialNumber trial = 0; trial < 60; ++trial) {
    const Config config = study.ask(trial);
    EXPECT_EQ(config.has("beta"), config.get("opt").text() == "adam");
    EXPECT_EQ(config.get("kind").text(), "net");
    EXPECT_GE(config.get("steps").integer(), 1);
    EXPECT_LE(config.get("steps").integer(), 4);
    active += config.has("beta") ? 1 : 0;
    study.search->tell(trial, {.value = config.has("beta") ? 0.0 : 1.0});
  }
  EXPECT_GT(active, 30);
}

// Optuna draws the joint values at the first suggestion, from the trials that have ended by then.
TEST(ParzenSearch, TrialWithoutSuggestion_DrawsNothing) {
  const Space space{{"x", uniform(0, 1)}, {"y", uniform(0, 1)}};
  ParzenStudy study(space), with_idle_trial(space);
  for (ParzenStudy* each : {&study, &with_idle_trial})
    for (TrialNumber trial = 0; trial < 20; ++trial)
      each->search->tell(trial, {.value = parabola(each->ask(trial))});
  NumpyRandom& random = with_idle_trial.random;
  ASSERT_TRUE(with_idle_trial.search->begin(20, {random, random}).ok());
  const Config expected = study.ask(21), config = with_idle_trial.ask(21);
  EXPECT_EQ(config.get("x").number(), expected.get("x").number());
  EXPECT_EQ(config.get("y").number(), expected.get("y").number());
}

TEST(ParzenSearch, DefineByRunTrialsShareTheModel) {
  ParzenStudy study(Space(), {.mode = Mode::max});
  const Dimension unit = real_dimension(0, 1);
  double late = 0;
  for (TrialNumber trial = 0; trial < 80; ++trial) {
    ASSERT_TRUE(study.search->begin(trial, {study.random, study.random}).ok());
    const double x =
        study.search->suggest(trial, "x", unit, {study.random, study.random}).value().number();
    // The same name again is the same value.
    EXPECT_EQ(study.search->suggest(trial, "x", unit, {study.random, study.random}).value(),
              Value(x));
    study.search->tell(trial, {.value = x});
    if (trial >= 60) late += x / 20;
  }
  EXPECT_GT(late, 0.85);
}

TEST(ParzenSearch, IgnoresTrialWithoutValue) {
  ParzenStudy study(Space{{"x", uniform(0, 1)}});
  study.ask(0);
  study.search->tell(0, {});
  study.ask(1);
  study.search->tell(1, {.value = std::nan("")});
  study.search->tell(9, {.value = 1});  // never asked
  ParzenStudy fresh(Space{{"x", uniform(0, 1)}});
  fresh.ask(0);
  fresh.ask(1);
  for (TrialNumber trial = 2; trial < 20; ++trial) {
    const Config config = study.ask(trial);
    EXPECT_EQ(config, fresh.ask(trial));
    study.search->tell(trial, {.value = parabola(config)});
    fresh.search->tell(trial, {.value = parabola(config)});
    if (trial == 2) fresh.search->tell(0, {.state = EndState::failed});
    if (trial == 2) fresh.search->tell(1, {.state = EndState::failed});
  }
}

TEST(ParzenSearch, NamesParameterWithoutDimension) {
  const auto space = SearchSpace::make(Space{{"x", uniform(0, 1)}, {"g", grid_search({1, 2})}});
  ASSERT_FALSE(space.ok());
  EXPECT_THAT(space.error().text, HasSubstr("parameter 'g': searchers with a model"));
  EXPECT_FALSE(ParzenSearch::make({.n_candidates = 0}, SearchSpace()).ok());
  ParzenStudy empty{Space()};
  const auto asked = empty.search->ask(0, {empty.random, empty.random});
  ASSERT_FALSE(asked.ok());
  EXPECT_THAT(asked.error().text, HasSubstr("no parameters"));
}

TEST(ParzenSearch, RejectsUnknownAndRepeatedTrial) {
  ParzenStudy study(Space{{"x", uniform(0, 1)}});
  study.ask(0);
  EXPECT_FALSE(study.search->ask(0, {study.random, study.random}).ok());
  const auto value =
      study.search->suggest(5, "x", real_dimension(0, 1), {study.random, study.random});
  ASSERT_FALSE(value.ok());
  EXPECT_THAT(value.error().text, HasSubstr("suggest 'x' for trial 5"));
}

TEST(TruncatedNormal, InvertsItsDistribution) {
  for (const double a : {-8.0, -1.0, 0.5, 4.0}) {
    const double b = a + 3;
    for (const double quantile : {0.0, 0.01, 0.5, 0.99}) {
      const std::vector<TruncatedDraw> draws{{quantile, a, b}};
      const double x = truncated_quantiles(draws).at(0);
      EXPECT_GE(x, a);
      EXPECT_LE(x, b);
      if (quantile == 0) continue;
      EXPECT_NEAR(std::exp(log_normal_mass(a, x) - log_normal_mass(a, b)), quantile, 1e-7);
    }
  }
}

TEST(Dimension, LastStepIsWithinBounds) {
  EXPECT_EQ(real_dimension(0, 1, 0.3).high, 0.3 * 3);
  EXPECT_EQ(real_dimension(0, 1, 0.1).high, 1);
  EXPECT_EQ(integer_dimension(0, 10, 3).high, 9);
  EXPECT_TRUE(integer_dimension(0, 2, 3).single());
}

}  // namespace
}  // namespace mobula::internal::tune
