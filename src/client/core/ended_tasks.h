// What an owner remembers of tasks that have ended, for people's questions: all failed ones up to a
// bound, of the others the last, and how many there were of each name. Decides nothing. Owned by
// one ClientCore; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/queue.h"
#include "base/time.h"
#include "protocol/task_facts.h"

namespace mobula::internal::client {

struct EndedTask {
  TaskFact fact;  // `since` and the executor are empty
  std::uint32_t num_returns = 0;
  std::int64_t error_bytes = 0;
  Time at;
};

class EndedTasks {
 public:
  // Of one name: finished and failed.
  struct Counts {
    std::uint64_t finished = 0;
    std::uint64_t failed = 0;
  };

  // `task.fact.phase` is finished or failed. Beyond the bounds the oldest are forgotten.
  void add(EndedTask task);
  // Oldest first.
  const Queue<EndedTask>& finished() const { return finished_; }
  const Queue<EndedTask>& failed() const { return failed_; }
  // Since the process started. Names beyond a bound are counted under `other_names`.
  const std::map<std::string, Counts>& counts() const { return counts_; }
  static constexpr const char* other_names = "(other names)";

 private:
  static constexpr std::size_t max_finished = 1000;
  static constexpr std::size_t max_failed = 10'000;
  static constexpr std::size_t max_names = 1000;
  static constexpr std::int64_t max_error_bytes = 16 << 10;  // of one; a larger one is not kept
  static constexpr std::int64_t max_all_error_bytes = 4 << 20;

  Queue<EndedTask> finished_;
  Queue<EndedTask> failed_;
  std::int64_t error_bytes_ = 0;
  std::map<std::string, Counts> counts_;
};

}  // namespace mobula::internal::client
