// Memory use of this node against the nearest limit: the machine, the memory control groups of the
// agent, or the limit for all executors together. A sample reads a few files that stay open.
// Executors are inspected only if the use exceeds the threshold, or if they have a limit.
// Thread: owner. Units: bytes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "device/host.h"
#include "worker/core/worker_events.h"

namespace mobula::internal::worker {

struct MemoryWatchOptions {
  HostPaths paths{};
  std::int64_t threshold_permille = 950;  // share of a limit beyond which samples are reported
  std::optional<std::int64_t> executors_limit{};  // limit for all executors together, in bytes
};

struct WatchedExecutor {
  SlotId slot;
  std::uint32_t generation = 0;
  pid_t pid = 0;
};

class MemoryWatch {
 public:
  explicit MemoryWatch(MemoryWatchOptions options);

  // Takes a sample. Returns it if the use exceeds the threshold, and once afterwards. `executors`
  // returns the running executors; it is called only if they are inspected.
  std::optional<MemorySampled> sample(
      const std::function<std::vector<WatchedExecutor>()>& executors);

  // The use before a process ended, without executors: the group that reached its limit since the
  // sample before the last, at its full limit; otherwise the sample of the last two that is nearer
  // to its limit, reported or not. Without samples the limit is 0.
  MemorySampled lately() const;

  // Memory that the end of the process would free: its resident pages, without pages of files and
  // of the store. Empty if the process does not exist, or is a zombie.
  std::optional<std::int64_t> own_bytes(pid_t pid) const;

 private:
  struct Group {
    std::string path;
    Fd limit, use, stat, failures;
    std::string droppable, also_droppable;  // keys of inactive and active file pages
    std::string failures_key;
    std::int64_t failures_last = 0, failures_before = 0;  // at the last two samples
  };

  void consider(MemorySampled& nearest, std::string of, std::int64_t used,
                std::int64_t limit) const;
  void sample_machine(MemorySampled& nearest) const;
  void sample_group(const Group& group, MemorySampled& nearest) const;
  static std::int64_t failures_of(const Group& group);
  void weigh(MemorySampled& sample, const std::vector<WatchedExecutor>& executors) const;

  const MemoryWatchOptions options_;
  const std::int64_t page_bytes_;
  Fd meminfo_;
  std::vector<Group> groups_;
  MemorySampled last_, before_;  // samples without executors
  bool reported_ = false;
};

}  // namespace mobula::internal::worker
