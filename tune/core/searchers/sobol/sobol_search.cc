#include "tune/core/searchers/sobol/sobol_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tune/core/state_archive.h"

namespace mobula::internal::tune {

Result<std::unique_ptr<SobolSearch>> SobolSearch::make(const SearchSpace& space,
                                                       const SobolSettings& settings) {
  std::vector<std::size_t> sorted;
  for (std::size_t i = 0; i < space.parameters().size(); ++i)
    if (!space.parameters()[i].dimension.single()) sorted.push_back(i);
  std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    return space.parameters()[a].name < space.parameters()[b].name;
  });
  if (sorted.empty())
    return failure(ErrorCode::invalid_argument,
                   "SobolSearch: no parameter of the space has two values; add one");
  if (sorted.size() > SobolSequence::max_dimensions)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("SobolSearch: {} parameters, at most {}; use TPESearch",
                               sorted.size(), SobolSequence::max_dimensions));
  return std::unique_ptr<SobolSearch>(new SobolSearch(space, settings, std::move(sorted)));
}

void SobolSearch::scramble() {
  sequence_ = SobolSequence(sorted_.size());
  NumpyRandom random(scramble_seed_);
  sequence_.scramble(random);
}

Result<Suggestion> SobolSearch::ask(TrialNumber /*trial*/, SearchRandom random) {
  if (asked_ > 1U << SobolSequence::bits) return Suggestion{.kind = Suggestion::Kind::finished};
  std::vector<double> values(space_.parameters().size());
  if (asked_ == 0) {
    if (settings_.scramble) {
      constexpr std::int64_t seeds = std::int64_t{1} << 31;
      scramble_seed_ = static_cast<std::uint32_t>(random.model.integer(0, seeds));
      scramble();
    }
    for (const std::size_t i : sorted_)
      values[i] = space_.parameters()[i].dimension.sample(random.startup);
  } else {
    const std::vector<double> point = sequence_.point(asked_ - 1);
    for (std::size_t k = 0; k < sorted_.size(); ++k) {
      const Dimension& dimension = space_.parameters()[sorted_[k]].dimension;
      const double low = dimension.model_low();
      values[sorted_[k]] =
          dimension.is_category()
              ? std::floor(point[k] * static_cast<double>(dimension.choices.size()))
              : dimension.from_model(low + point[k] * (dimension.model_high() - low));
    }
  }
  ++asked_;
  Suggestion suggestion{.kind = Suggestion::Kind::config};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& parameter = space_.parameters()[i];
    if (parameter.condition) {
      const Value* parent = suggestion.config.find(parameter.condition->parameter);
      if (parent == nullptr || !(*parent == parameter.condition->equals)) continue;
    }
    const Dimension& dimension = parameter.dimension;
    const double value = dimension.single() && !dimension.is_category() ? dimension.low : values[i];
    suggestion.config.set(parameter.name, dimension.external(value));
  }
  return suggestion;
}

std::string SobolSearch::save() const { return save_state(*this); }

Result<void> SobolSearch::load(std::string_view state) {
  Result<void> loaded = load_state(*this, state, "Sobol searcher");
  if (loaded && settings_.scramble && asked_ > 0) scramble();
  return loaded;
}

}  // namespace mobula::internal::tune
