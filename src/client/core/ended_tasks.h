// What an owner remembers of tasks that have ended, for people's questions: all failed ones up to a
// bound, of the others the last, and how many there were of each name. Decides nothing. Owned by
// one ClientCore; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/queue.h"
#include "base/copy_on_write.h"
#include "base/time.h"
#include "model/task.h"

namespace mobula::internal::client {

struct EndedTask {
  TaskId task;
  CopyOnWrite<CallForm> form;
  ClassId demand_class;  // of a task
  std::uint32_t attempt = 0;
  std::int32_t retries_left = 0;
  std::uint32_t preemptions = 0;
  bool cancelled = false;
  bool failed = false;
  CopyOnWrite<Payload> error;  // failed: an encoded ErrorRecord; empty where it is too large
  std::int64_t error_bytes = 0;
  Time at;
  std::optional<Duration> run_time;  // as the reply says that has ended it
  ProcessId executor{};              // executor of the last attempt; empty if it was never sent
  NodeId node{};                     // node of the executor
};

class EndedTasks {
 public:
  EndedTasks() = default;
  EndedTasks(EndedTasks&&) = default;
  EndedTasks& operator=(EndedTasks&&) = default;

  // Of one name: finished and failed.
  struct Counts {
    std::uint64_t finished = 0;
    std::uint64_t failed = 0;
  };

  // Beyond the bounds the oldest are forgotten.
  void add(EndedTask task);
  // Oldest first.
  const Queue<EndedTask>& finished() const { return finished_; }
  const Queue<EndedTask>& failed() const { return failed_; }
  // Failures since the process started.
  std::uint64_t failures() const { return failures_; }
  // Since the process started. Names beyond a bound are counted under `other_names`.
  const std::map<std::string, Counts>& counts() const { return counts_; }
  static constexpr const char* other_names = "(other names)";

 private:
  Counts& counts_of(const CopyOnWrite<CallForm>& form);

  static constexpr std::size_t max_finished = 1000;
  static constexpr std::size_t max_failed = 10'000;
  static constexpr std::size_t max_names = 1000;
  static constexpr std::int64_t max_error_bytes = 16 << 10;  // of one; a larger one is not kept
  static constexpr std::int64_t max_all_error_bytes = 4 << 20;

  Queue<EndedTask> finished_;
  Queue<EndedTask> failed_;
  std::int64_t error_bytes_ = 0;
  std::uint64_t failures_ = 0;
  std::map<std::string, Counts> counts_;
  // Where those of the last form are counted: mostly it comes again.
  CopyOnWrite<CallForm> last_form_;
  Counts* last_counts_ = nullptr;
};

}  // namespace mobula::internal::client
