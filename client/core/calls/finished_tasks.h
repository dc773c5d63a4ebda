// Log of finished tasks of an owner, for queries by users: the latest failures, the latest
// successes, and counts by name.
// Thread: owner (one ClientCore). Not: decisions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/containers/copy_on_write.h"
#include "base/containers/queue.h"
#include "base/model/task.h"
#include "base/time.h"

namespace mobula::internal::client {

struct EndedTask {
  TaskId task;
  CopyOnWrite<CallForm> form;
  ClassId demand_class;  // set for tasks, not for actor calls
  std::uint32_t attempt = 0;
  std::int32_t retries_left = 0;
  std::uint32_t preemptions = 0;
  bool cancelled = false;
  bool failed = false;
  CopyOnWrite<Payload> error;  // if failed: an encoded ErrorRecord; empty if it is too large
  std::int64_t error_bytes = 0;
  Time at;
  std::optional<Duration> run_time;  // taken from the reply that ended the task
  ProcessId executor{};              // executor of the last attempt; empty if it was never sent
  NodeId node{};                     // node of the executor
};

class FinishedTasks {
 public:
  FinishedTasks() = default;
  FinishedTasks(FinishedTasks&&) = default;
  FinishedTasks& operator=(FinishedTasks&&) = default;

  // Finished and failed tasks of one name.
  struct Counts {
    std::uint64_t finished = 0;
    std::uint64_t failed = 0;
  };

  // Evicts the oldest entry beyond a limit.
  void add(EndedTask task);
  // Oldest first.
  const Queue<EndedTask>& finished() const { return finished_; }
  const Queue<EndedTask>& failed() const { return failed_; }
  // Failures since the process started.
  std::uint64_t failures() const { return failures_; }
  // Totals since the process started. Names beyond a limit are counted under `other_names`.
  const std::map<std::string, Counts>& counts() const { return counts_; }
  static constexpr const char* other_names = "(other names)";

 private:
  Counts& counts_of(const CopyOnWrite<CallForm>& form);

  static constexpr std::size_t max_finished = 1000;
  static constexpr std::size_t max_failed = 10'000;
  static constexpr std::size_t max_names = 1000;
  // limit for one error; a larger one is not kept
  static constexpr std::int64_t max_error_bytes = 16 << 10;
  static constexpr std::int64_t max_all_error_bytes = 4 << 20;

  Queue<EndedTask> finished_;
  Queue<EndedTask> failed_;
  std::int64_t error_bytes_ = 0;
  std::uint64_t failures_ = 0;
  std::map<std::string, Counts> counts_;
  // Counter of the latest form, because successive tasks mostly share it.
  CopyOnWrite<CallForm> last_form_;
  Counts* last_counts_ = nullptr;
};

}  // namespace mobula::internal::client
