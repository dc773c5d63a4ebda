#include "store/capacity.h"

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

}  // namespace mobula::internal
