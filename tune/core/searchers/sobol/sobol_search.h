// Quasi-random search along the Sobol sequence, with Optuna's mapping to domains: half steps at
// both ends, and one coordinate per category. The first trial is random.
// Thread: owner (the searcher thread of one experiment). Errors: make() names the space.
#pragma once

#include <memory>
#include <vector>

#include "tune/core/searchers/search_algorithm.h"
#include "tune/core/searchers/sobol/sobol_sequence.h"

namespace mobula::internal::tune {

struct SobolSettings {
  bool scramble = false;  // drawn with the first trial
};

class SobolSearch final : public SearchAlgorithm {
 public:
  static Result<std::unique_ptr<SobolSearch>> make(const SearchSpace& space,
                                                   const SobolSettings& settings = {});

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override;
  void tell(TrialNumber /*trial*/, const TrialEnd& /*end*/) override {}
  std::string save() const override;
  Result<void> load(std::string_view state) override;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.asked_, self.scramble_seed_);
  }

 private:
  SobolSearch(const SearchSpace& space, const SobolSettings& settings,
              std::vector<std::size_t> sorted)
      : settings_(settings), space_(space), sorted_(std::move(sorted)), sequence_(sorted_.size()) {}
  void scramble();

  SobolSettings settings_;

  SearchSpace space_;
  std::vector<std::size_t> sorted_;  // parameters with several values, by name
  SobolSequence sequence_;
  std::uint32_t asked_ = 0;
  std::uint32_t scramble_seed_ = 0;
};

}  // namespace mobula::internal::tune
