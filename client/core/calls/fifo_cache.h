// FIFO cache of state that late messages may still refer to. Beyond `most` entries the oldest is
// evicted.
// Thread: owner.
#pragma once

#include <cstddef>
#include <utility>

#include "base/containers/table.h"

namespace mobula::internal::client {

template <class Key, class Row>
class FifoCache {
 public:
  static constexpr std::size_t most = 1024;

  void remember(const Key& key, Row row) {
    *rows_.ensure(key).first = std::move(row);
    if (rows_.size() > most) rows_.erase(rows_.begin());
  }
  Row* find(const Key& key) { return rows_.find(key); }
  bool contains(const Key& key) const { return rows_.contains(key); }
  void forget(const Key& key) { rows_.erase(key); }
  // Oldest first.
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }

 private:
  Table<Key, Row> rows_;
};

}  // namespace mobula::internal::client
