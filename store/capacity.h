// Default and limits for the capacity of a node's object store.
// Thread: any (pure).
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"

namespace mobula::internal {

struct StoreMemory {
  // Memory available to new processes (MemAvailable).
  std::uint64_t available_bytes = 0;
  // Unused part of the limit of the memory cgroup; nullopt without a limit.
  std::optional<std::uint64_t> cgroup_headroom_bytes{};
};

// Returns 30 % of the smaller value, at most 200 GB, rounded down to pages of 4 KiB. /dev/shm is no
// limit, because slabs are not files in it. The store must reject objects before the kernel
// enforces the cgroup's limit, because the kernel sends SIGKILL instead of an error.
std::uint64_t default_store_capacity(const StoreMemory& memory);

// Checks a configured capacity: at least 1 MiB, at most the memory of the machine or cgroup
// (`total_bytes`). Errors: invalid_argument.
Result<std::uint64_t> given_store_capacity(std::uint64_t bytes, std::uint64_t total_bytes);

}  // namespace mobula::internal
