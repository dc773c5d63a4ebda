#include "tune/core/trial_table.h"

#include <algorithm>

namespace mobula::internal::tune {

void TrialTable::enlist(TrialNumber trial) {
  const TrialRow& own = row(trial);
  if (!is_finished(own.state)) by_state_[index(own.state)].emplace(own.position, trial);
}

void TrialTable::delist(TrialNumber trial) {
  const TrialRow& own = row(trial);
  if (!is_finished(own.state)) by_state_[index(own.state)].erase(Position(own.position, trial));
}

TrialNumber TrialTable::add(Config config, ResourceBundles resources) {
  const auto trial = static_cast<TrialNumber>(rows_.size());
  TrialRow& added = rows_.emplace_back();
  added.position = next_position_++;
  added.config = std::move(config);
  added.resources = std::move(resources);
  enlist(trial);
  return trial;
}

void TrialTable::set_state(TrialNumber trial, TrialState state) {
  delist(trial);
  TrialRow& changed = row(trial);
  changed.state = state;
  enlist(trial);
  if (!is_finished(state)) return;
  changed.config = {};
  changed.resources = {};
}

void TrialTable::retry(TrialNumber trial) {
  delist(trial);
  TrialRow& changed = row(trial);
  changed.position = next_position_++;
  changed.state = TrialState::pending;
  enlist(trial);
}

std::optional<TrialNumber> TrialTable::first(TrialState state) const {
  const auto& positions = by_state_[index(state)];
  if (positions.empty()) return std::nullopt;
  return positions.begin()->second;
}

std::vector<TrialNumber> TrialTable::all(TrialState state) const {
  std::vector<TrialNumber> trials;
  for (const auto& position : by_state_[index(state)]) trials.push_back(position.second);
  return trials;
}

std::vector<TrialNumber> TrialTable::list() const {
  std::vector<Position> positions;
  for (const auto& part : by_state_) positions.insert(positions.end(), part.begin(), part.end());
  std::sort(positions.begin(), positions.end());
  std::vector<TrialNumber> trials;
  trials.reserve(positions.size());
  for (const auto& position : positions) trials.push_back(position.second);
  return trials;
}

void TrialTable::index_rows() {
  for (auto& positions : by_state_) positions.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i) enlist(static_cast<TrialNumber>(i));
}

}  // namespace mobula::internal::tune
