// How much memory a node's object store may take when nobody said. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"

namespace mobula::internal {

struct StoreMemory {
  // What the machine has free for new use (MemAvailable).
  std::uint64_t available_bytes = 0;
  // What the memory cgroup still grants beyond its present use, if there is one with a limit.
  std::optional<std::uint64_t> cgroup_headroom_bytes{};
};

// 30 % of the smaller of both, but no more than 200 GB, in whole pages of 4 KiB. /dev/shm sets no
// limit, because slabs are no files of it. The store refuses beyond its capacity, and
// must do so before the kernel would kill: over a cgroup's limit it sends SIGKILL, not an error.
std::uint64_t default_store_capacity(const StoreMemory& memory);

// What somebody has asked for: at least 1 MiB, and no more than the machine or the cgroup has in all (`total_bytes`);
// else invalid_argument.
Result<std::uint64_t> given_store_capacity(std::uint64_t bytes, std::uint64_t total_bytes);

}  // namespace mobula::internal
