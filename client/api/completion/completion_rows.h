// Refs of one CompletionQueue: their tokens, which of them are ready, and the order in which they
// became ready. Every operation takes constant time, except the first `find`, which indexes all
// tokens. Queues whose tokens are only taken have no index.
// Thread: owner (the lock of the queue).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <mobula/detail/raw_id.h>

#include "base/containers/table.h"

namespace mobula::detail {

class CompletionRows {
 public:
  // Identifies one added ref. A number is never used again.
  using Number = std::uint64_t;
  struct Row {
    Number number = 0;
    RawId object = {};
    bool ready = false;
  };

  Number add(std::uint64_t token, RawId object);
  // The ref with this number became ready. Unknown numbers are ignored.
  void set_ready(Number number);
  // Removes the tokens that became ready first, and returns their number.
  std::size_t take(std::span<std::uint64_t> tokens);
  // One row with this token.
  std::optional<Row> find(std::uint64_t token);
  // Unknown numbers are ignored.
  void erase(Number number);

  std::size_t size() const { return size_; }
  bool has_ready() const { return first_ready_ != none; }
  // Objects of the rows that are not ready.
  std::vector<RawId> waiting() const;

 private:
  using Slot = std::uint32_t;
  static constexpr Slot none = 0xffff'ffff;

  struct Entry {
    std::uint64_t token = 0;
    RawId object = {};
    std::uint32_t uses = 0;  // count of rows in this slot so far; high half of the number
    bool used = false;
    bool ready = false;
    Slot before = none, after = none;              // rows with an equal token
    Slot ready_before = none, ready_after = none;  // ready rows, oldest first
  };

  Number number_of(Slot slot) const { return std::uint64_t{entries_[slot].uses} << 32 | slot; }
  Entry* find_entry(Number number);
  void remove(Slot slot);
  void unlist_ready(Entry& entry);
  void index(Slot slot);
  void unindex(const Entry& entry);

  std::vector<Entry> entries_;
  std::vector<Slot> free_;
  bool indexed_ = false;
  internal::Table<std::uint64_t, Slot> by_token_;  // if indexed: one row of each token
  Slot first_ready_ = none, last_ready_ = none;
  std::size_t size_ = 0;
};

}  // namespace mobula::detail
