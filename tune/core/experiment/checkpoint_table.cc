#include "tune/core/experiment/checkpoint_table.h"

#include <algorithm>
#include <cstddef>

namespace mobula::internal::tune {

CheckpointNumber CheckpointTable::add(CheckpointRow row) {
  const CheckpointNumber number = ++last_;
  by_trial_[row.trial].insert(number);
  rows_.emplace(number, std::move(row));
  return number;
}

const CheckpointRow* CheckpointTable::find(CheckpointNumber number) const {
  const auto found = rows_.find(number);
  return found == rows_.end() ? nullptr : &found->second;
}

std::vector<std::pair<CheckpointNumber, std::string>> CheckpointTable::prune(
    TrialNumber trial, const std::set<CheckpointNumber>& in_use) {
  std::vector<std::pair<CheckpointNumber, std::string>> dropped;
  const auto own = by_trial_.find(trial);
  if (!rules_.num_to_keep || own == by_trial_.end()) return dropped;
  std::vector<CheckpointNumber> order(own->second.begin(), own->second.end());
  // Worst first; without scores the oldest first.
  const double sign = sign_of(rules_.score_order);
  std::stable_sort(order.begin(), order.end(), [&](CheckpointNumber a, CheckpointNumber b) {
    const auto& left = rows_.at(a).score;
    const auto& right = rows_.at(b).score;
    if (!left || !right) return !left && right;
    return sign * *left < sign * *right;
  });
  const CheckpointNumber newest = *own->second.rbegin();
  const auto keep = static_cast<std::size_t>(std::max(*rules_.num_to_keep, 1));
  std::size_t present = order.size();
  for (const CheckpointNumber number : order) {
    if (present <= keep) break;
    if (number == newest || in_use.contains(number)) continue;
    dropped.emplace_back(number, rows_.at(number).directory);
    rows_.erase(number);
    own->second.erase(number);
    --present;
  }
  return dropped;
}

}  // namespace mobula::internal::tune
