#include "tune/core/searchers/tpe/observation_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mobula::internal::tune {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

void ObservationColumn::set(TrialNumber trial, double value, const Dimension& dimension,
                            bool read) {
  const auto at = static_cast<std::size_t>(trial);
  if (at >= entries_.size()) entries_.resize(at + 1);
  const auto found = std::find(dimensions_.begin(), dimensions_.end(), dimension);
  const auto index = static_cast<std::int32_t>(found - dimensions_.begin());
  if (found == dimensions_.end()) dimensions_.push_back(dimension);
  Entry& entry = entries_[at];
  const bool same = entry.dimension >= 0 && entry.value == value;
  if (entry.dimension >= 0 && !same) erase_sorted(trial, entry.value);
  const bool fresh = entry.dimension < 0 || !same;
  entry = Entry{value, index, read};
  if (fresh) insert_sorted(trial, value);
}

void ObservationColumn::erase(TrialNumber trial) {
  const auto at = static_cast<std::size_t>(trial);
  if (at >= entries_.size() || entries_[at].dimension < 0) return;
  erase_sorted(trial, entries_[at].value);
  entries_[at] = Entry();
}

const ObservationColumn::Entry* ObservationColumn::find(TrialNumber trial) const {
  const auto at = static_cast<std::size_t>(trial);
  return at < entries_.size() && entries_[at].dimension >= 0 ? &entries_[at] : nullptr;
}

void ObservationColumn::forget_derived() {
  linear_.reset();
  logarithmic_.reset();
  cached_dimension_.reset();
  cache_ = {};
}

const std::vector<std::pair<double, std::int32_t>>& ObservationColumn::sorted(bool log) {
  auto& sorted = log ? logarithmic_ : linear_;
  if (sorted) return *sorted;
  sorted.emplace();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].dimension < 0) continue;
    const double value = log ? std::log(entries_[i].value) : entries_[i].value;
    if (!std::isnan(value)) sorted->emplace_back(value, static_cast<std::int32_t>(i));
  }
  std::sort(sorted->begin(), sorted->end());
  return *sorted;
}

void ObservationColumn::insert_sorted(TrialNumber trial, double value) {
  for (const bool log : {false, true}) {
    auto& sorted = log ? logarithmic_ : linear_;
    if (!sorted) continue;
    const std::pair key(log ? std::log(value) : value, static_cast<std::int32_t>(trial));
    if (!std::isnan(key.first))
      sorted->insert(std::lower_bound(sorted->begin(), sorted->end(), key), key);
  }
}

void ObservationColumn::erase_sorted(TrialNumber trial, double value) {
  for (const bool log : {false, true}) {
    auto& sorted = log ? logarithmic_ : linear_;
    if (!sorted) continue;
    const std::pair key(log ? std::log(value) : value, static_cast<std::int32_t>(trial));
    const auto at = std::lower_bound(sorted->begin(), sorted->end(), key);
    if (at != sorted->end() && *at == key) sorted->erase(at);
  }
}

std::vector<CachedMass>& ObservationColumn::cache_for(const Dimension& dimension) {
  if (!cached_dimension_ || !(*cached_dimension_ == dimension)) {
    cached_dimension_ = dimension;
    cache_ = {};
  }
  if (cache_.size() < entries_.size())
    cache_.resize(entries_.size(), CachedMass{std::numeric_limits<double>::quiet_NaN(), 0});
  return cache_;
}

void ObservationTable::begin(TrialNumber trial) {
  const auto at = static_cast<std::size_t>(trial);
  if (at >= states_.size()) states_.resize(at + 1, SearchState::absent);
  states_[at] = SearchState::running;
}

SearchState ObservationTable::state(TrialNumber trial) const {
  const auto at = static_cast<std::size_t>(trial);
  return at < states_.size() ? states_[at] : SearchState::absent;
}

void ObservationTable::set(TrialNumber trial, std::string_view name, double value,
                           const Dimension& dimension, bool read) {
  columns_[std::string(name)].set(trial, value, dimension, read);
}

bool ObservationTable::has_sample(TrialNumber trial) const {
  return std::any_of(columns_.begin(), columns_.end(), [trial](const auto& named) {
    const auto* entry = named.second.find(trial);
    return entry != nullptr && !named.second.dimension(entry->dimension).single();
  });
}

std::optional<double> ObservationTable::suggested(TrialNumber trial, std::string_view name,
                                                  const Dimension& dimension) const {
  const auto column = columns_.find(std::string(name));
  if (column == columns_.end()) return std::nullopt;
  const auto* entry = column->second.find(trial);
  if (entry == nullptr) return std::nullopt;
  const Dimension& own = column->second.dimension(entry->dimension);
  const bool compatible = own.kind == dimension.kind && own.log == dimension.log &&
                          own.choices == dimension.choices && dimension.contains(entry->value);
  return compatible ? std::optional(entry->value) : std::nullopt;
}

