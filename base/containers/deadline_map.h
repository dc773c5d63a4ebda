// Deadlines of keys, in order of time. Each change takes logarithmic time, and the earliest
// deadline is read in constant time. For few changes; DeadlineHeap suits rows that change often.
// Thread: owner.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/time.h"

namespace mobula::internal {

template <class Key>
class DeadlineMap {
 public:
  // Replaces the deadline of the key.
  void set(const Key& key, Time at) {
    const auto [known, fresh] = deadlines_.try_emplace(key, at);
    if (!fresh) ordered_.erase({known->second, key});
    known->second = at;
    ordered_.insert({at, key});
  }
  // Returns whether the key had a deadline.
  bool erase(const Key& key) {
    const auto at = deadlines_.find(key);
    if (at == deadlines_.end()) return false;
    ordered_.erase({at->second, key});
    deadlines_.erase(at);
    return true;
  }
  // Removes and returns the keys whose deadlines have passed, the earliest first.
  std::vector<Key> take_due(Time now) {
    std::vector<Key> due;
    while (!ordered_.empty() && ordered_.begin()->first <= now) {
      due.push_back(ordered_.begin()->second);
      deadlines_.erase(due.back());
      ordered_.erase(ordered_.begin());
    }
    return due;
  }

  bool contains(const Key& key) const { return deadlines_.contains(key); }
  std::size_t size() const { return deadlines_.size(); }
  std::optional<Time> earliest() const {
    return ordered_.empty() ? std::nullopt : std::optional(ordered_.begin()->first);
  }

 private:
  std::map<Key, Time> deadlines_;
  std::set<std::pair<Time, Key>> ordered_;
};

}  // namespace mobula::internal
