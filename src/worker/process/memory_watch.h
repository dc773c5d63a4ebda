// How much of the memory this node lives in is in use: of the machine, of the memory control groups
// the agent is in, and of what its executors may use together, whichever limit is nearest. Looking
// costs a few reads of files that stay open; what the executors have is looked at only where it
// matters. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "device/host.h"
#include "worker/core/worker_event.h"

namespace mobula::internal::worker {

struct MemoryWatchOptions {
  HostPaths paths{};
  std::int64_t threshold_permille = 950;       // of a limit: beyond it there is something to tell
  std::optional<std::int64_t> executors_limit{};  // bytes that the executors may use together
};

struct WatchedExecutor {
  SlotId slot;
  std::uint32_t generation = 0;
  pid_t pid = 0;
};

class MemoryWatch {
 public:
  explicit MemoryWatch(MemoryWatchOptions options);

  // What is to be told: each time that more than the threshold is in use, and the first time that no
  // longer is. `executors` are those that run; it is called only if they matter.
  std::optional<MemorySampled> look(const std::function<std::vector<WatchedExecutor>()>& executors);

  // What was in use before something ended just now, without executors: of a group that has since the
  // look before the last reached its limit and could not have more, all of it; else the nearer to its
  // limit of the last two looks, told or not. A limit of 0 without any.
  MemorySampled lately() const;

  // What would be free without the process: its resident pages, but for those of files and the store.
  // Nothing where there is none, or it has ended and nobody has taken note of that yet.
  std::optional<std::int64_t> own_bytes(pid_t pid) const;

 private:
  struct Group {
    std::string path;
    Fd limit, use, stat, failures;
    std::string droppable, also_droppable;  // pages of files, not used lately and used lately
    std::string failures_key;
    std::int64_t failures_last = 0, failures_before = 0;  // at the last two looks
  };

  void consider(MemorySampled& nearest, std::string of, std::int64_t used, std::int64_t limit) const;
  void look_at_machine(MemorySampled& nearest) const;
  void look_at(const Group& group, MemorySampled& nearest) const;
  static std::int64_t failures_of(const Group& group);
  void weigh(MemorySampled& sample, const std::vector<WatchedExecutor>& executors) const;

  const MemoryWatchOptions options_;
  const std::int64_t page_bytes_;
  Fd meminfo_;
  std::vector<Group> groups_;
  MemorySampled last_, before_;  // without executors
  bool told_ = false;
};

}  // namespace mobula::internal::worker
