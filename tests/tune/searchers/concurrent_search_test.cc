// Suggestions of trials that run at one time.
#include <gtest/gtest.h>

#include <set>

#include "tune/core/searchers/bohb/bohb_search.h"
#include "tune/core/searchers/cma/cma_search.h"
#include "tune/core/searchers/gaussian/bayes_search.h"
#include "tune/core/searchers/gaussian/gp_search.h"
#include "tune/core/searchers/genetic/nsga_search.h"
#include "tune/core/searchers/sobol/sobol_search.h"
#include "tune/core/searchers/tpe/parzen_search.h"
#include "tune/core/searchers/variant_search.h"

namespace mobula::internal::tune {
namespace {

constexpr std::uint64_t study_seed = 5;

SearchAlgorithmPtr search_of(const std::string& name) {
  const bool is_bayes = name.starts_with("bayes");
  const Space space{{"x", uniform(0, 1)}, {"y", is_bayes ? uniform(0, 1) : loguniform(1e-3, 1)}};
  const SearchSpace dimensions = SearchSpace::make(space).value();
  if (name == "tpe") return ParzenSearch::make({}, dimensions).value();
  if (name == "motpe")
    return ParzenSearch::make({.several = {Mode::min, Mode::max}}, dimensions).value();
  if (name == "cma") return CmaSearch::make({}, dimensions).value();
  if (name == "nsga2") return NsgaSearch::make({.population_size = 10}, dimensions).value();
  if (name == "bohb") return BohbSearch::make({}, dimensions).value();
  if (name == "gp") return GpSearch::make({}, dimensions).value();
  if (name == "gp2") return GpSearch::make({.modes = {Mode::min, Mode::max}}, dimensions).value();
  using Kind = BayesSettings::Kind;
  if (name == "bayes_ucb") return BayesSearch::make({.kind = Kind::ucb}, dimensions).value();
  if (name == "bayes_ei") return BayesSearch::make({.kind = Kind::ei}, dimensions).value();
  if (name == "bayes_poi") return BayesSearch::make({.kind = Kind::poi}, dimensions).value();
  if (name == "sobol") return SobolSearch::make(dimensions).value();
  return VariantSearch::make(space, {.num_samples = 100}, study_seed).value();
}

class ConcurrentSearch : public testing::TestWithParam<const char*> {};

TEST_P(ConcurrentSearch, TenSuggestionsDiffer) {
  const auto search = search_of(GetParam());
  TrialNumber next = 0;
  const auto ask = [&] {
    NumpyRandom random(counter_stream(study_seed, next, StreamPurpose::suggestion));
    return search->ask(next++, {random, random}).value();
  };
  // The model is in use after 24 trials.
  for (int i = 0; i < 24; ++i) {
    const Suggestion suggestion = ask();
    ASSERT_EQ(suggestion.kind, Suggestion::Kind::config);
    const double x = suggestion.config.get("x").number();
    const double y = suggestion.config.get("y").number();
    // BayesOpt ends a search at a corner after repeated suggestions, as in Ray.
    const bool is_bayes = std::string(GetParam()).starts_with("bayes");
    const double loss = is_bayes ? (x - 0.4) * (x - 0.4) + (y - 0.3) * (y - 0.3) : x * x + y;
    search->budget_reached(next - 1, 1, loss);
    TrialEnd end{.value = loss};
    if (const std::string name = GetParam(); name == "motpe" || name == "gp2")
      end.values = {loss, y};
    search->tell(next - 1, end);
  }
  std::set<std::string> configs;
  for (int i = 0; i < 10; ++i) {
    const Suggestion suggestion = ask();
    ASSERT_EQ(suggestion.kind, Suggestion::Kind::config) << i;
    configs.insert(to_string(suggestion.config));
  }
  EXPECT_EQ(configs.size(), 10U);
}

INSTANTIATE_TEST_SUITE_P(Searchers, ConcurrentSearch,
                         testing::Values("random", "tpe", "motpe", "cma", "nsga2", "bohb", "sobol",
                                         "gp", "gp2", "bayes_ucb", "bayes_ei", "bayes_poi"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mobula::internal::tune
