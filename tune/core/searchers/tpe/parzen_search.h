// The tree-structured Parzen estimator (TPE) with the suggestions of Optuna 5.0: multivariate for
// one objective, parameter by parameter for several, with running trials as bad ones.
// Thread: owner (the searcher thread of one experiment). Errors: make() and suggest() name the
// parameter or the option.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tune/core/searchers/search_algorithm.h"
#include "tune/core/searchers/tpe/observation_table.h"

namespace mobula::internal::tune {

struct ParzenSettings {
  Mode mode = Mode::min;
  int n_startup_trials = 10, n_candidates = 24;
  std::vector<Mode> several = {};  // the modes of several objectives; empty: one objective
};

class ParzenSearch final : public SearchAlgorithm {
 public:
  // An empty space: only define-by-run trials.
  static Result<std::unique_ptr<ParzenSearch>> make(const ParzenSettings& settings,
                                                    const SearchSpace& space);

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override;
  void report(TrialNumber trial, double step, double value) override;
  void tell(TrialNumber trial, const TrialEnd& end) override;
  Result<void> begin(TrialNumber trial, SearchRandom random) override;
  Result<Value> suggest(TrialNumber trial, std::string_view name, const Dimension& dimension,
                        SearchRandom random) override;
  std::string save() const override;
  Result<void> load(std::string_view state) override;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.table_, self.last_reports_);
  }

 private:
  ParzenSearch(const ParzenSettings& settings, const SearchSpace& space)
      : settings_(settings), space_(space), table_(!settings.several.empty()) {}
  void draw_jointly(TrialNumber trial, NumpyRandom& random);
  // The best candidate for all dimensions at once.
  std::map<std::string, double> draw(const std::map<std::string, Dimension>& dimensions,
                                     TrialNumber trial, NumpyRandom& random);
  bool starting() const {
    return table_.finished() < static_cast<std::size_t>(settings_.n_startup_trials);
  }

  ParzenSettings settings_;
  SearchSpace space_;
  ObservationTable table_;
  std::map<TrialNumber, std::pair<double, double>> last_reports_;  // step and value, while it runs
};

}  // namespace mobula::internal::tune
