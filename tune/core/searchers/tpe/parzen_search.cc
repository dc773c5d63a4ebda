#include "tune/core/searchers/tpe/parzen_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tune/core/state_archive.h"

namespace mobula::internal::tune {

Result<std::unique_ptr<ParzenSearch>> ParzenSearch::make(const ParzenSettings& settings,
                                                         const SearchSpace& space) {
  if (settings.n_startup_trials < 0)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("TpeOptions::n_startup_trials: {}; pass at least 0",
                               settings.n_startup_trials));
  if (settings.n_candidates < 1)
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("TpeOptions::n_candidates: {}; pass at least 1", settings.n_candidates));
  return std::unique_ptr<ParzenSearch>(new ParzenSearch(settings, space));
}

Result<void> ParzenSearch::begin(TrialNumber trial, SearchRandom /*random*/) {
  // A failed trial begins again when its suggestion is drawn again.
  const SearchState state = table_.state(trial);
  if (state != SearchState::absent && state != SearchState::failed)
    return failure(ErrorCode::already_exists,
                   fmt::format("ask trial {}: the trial exists; pass a new number", trial));
  table_.begin(trial);
  return {};
}

// As in Optuna, the trial's first suggestion draws the parameters that all finished trials have.
void ParzenSearch::draw_jointly(TrialNumber trial, NumpyRandom& random) {
  if (!settings_.several.empty() || starting() || table_.has_sample(trial)) return;
  std::map<std::string, Dimension> joint;
  for (const auto& [name, dimension] : table_.joint())
    if (!dimension.single()) joint.emplace(name, dimension);
  if (joint.empty()) return;
  for (const auto& [name, value] : draw(joint, trial, random))
    table_.set(trial, name, value, joint.at(name), false);
}

std::map<std::string, double> ParzenSearch::draw(const std::map<std::string, Dimension>& dimensions,
                                                 TrialNumber trial, NumpyRandom& random) {
  const auto estimators = table_.estimators(dimensions, trial);
  const CandidateColumns candidates =
      estimators.good.sample(static_cast<std::size_t>(settings_.n_candidates), random);
  const std::vector<double> good = estimators.good.log_density(candidates);
  const std::vector<double> other = estimators.other.log_density(candidates);
  std::size_t best = 0;
  for (std::size_t c = 1; c < good.size(); ++c)
    if (good[c] - other[c] > good[best] - other[best]) best = c;
  std::map<std::string, double> values;
  std::size_t column = 0;
  for (const auto& [name, dimension] : dimensions) values[name] = candidates[column++][best];
  return values;
}

Result<Value> ParzenSearch::suggest(TrialNumber trial, std::string_view name,
                                    const Dimension& dimension, SearchRandom random) {
  if (table_.state(trial) != SearchState::running)
    return failure(ErrorCode::not_found,
                   fmt::format("suggest '{}' for trial {}: the trial is not running", name, trial));
  double value = 0;
  if (!dimension.single()) draw_jointly(trial, random.model);
  if (dimension.single()) {
    value = dimension.is_category() ? 0 : dimension.low;
  } else if (const auto known = table_.suggested(trial, name, dimension)) {
    value = *known;
  } else if (starting()) {
    value = dimension.sample(random.startup);
  } else {
    value = draw({{std::string(name), dimension}}, trial, random.model).begin()->second;
  }
  table_.set(trial, name, value, dimension, true);
  return dimension.external(value);
}

Result<Suggestion> ParzenSearch::ask(TrialNumber trial, SearchRandom random) {
  if (space_.empty())
    return failure(ErrorCode::invalid_argument,
                   "TPESearch: the space has no parameters; pass at least one");
  if (Result<void> begun = begin(trial, random); !begun) return begun.error();
  Suggestion suggestion{.kind = Suggestion::Kind::config};
  for (const auto& parameter : space_.parameters()) {
    if (parameter.condition) {
      const Value* parent = suggestion.config.find(parameter.condition->parameter);
      if (parent == nullptr || !(*parent == parameter.condition->equals)) continue;
    }
    if (parameter.constant) {
      suggestion.config.set(parameter.name, parameter.dimension.choices.front());
      continue;
    }
    Result<Value> value = suggest(trial, parameter.name, parameter.dimension, random);
    if (!value) return value.error();
    suggestion.config.set(parameter.name, std::move(*value));
  }
  return suggestion;
}

void ParzenSearch::report(TrialNumber trial, double step, double value) {
  const auto found = last_reports_.find(trial);
  if (found == last_reports_.end() || found->second.first <= step)
    last_reports_[trial] = {step, value};
}

void ParzenSearch::tell(TrialNumber trial, const TrialEnd& end) {
  if (table_.state(trial) != SearchState::running) return;
  const double sign = -sign_of(settings_.mode);  // losses
  SearchOutcome outcome;
  const std::size_t objectives = settings_.several.size();
  const bool valued = objectives == 0
                          ? end.value && !std::isnan(*end.value)
                          : end.values.size() == objectives &&
                                std::none_of(end.values.begin(), end.values.end(),
                                             [](double value) { return std::isnan(value); });
  if (end.state == EndState::pruned) {
    outcome.state = SearchState::pruned;
    const auto last = last_reports_.find(trial);
    if (last != last_reports_.end())
      outcome.last = std::pair(last->second.first, sign * last->second.second);
  } else if (end.state == EndState::failed || !valued) {
    outcome.state = SearchState::failed;
  } else if (objectives == 0) {
    outcome.loss = sign * *end.value;
  } else {
    for (std::size_t i = 0; i < objectives; ++i)
      outcome.losses.push_back(-sign_of(settings_.several[i]) * end.values[i]);
  }
  for (const double constraint : end.constraints)
    if (constraint > 0) outcome.violation += constraint;
  last_reports_.erase(trial);
  table_.end(trial, outcome);
}

std::string ParzenSearch::save() const { return save_state(*this); }

Result<void> ParzenSearch::load(std::string_view state) {
  return load_state(*this, state, "TPE searcher");
}

}  // namespace mobula::internal::tune
