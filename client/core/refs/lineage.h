// Accounts the finished tasks that are kept because their stored results may have to be recomputed.
// Beyond a byte limit the oldest are given up, because they are the least likely to be needed.
// Thread: owner (one ClientCore). Not: task rows, which Tasks owns and erases.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/containers/table.h"
#include "client/core/refs/object_refs.h"

namespace mobula::internal::client {

class Lineage {
 public:
  Lineage(std::int64_t max_bytes, const ObjectRefs& objects)
      : max_bytes_(max_bytes), objects_(objects) {}

  void add(TaskId task, const CallRecord& call);
  // The task runs again, or is erased. No effect if it is not kept.
  void remove(TaskId task);
  std::int64_t bytes() const { return bytes_; }
  // The oldest task, while the limit is exceeded.
  std::optional<TaskId> beyond_bound() const;
  // True once: the warning is printed once, not for each task.
  bool warn_now() { return !std::exchange(warned_, true); }

 private:
  std::int64_t bytes_of(const CallRecord& call) const;

  std::int64_t max_bytes_;
  const ObjectRefs& objects_;
  Table<TaskId, std::int64_t> tasks_;  // bytes of each task, oldest first
  std::int64_t bytes_ = 0;
  bool warned_ = false;
};

}  // namespace mobula::internal::client