void ObservationTable::end(TrialNumber trial, const SearchOutcome& outcome) {
  states_[static_cast<std::size_t>(trial)] = outcome.state;
  const bool counts =
      outcome.state == SearchState::complete || outcome.state == SearchState::pruned;
  for (auto& [name, column] : columns_) {
    const auto* entry = column.find(trial);
    if (entry != nullptr && (!counts || !entry->read)) column.erase(trial);
  }
  if (!counts) return;
  good_.reset();
  ++finished_;
  narrow_joint(trial);
  if (outcome.violation > 0) {
    keep(infeasible_, {{outcome.violation, 0}, trial});
  } else if (outcome.state == SearchState::complete && several_) {
    losses_.emplace(trial, outcome.losses);
  } else if (outcome.state == SearchState::complete) {
    keep(complete_, {{outcome.loss, 0}, trial});
  } else if (!outcome.last) {
    keep(pruned_, {{1, 0}, trial});
  } else {
    const double loss = outcome.last->second;
    keep(pruned_, {{-outcome.last->first, std::isnan(loss) ? infinity : loss}, trial});
  }
}

void ObservationTable::keep(std::vector<Key>& keys, const Key& key) const {
  keys.insert(std::upper_bound(keys.begin(), keys.end(), key), key);
  if (!several_ && keys.size() > most_good) keys.pop_back();
}

void ObservationTable::narrow_joint(TrialNumber trial) {
  if (!has_joint_) {
    has_joint_ = true;
    for (const auto& [name, column] : columns_)
      if (const auto* entry = column.find(trial))
        joint_.emplace(name, column.dimension(entry->dimension));
    return;
  }
  std::erase_if(joint_, [&](const auto& parameter) {
    const auto& column = columns_.at(parameter.first);
    const auto* entry = column.find(trial);
    return entry == nullptr || !(column.dimension(entry->dimension) == parameter.second);
  });
}

std::vector<TrialNumber> ObservationTable::good_trials() const {
  auto wanted = static_cast<std::size_t>(std::ceil(0.1 * static_cast<double>(finished_)));
  if (!several_) wanted = std::min(wanted, most_good);
  std::vector<TrialNumber> good;
  if (several_) good = good_of_several(wanted);
  for (const auto* keys : {&complete_, &pruned_, &infeasible_})
    for (const Key& key : *keys)
      if (good.size() < wanted) good.push_back(key.second);
  return good;
}

std::vector<TrialNumber> ObservationTable::good_of_several(std::size_t wanted) const {
  std::vector<TrialNumber> trials;
  std::vector<Losses> rows;
  for (const auto& [trial, losses] : losses_) {
    trials.push_back(trial);
    rows.push_back(losses);
  }
  if (wanted >= trials.size()) return trials;
  std::vector<TrialNumber> good;
  for (const std::size_t row : good_rows(rows, wanted)) good.push_back(trials[row]);
  return good;
}

bool ObservationTable::observed(TrialNumber trial,
                                const std::vector<ObservationColumn*>& columns) const {
  return std::all_of(columns.begin(), columns.end(), [&](const ObservationColumn* column) {
    return column->find(trial) != nullptr;
  });
}

ObservationTable::Estimators ObservationTable::estimators(
    const std::map<std::string, Dimension>& dimensions, TrialNumber present) {
  std::vector<ObservationColumn*> columns;
  for (const auto& [name, dimension] : dimensions) columns.push_back(&columns_[name]);
  std::vector<bool> good(states_.size());
  if (!good_) good_ = good_trials();
  for (const TrialNumber trial : *good_) good[static_cast<std::size_t>(trial)] = true;
  // Per estimator: the kernel of each trial (-1: none), and the trials of the kernels.
  std::vector<std::int32_t> good_kernels(states_.size(), -1), other_kernels(states_.size(), -1);
  std::vector<std::int32_t> good_rows, other_rows;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto trial = static_cast<TrialNumber>(i);
    if (states_[i] == SearchState::absent || states_[i] == SearchState::failed ||
        trial == present || !observed(trial, columns))
      continue;
    auto& kernels = good[i] ? good_kernels : other_kernels;
    auto& rows = good[i] ? good_rows : other_rows;
    kernels[i] = static_cast<std::int32_t>(rows.size());
    rows.push_back(static_cast<std::int32_t>(i));
  }
  using Weights = ParzenEstimator::Weights;
  return {estimator(dimensions, columns, good_kernels, good_rows,
                    several_ ? Weights::equal : Weights::recent),
          estimator(dimensions, columns, other_kernels, other_rows, Weights::recent)};
}

ParzenEstimator ObservationTable::estimator(const std::map<std::string, Dimension>& dimensions,
                                            const std::vector<ObservationColumn*>& columns,
                                            const std::vector<std::int32_t>& kernel_of,
                                            const std::vector<std::int32_t>& rows,
                                            ParzenEstimator::Weights weights) {
  ParzenEstimator result(rows.size(), weights);
  std::size_t next = 0;
  for (const auto& [name, dimension] : dimensions) {
    ObservationColumn& column = *columns[next++];
    if (dimension.is_category()) {
      std::vector<std::int32_t> observed;
      for (const std::int32_t row : rows)
        observed.push_back(static_cast<std::int32_t>(column.find(row)->value));
      result.add_category(dimension, std::move(observed));
      continue;
    }
    std::vector<SortedObservation> sorted;
    sorted.reserve(rows.size());
    for (const auto& [value, trial] : column.sorted(dimension.log)) {
      const std::int32_t kernel = kernel_of[static_cast<std::size_t>(trial)];
      if (kernel >= 0) sorted.push_back({value, kernel, trial});
    }
    result.add_numeric(dimension, sorted, column.cache_for(dimension));
  }
  return result;
}

}  // namespace mobula::internal::tune
