#include "tune/core/trial_table.h"

#include <algorithm>

namespace mobula::internal::tune {

TrialNumber TrialTable::add(Config config, ResourceBundles resources) {
  const auto trial = static_cast<TrialNumber>(rows_.size());
  TrialRow& added = rows_.emplace_back();
  added.position = next_position_++;
  added.config = std::move(config);
  added.resources = std::move(resources);
  by_state_[index(added.state)].emplace(added.position, trial);
  return trial;
}

void TrialTable::set_state(TrialNumber trial, TrialState state) {
  TrialRow& changed = row(trial);
  const Place place(changed.position, trial);
  by_state_[index(changed.state)].erase(place);
  changed.state = state;
  by_state_[index(state)].insert(place);
  if (is_finished(state)) {
    changed.config = {};
    changed.resources = {};
  }
}

void TrialTable::retry(TrialNumber trial) {
  TrialRow& changed = row(trial);
  by_state_[index(changed.state)].erase(Place(changed.position, trial));
  changed.position = next_position_++;
  changed.state = TrialState::pending;
  by_state_[index(changed.state)].emplace(changed.position, trial);
}

std::optional<TrialNumber> TrialTable::first(TrialState state) const {
  const auto& places = by_state_[index(state)];
  if (places.empty()) return std::nullopt;
  return places.begin()->second;
}

std::vector<TrialNumber> TrialTable::all(TrialState state) const {
  std::vector<TrialNumber> trials;
  for (const auto& place : by_state_[index(state)]) trials.push_back(place.second);
  return trials;
}

std::vector<TrialNumber> TrialTable::list() const {
  std::vector<Place> places;
  places.reserve(rows_.size());
  for (const auto& part : by_state_) places.insert(places.end(), part.begin(), part.end());
  std::sort(places.begin(), places.end());
  std::vector<TrialNumber> trials;
  trials.reserve(places.size());
  for (const auto& place : places) trials.push_back(place.second);
  return trials;
}

void TrialTable::index_rows() {
  for (auto& places : by_state_) places.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i)
    by_state_[index(rows_[i].state)].emplace(rows_[i].position, static_cast<TrialNumber>(i));
}

}  // namespace mobula::internal::tune
