#include "tune/core/searchers/cma/cma_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tune/core/searchers/tpe/parzen_search.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

bool in_unit_cube(const SearchSpace::Parameter& parameter) {
  return !parameter.constant && !parameter.dimension.is_category() && !parameter.dimension.single();
}

}  // namespace

CmaSearch::CmaSearch(const CmaSettings& settings, const SearchSpace& space,
                     SearchAlgorithmPtr categories)
    : settings_(settings), space_(space), categories_(std::move(categories)) {
  for (std::size_t i = 0; i < space_.parameters().size(); ++i)
    if (in_unit_cube(space_.parameters()[i])) numbers_.push_back(i);
  std::sort(numbers_.begin(), numbers_.end(), [&](std::size_t a, std::size_t b) {
    return space_.parameters()[a].name < space_.parameters()[b].name;
  });
  strategy_ = CovarianceAdaptation(numbers_.size(), settings_.sigma0.value_or(1.0 / 6),
                                   static_cast<std::size_t>(settings_.popsize.value_or(0)));
}

Result<std::unique_ptr<CmaSearch>> CmaSearch::make(const CmaSettings& settings,
                                                   const SearchSpace& space) {
  auto fault = [](std::string text) {
    return failure(ErrorCode::invalid_argument, std::move(text));
  };
  if (settings.sigma0 && !(*settings.sigma0 > 0))
    return fault(fmt::format("CmaEsOptions::sigma0: {}; pass a value above 0", *settings.sigma0));
  // Smaller populations have no negative weights.
  if (settings.popsize && *settings.popsize < 4)
    return fault(fmt::format("CmaEsOptions::popsize: {}; pass at least 4", *settings.popsize));
  if (std::none_of(space.parameters().begin(), space.parameters().end(), in_unit_cube))
    return fault("CmaEsSearch: the space has no range of numbers; use TPESearch");
  auto categories = ParzenSearch::make({.mode = settings.mode}, SearchSpace());
  if (!categories) return categories.error();
  return std::unique_ptr<CmaSearch>(new CmaSearch(settings, space, std::move(*categories)));
}

Result<Suggestion> CmaSearch::ask(TrialNumber trial, SearchRandom random) {
  if (Result<void> begun = categories_->begin(trial, random); !begun) return begun.error();
  Asked asked{.generation = strategy_.generation()};
  std::vector<double> values(space_.parameters().size());
  if (started_) {
    asked.point = strategy_.ask(random.model);
    for (std::size_t k = 0; k < numbers_.size(); ++k) {
      const Dimension& dimension = space_.parameters()[numbers_[k]].dimension;
      const double low = dimension.model_low();
      const double range = dimension.model_high() - low;
      values[numbers_[k]] = dimension.from_model(low + asked.point[k] * range);
      // The strategy learns from the value that the trial uses.
      asked.point[k] = (dimension.to_model(values[numbers_[k]]) - low) / range;
    }
  } else {
    for (const std::size_t i : numbers_)
      values[i] = space_.parameters()[i].dimension.sample(random.startup);
  }
  Suggestion suggestion{.kind = Suggestion::Kind::config};
  for (std::size_t i = 0; i < space_.parameters().size(); ++i) {
    const auto& [name, dimension, condition, constant] = space_.parameters()[i];
    if (condition) {
      const Value* parent = suggestion.config.find(condition->parameter);
      if (parent == nullptr || !(*parent == condition->equals)) continue;
    }
    if (constant) {
      suggestion.config.set(name, dimension.choices.front());
    } else if (in_unit_cube(space_.parameters()[i])) {
      suggestion.config.set(name, dimension.external(values[i]));
    } else {
      Result<Value> value = categories_->suggest(trial, name, dimension, random);
      if (!value) return value.error();
      suggestion.config.set(name, std::move(*value));
    }
  }
  live_[trial] = std::move(asked);
  return suggestion;
}

void CmaSearch::tell(TrialNumber trial, const TrialEnd& end) {
  const auto found = live_.find(trial);
  if (found == live_.end()) return;
  const Asked asked = std::move(found->second);
  live_.erase(found);
  categories_->tell(trial, end);
  if (end.state != EndState::complete || !end.value || std::isnan(*end.value)) return;
  started_ = true;
  if (asked.point.empty() || asked.generation != strategy_.generation()) return;
  generation_.push_back({asked.point, -sign_of(settings_.mode) * *end.value});
  if (generation_.size() == strategy_.population()) strategy_.tell(std::exchange(generation_, {}));
}

std::string CmaSearch::save() const {
  StateWriter writer;
  writer(categories_->save(), strategy_, started_, live_, generation_);
  return writer.take();
}

Result<void> CmaSearch::load(std::string_view state) {
  StateReader reader(state);
  std::string categories;
  reader(categories, strategy_, started_, live_, generation_);
  if (!reader.finished())
    return failure(ErrorCode::corrupt, "load CMA-ES searcher: malformed state");
  return categories_->load(categories);
}

}  // namespace mobula::internal::tune
