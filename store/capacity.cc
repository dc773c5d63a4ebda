#include "store/capacity.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal {

std::uint64_t default_store_capacity(const StoreMemory& memory) {
  constexpr std::uint64_t page_bytes = 4096;
  const std::uint64_t usable = std::min(
      memory.available_bytes, memory.cgroup_headroom_bytes.value_or(memory.available_bytes));
  constexpr std::uint64_t most_bytes = 200'000'000'000;
  const std::uint64_t share = std::min(usable / 10 * 3 + usable % 10 * 3 / 10, most_bytes);
  return share / page_bytes * page_bytes;
}

Result<std::uint64_t> given_store_capacity(std::uint64_t bytes, std::uint64_t total_bytes) {
  constexpr std::uint64_t least_bytes = std::uint64_t{1} << 20;
  if (bytes < least_bytes) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("--object-store-memory: {} bytes are below the minimum; give 1MiB or more, "
                    "such as 2GiB",
                    bytes));
  }
  if (bytes <= total_bytes) return bytes;
  return failure(
      ErrorCode::invalid_argument,
      fmt::format("--object-store-memory: {:.1f} GiB are more than the {:.1f} GiB that this "
                  "machine (or its memory "
                  "cgroup) has; give less, and let objects beyond it be spilled to disk",
                  static_cast<double>(bytes) / 0x1p30, static_cast<double>(total_bytes) / 0x1p30));
}

}  // namespace mobula::internal
