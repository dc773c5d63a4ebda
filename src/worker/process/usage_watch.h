// How busy the machine and the node's executors are, each with the processes below it, read from /proc when somebody
// asks, and no more often than `answers_serve`: who asks in between is told the same. Costs nothing while nobody asks.
// Where a kernel lists no children, what runs below an executor is not counted; where there is more than is looked at,
// the answer says so. One thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "device/host.h"
#include "protocol/node_questions.h"
#include "worker/core/memory_event.h"
#include "worker/process/memory_watch.h"

namespace mobula::internal::worker {

class UsageWatch {
 public:
  static constexpr Duration answers_serve = std::chrono::milliseconds(400);
  static constexpr std::size_t max_executors = 1024;  // that are looked at, for an answer
  static constexpr std::size_t max_below = 256;       // processes below each of them
  static constexpr std::size_t max_children_reads = 8192;  // of lists of children (one a thread), for an answer

  using Executors = std::vector<std::pair<WatchedExecutor, std::string>>;  // with what they run

  explicit UsageWatch(HostPaths paths = {});

  // `executors` says who there is, and is called only if they are looked at. Without `request` and store.
  template <class Look>
  const UsageTold& look(Time now, Look&& executors) {
    if (last_ && now - looked_ < answers_serve) return *last_;
    looked_ = now;
    return look_now(now, executors());
  }
  // The last look at the GPUs.
  void took(const GpuMemorySampled& sample) { gpus_ = sample; }

 private:
  const UsageTold& look_now(Time now, const Executors& executors);
  void look_at_machine(UsageTold& told) const;
  bool add(pid_t pid, ExecutorUsage& usage) const;
  void add_below(pid_t pid, ExecutorUsage& usage, std::size_t& reads_left) const;
  // False: some were left out.
  bool append_children(pid_t pid, std::vector<pid_t>& processes, std::size_t& reads_left) const;

  const HostPaths paths_;
  const std::int64_t page_bytes_;
  const std::int64_t ticks_per_second_;
  GpuMemorySampled gpus_;
  std::optional<UsageTold> last_;
  Time looked_{};
};

}  // namespace mobula::internal::worker
