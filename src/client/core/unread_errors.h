// Failures of this process's tasks that no code has read: reported once when the driver ends, as Ray does.
// Thread: owner (one ClientCore). Not: cancelled tasks, actors that died, refs that others hold.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/id.h"

namespace mobula::internal::client {

class UnreadErrors {
 public:
  // Beyond this number failures are only counted, and count as unread for good.
  static constexpr std::size_t max_kept = 1000;
  static constexpr std::size_t max_text_bytes = 512;
  static constexpr std::size_t max_reported = 10;

  void add(TaskId task, std::string text);
  // Code has read the failure, or it goes to another process or into another failure.
  void read(TaskId task) { texts_.erase(task); }
  bool contains(TaskId task) const { return texts_.contains(task); }
  // For the user; empty if everything was read.
  std::string report() const;

 private:
  std::map<TaskId, std::string> texts_;
  std::uint64_t further_ = 0;
};

}  // namespace mobula::internal::client
