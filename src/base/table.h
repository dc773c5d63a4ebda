// A table of rows by id that iterates in order of insertion, so that a core behaves alike in every
// run whatever the ids hash to. Rows keep their address until erased. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/id.h"

namespace mobula::internal {

struct RowHash {
  template <class Tag>
  std::size_t operator()(const Id<Tag>& id) const {
    return static_cast<std::size_t>(id.bits().low ^ (id.bits().high * 0x9e3779b97f4a7c15ULL));
  }
  template <class A, class B>
  std::size_t operator()(const std::pair<A, B>& key) const {
    return (*this)(key.first) * 0x9e3779b97f4a7c15ULL ^ (*this)(key.second);
  }
  std::size_t operator()(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15ULL);
  }
};

template <class Key, class Row>
class Table {
 public:
  using Rows = std::list<std::pair<const Key, Row>>;
  using iterator = typename Rows::iterator;
  using const_iterator = typename Rows::const_iterator;

  // The row of `key`, or null.
  Row* find(const Key& key) {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : &at->second->second;
  }
  const Row* find(const Key& key) const {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : &at->second->second;
  }
  bool contains(const Key& key) const { return index_.contains(key); }

  Row& at(const Key& key) {
    Row* row = find(key);
    MOBULA_CHECK(row != nullptr, "no such row");
    return *row;
  }
  const Row& at(const Key& key) const {
    const Row* row = find(key);
    MOBULA_CHECK(row != nullptr, "no such row");
    return *row;
  }

  // Adds a row unless there is one; returns it and whether it is a new one.
  std::pair<Row*, bool> insert(const Key& key, Row row) {
    if (Row* there = find(key)) return {there, false};
    rows_.emplace_back(key, std::move(row));
    index_.emplace(key, std::prev(rows_.end()));
    return {&rows_.back().second, true};
  }
  Row& operator[](const Key& key) { return *insert(key, Row{}).first; }

  bool erase(const Key& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) return false;
    rows_.erase(at->second);
    index_.erase(at);
    return true;
  }
  iterator erase(iterator at) {
    index_.erase(at->first);
    return rows_.erase(at);
  }
  void clear() {
    index_.clear();
    rows_.clear();
  }

  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  iterator begin() { return rows_.begin(); }
  iterator end() { return rows_.end(); }
  const_iterator begin() const { return rows_.begin(); }
  const_iterator end() const { return rows_.end(); }

 private:
  Rows rows_;
  std::unordered_map<Key, iterator, RowHash> index_;
};

}  // namespace mobula::internal
