// Random and grid search as a searcher: variant number n depends on the seed and n alone.
// Thread: owner. Errors: make() names the parameter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tune/core/searchers/search_algorithm.h"
#include "tune/core/searchers/variant_generator.h"

namespace mobula::internal::tune {

class VariantSearch final : public SearchAlgorithm {
 public:
  static Result<std::unique_ptr<VariantSearch>> make(Space space, VariantSettings settings,
                                                     std::uint64_t seed);

  std::int64_t total() const { return generator_.total(); }
  const std::vector<std::string>& warnings() const { return generator_.warnings(); }

  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override;
  void tell(TrialNumber /*trial*/, const TrialEnd& /*end*/) override {}
  std::string save() const override;
  Result<void> load(std::string_view state) override;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.next_);
  }

 private:
  VariantSearch(VariantGenerator generator, std::uint64_t seed)
      : generator_(std::move(generator)), seed_(seed) {}

  VariantGenerator generator_;
  std::uint64_t seed_;
  std::int64_t next_ = 0;
};

}  // namespace mobula::internal::tune
