// An ordered map for tables with frequent searches and changes. Entries are contiguous in runs of
// at most 1 KiB, so a search touches few cache lines and an entry takes little more than its own
// bytes. A change moves entries of a run and invalidates iterators and references.
// Thread: owner.
// Not: types that are not trivially copyable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace mobula::internal {

template <class Key, class Value>
class OrderedRuns {
 public:
  struct Entry {
    Key first;
    Value second;
  };

 private:
  struct Run {
    Key first;  // not above any key of this run, and above all keys of the previous run
    std::vector<Entry> entries;
  };
  using Runs = std::vector<Run>;  // no run is empty

 public:
  static_assert(std::is_trivially_copyable_v<Entry>);

  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    using pointer = const Entry*;
    using reference = const Entry&;

    const_iterator() = default;
    reference operator*() const { return (*runs_)[run_].entries[at_]; }
    pointer operator->() const { return &**this; }
    const_iterator& operator++() {
      if (++at_ == (*runs_)[run_].entries.size()) {
        ++run_;
        at_ = 0;
      }
      return *this;
    }
    const_iterator operator++(int) {
      const auto before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const const_iterator& a, const const_iterator& b) {
      return a.run_ == b.run_ && a.at_ == b.at_;
    }

   private:
    friend class OrderedRuns;
    const_iterator(const OrderedRuns& of, std::size_t run, std::size_t at)
        : runs_(&of.runs_), run_(run), at_(at) {
      // The end of a run is the begin of the next.
      if (run_ < runs_->size() && at_ == (*runs_)[run_].entries.size()) {
        ++run_;
        at_ = 0;
      }
    }
    const Runs* runs_ = nullptr;
    std::size_t run_ = 0, at_ = 0;
  };
  using iterator = const_iterator;

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const_iterator begin() const { return {*this, 0, 0}; }
  const_iterator end() const { return {*this, runs_.size(), 0}; }
  // The first entry with a key not less than `key`; upper_bound: greater than `key`.
  const_iterator lower_bound(const Key& key) const {
    if (empty()) return end();
    const auto run = run_of(key);
    return {*this, run, position(runs_[run], key)};
  }
  const_iterator upper_bound(const Key& key) const {
    auto at = lower_bound(key);
    if (at != end() && at->first == key) ++at;
    return at;
  }

  // `key` must be absent.
  void insert(const Key& key, const Value& value) {
    if (runs_.empty()) runs_.push_back({key, {}});
    auto run = run_of(key);
    auto at = position(runs_[run], key);
    if (runs_[run].entries.size() == most_in_run) {
      // Appends in key order fill runs completely.
      const bool appends = run + 1 == runs_.size() && at == most_in_run;
      const auto cut = appends ? most_in_run : most_in_run / 2;
      split(run, cut, appends ? key : runs_[run].entries[cut].first);
      if (at >= cut) {
        ++run;
        at -= cut;
      }
    }
    auto& [first, entries] = runs_[run];
    if (key < first) first = key;
    if (entries.size() == entries.capacity()) {
      entries.reserve(std::min(most_in_run, std::max<std::size_t>(2 * entries.size(), 2)));
    }
    entries.insert(iterator_at(entries, at), Entry{key, value});
    ++size_;
  }
  // Returns false if `key` is absent.
  bool erase(const Key& key) {
    if (empty()) return false;
    const auto run = run_of(key);
    auto& entries = runs_[run].entries;
    const auto at = position(runs_[run], key);
    if (at == entries.size() || entries[at].first != key) return false;
    entries.erase(iterator_at(entries, at));
    --size_;
    if (entries.empty()) {
      runs_.erase(iterator_at(runs_, run));
      return true;
    }
    join_next(run);
    if (run > 0) join_next(run - 1);
    return true;
  }
  // Changes the key of the entry `from`, which must exist, to `to`, which must be absent.
  void move(const Key& from, const Key& to) {
    MOBULA_CHECK(!empty(), "an entry that moves is there");
    const auto run = run_of(from);
    auto& entries = runs_[run].entries;
    const auto old_at = position(runs_[run], from);
    MOBULA_CHECK(old_at < entries.size() && entries[old_at].first == from,
                 "an entry that moves is there");
    if (run_of(to) != run) {
      const Value value = entries[old_at].second;
      erase(from);
      return insert(to, value);
    }
    const auto new_at = position(runs_[run], to);
    const Entry moved{to, entries[old_at].second};
    if (new_at > old_at) {
      std::move(iterator_at(entries, old_at + 1), iterator_at(entries, new_at),
                iterator_at(entries, old_at));
      entries[new_at - 1] = moved;
    } else {
      std::move_backward(iterator_at(entries, new_at), iterator_at(entries, old_at),
                         iterator_at(entries, old_at + 1));
      entries[new_at] = moved;
    }
    if (to < runs_[run].first) runs_[run].first = to;
  }

 private:
  static constexpr std::size_t most_in_run = std::max<std::size_t>(1000 / sizeof(Entry), 8);

  template <class Row>
  static auto iterator_at(std::vector<Row>& rows, std::size_t at) {
    return rows.begin() + static_cast<std::ptrdiff_t>(at);
  }
  // The run that contains `key` or would contain it.
  std::size_t run_of(const Key& key) const {
    const auto after = std::ranges::upper_bound(runs_, key, {}, &Run::first);
    return after == runs_.begin() ? 0 : static_cast<std::size_t>(after - runs_.begin()) - 1;
  }
  static std::size_t position(const Run& run, const Key& key) {
    const auto at = std::ranges::lower_bound(run.entries, key, {}, &Entry::first);
    return static_cast<std::size_t>(at - run.entries.begin());
  }
  // Moves the entries from `cut` on into a new run that starts at `first`.
  void split(std::size_t run, std::size_t cut, Key first) {
    auto& entries = runs_[run].entries;
    Run second{first, {iterator_at(entries, cut), entries.end()}};
    entries.erase(iterator_at(entries, cut), entries.end());
    runs_.insert(iterator_at(runs_, run + 1), std::move(second));
  }
  // Merges a run with the next one if both are small.
  void join_next(std::size_t run) {
    if (run + 1 == runs_.size()) return;
    auto& entries = runs_[run].entries;
    const auto& next = runs_[run + 1].entries;
    if (entries.size() + next.size() > most_in_run / 2) return;
    entries.insert(entries.end(), next.begin(), next.end());
    runs_.erase(iterator_at(runs_, run + 1));
  }

  Runs runs_;
  std::size_t size_ = 0;
};

}  // namespace mobula::internal
