#include "tune/core/searchers/variant_search.h"

#include "tune/core/state_archive.h"

namespace mobula::internal::tune {

Result<std::unique_ptr<VariantSearch>> VariantSearch::make(Space space, VariantSettings settings,
                                                           std::uint64_t seed) {
  Result<VariantGenerator> generator =
      VariantGenerator::make(std::move(space), std::move(settings));
  if (!generator) return generator.error();
  return std::unique_ptr<VariantSearch>(new VariantSearch(std::move(*generator), seed));
}

Result<Suggestion> VariantSearch::ask(TrialNumber /*trial*/, SearchRandom /*random*/) {
  if (next_ >= generator_.total()) return Suggestion{.kind = Suggestion::Kind::finished};
  Result<Config> config = generator_.variant(next_, seed_);
  if (!config) return config.error();
  ++next_;
  return Suggestion{.kind = Suggestion::Kind::config, .config = std::move(*config)};
}

std::string VariantSearch::save() const { return save_state(*this); }

Result<void> VariantSearch::load(std::string_view state) {
  return load_state(*this, state, "variants");
}

}  // namespace mobula::internal::tune
