// Finished tasks that are kept because their stored results can be made again when they are lost:
// how many bytes of the process they take, and which of them is the oldest. Bounded by bytes; beyond
// the bound the oldest are given up, as they are the likeliest to be needed no more. Decides only
// which: ClientCore owns the rows and forgets them. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/table.h"

namespace mobula::internal::client {

class Lineage {
 public:
  explicit Lineage(std::int64_t max_bytes) : max_bytes_(max_bytes) {}

  void add(TaskId task, std::int64_t bytes);
  // It runs again, or is forgotten. Without effect if it is not kept.
  void remove(TaskId task);
  std::int64_t bytes() const { return bytes_; }
  // The oldest, while they take more than the bound.
  std::optional<TaskId> beyond_bound() const;
  // True once: people are told that tasks are given up, not of each.
  bool warn_now() { return !std::exchange(warned_, true); }

 private:
  std::int64_t max_bytes_;
  Table<TaskId, std::int64_t> tasks_;  // with their bytes, oldest first
  std::int64_t bytes_ = 0;
  bool warned_ = false;
};

}  // namespace mobula::internal::client
