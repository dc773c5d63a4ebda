// The content of the public searchers: a recipe makes the algorithm once space, mode, and seed of
// the experiment are known. Searchers of users are adapted.
// Thread: owner. Errors: make functions name the option or the parameter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mobula/tune/searcher.h>

#include "tune/api/scheduler_recipe.h"
#include "tune/core/searchers/search_algorithm.h"

namespace mobula::internal::tune {

struct SearchPlan {
  Space space = {};
  std::string metric = {};                // empty with several objectives
  std::vector<Mode> modes = {Mode::min};  // one for each objective
  bool constrained = false;
  std::int64_t num_samples = 1;
  std::vector<Config> points_to_evaluate = {};
  std::uint64_t seed = 0;
  const MetricsSource* metrics = nullptr;  // for searchers of users; null: the objective alone
};

struct MadeSearch {
  SearchAlgorithmPtr algorithm;
  std::string name = {};
  std::int64_t num_trials = -1;  // -1: the algorithm ends the search
  bool expands_grids = false;    // random and grid search: trials exist early
  bool presets = false;          // contains SearchPlan::points_to_evaluate
  int max_concurrent = 0;        // 0: no limit
  std::vector<std::string> warnings = {};
};

class SearchRecipe : public mobula::tune::Searcher {
 public:
  virtual Result<MadeSearch> make(const SearchPlan& plan) const = 0;

  // A recipe has no space, so it suggests nothing itself.
  Suggestion ask(std::int64_t trial, mobula::tune::RandomStream& random) final;
  void tell(std::int64_t trial, const mobula::tune::Metrics& metrics,
            mobula::tune::State state) final;
};

// A null searcher is random and grid search.
Result<MadeSearch> make_search(const mobula::tune::SearcherPtr& searcher, const SearchPlan& plan);

}  // namespace mobula::internal::tune
