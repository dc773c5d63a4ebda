// CPU and memory use of the machine and of the node's executors with their descendants, read from
// /proc on request. Within `answers_serve` requests get the previous result. If a kernel lists no
// children, descendants are not counted; if a limit is reached, the reply states it.
// Thread: owner.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "device/host.h"
#include "protocol/messages/node_queries.h"
#include "worker/core/slots/memory_event.h"
#include "worker/process/watch/memory_watch.h"

namespace mobula::internal::worker {

class UsageWatch {
 public:
  static constexpr Duration answers_serve = std::chrono::milliseconds(400);
  static constexpr std::size_t max_executors = 1024;       // inspected executors per reply
  static constexpr std::size_t max_below = 256;            // inspected descendants per executor
  static constexpr std::size_t max_children_reads = 8192;  // per reply, one per thread

  using Executors = std::vector<std::pair<WatchedExecutor, std::string>>;  // with names of calls

  explicit UsageWatch(HostPaths paths = {});

  // `executors` is called only for a new sample. The result has no `request` and no store.
  template <class Sample>
  const UsageReply& sample(Time now, Sample&& executors) {
    if (last_ && now - sampled_ < answers_serve) return *last_;
    sampled_ = now;
    return sample_now(now, executors());
  }
  // A sample of the machine and its GPUs, without executors.
  UsageReply node_alone(Time now) const;
  // Stores the latest sample of the GPUs.
  void took(const GpuMemorySampled& sample) { gpus_ = sample; }

 private:
  const UsageReply& sample_now(Time now, const Executors& executors);
  void sample_machine(UsageReply& reply) const;
  bool add(pid_t pid, ExecutorUsage& usage) const;
  void add_below(pid_t pid, ExecutorUsage& usage, std::size_t& reads_left) const;
  // False: some processes were left out.
  bool append_children(pid_t pid, std::vector<pid_t>& processes, std::size_t& reads_left) const;

  const HostPaths paths_;
  const std::int64_t page_bytes_;
  const std::int64_t ticks_per_second_;
  GpuMemorySampled gpus_;
  std::optional<UsageReply> last_;
  Time sampled_{};
};

}  // namespace mobula::internal::worker
