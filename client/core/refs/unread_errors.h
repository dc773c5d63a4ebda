// Failures of this process's tasks that no code has read. They are reported once when the driver
// ends, as in Ray.
// Thread: owner (one ClientCore).
// Not: cancelled tasks, dead actors, refs held by other processes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/id.h"

namespace mobula::internal::client {

class UnreadErrors {
 public:
  // Failures beyond this limit are only counted, as unread.
  static constexpr std::size_t max_kept = 1000;
  static constexpr std::size_t max_text_bytes = 512;
  static constexpr std::size_t max_reported = 10;

  void add(TaskId task, std::string text);
  // Code has read the failure, or it is passed to another process or becomes the cause of another
  // failure.
  void read(TaskId task) { texts_.erase(task); }
  bool contains(TaskId task) const { return texts_.contains(task); }
  // Text for the user; empty if all failures were read.
  std::string report() const;

 private:
  std::map<TaskId, std::string> texts_;
  std::uint64_t further_ = 0;
};

}  // namespace mobula::internal::client
