// Finds the earliest deadline of many rows that change often and rarely come due. A change takes
// logarithmic time and allocates no memory. A deadline that moves later or ends leaves a stale
// entry; `settle` removes stale entries in front.
// Thread: owner. Not: the rows, which belong to the caller and keep the time of their entry
// (`armed`).
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace mobula::internal {

template <class Key>
class DeadlineHeap {
 public:
  // The deadline of a row was set or may be earlier than before.
  void watch(const Key& key, std::optional<Time> deadline, std::optional<Time>& armed) {
    if (!deadline || (armed && *armed <= *deadline)) return;
    armed = deadline;
    entries_.emplace_back(*deadline, key);
    std::push_heap(entries_.begin(), entries_.end(), std::greater<>());
  }

  // `find(key)` returns a pointer to the row, or null; `deadline(row)` returns its deadline.
  // Afterwards `earliest` is exact.
  template <class Find, class Deadline>
  void settle(Find find, Deadline deadline) {
    while (!entries_.empty()) {
      const auto [at, key] = entries_.front();
      auto* row = find(key);
      const bool current = row != nullptr && row->armed == at;
      const auto due = current ? deadline(*row) : std::nullopt;
      if (current && due == at) return;
      if (due && entries_.size() == 1) {
        entries_.front().first = *due;
        row->armed = due;
        return;
      }
      remove_first();
      if (!current) continue;
      row->armed.reset();
      watch(key, due, row->armed);
    }
  }

  // Returns the keys of rows with a due entry and disarms them. The caller watches them again.
  template <class Find>
  void take_due(Time now, Find find, std::vector<Key>& due) {
    while (!entries_.empty() && entries_.front().first <= now) {
      const auto [at, key] = entries_.front();
      remove_first();
      auto* row = find(key);
      if (row == nullptr || row->armed != at) continue;
      row->armed.reset();
      due.push_back(key);
    }
  }

  std::optional<Time> earliest() const {
    return entries_.empty() ? std::nullopt : std::optional(entries_.front().first);
  }

 private:
  void remove_first() {
    std::pop_heap(entries_.begin(), entries_.end(), std::greater<>());
    entries_.pop_back();
  }

  std::vector<std::pair<Time, Key>> entries_;  // a heap with the earliest entry in front
};

}  // namespace mobula::internal
