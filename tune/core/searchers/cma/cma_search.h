// CMA-ES as a searcher: numbers in the unit cube with half steps at both ends, as Optuna maps them,
// and categories by TPE. A generation ends with its first results; later ones do not count.
// Thread: owner (the searcher thread of one experiment). Errors: make() names the option.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tune/core/searchers/cma/covariance_adaptation.h"
#include "tune/core/searchers/search_algorithm.h"

namespace mobula::internal::tune {

struct CmaSettings {
  Mode mode = Mode::min;
  std::optional<double> sigma0 = {};  // default: a sixth of the unit cube
  std::optional<int> popsize = {};    // default: 4 + floor(3 ln d)
};

class CmaSearch final : public SearchAlgorithm {
 public:
  static Result<std::unique_ptr<CmaSearch>> make(const CmaSettings& settings,
                                                 const SearchSpace& space);

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override;
  void tell(TrialNumber trial, const TrialEnd& end) override;
  std::string save() const override;
  Result<void> load(std::string_view state) override;

 private:
  struct Asked {
    std::int64_t generation = 0;
    std::vector<double> point = {};  // empty: the first, random trial

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.generation, self.point);
    }
  };

  CmaSearch(const CmaSettings& settings, const SearchSpace& space, SearchAlgorithmPtr categories);

  CmaSettings settings_;
  SearchSpace space_;
  std::vector<std::size_t> numbers_;  // parameters in the unit cube, by name
  SearchAlgorithmPtr categories_;     // TPE
  CovarianceAdaptation strategy_;
  bool started_ = false;  // a trial has completed
  std::map<TrialNumber, Asked> live_;
  std::vector<CovarianceAdaptation::Solution> generation_;  // results of the present generation
};

}  // namespace mobula::internal::tune
