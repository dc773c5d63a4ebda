// Default limits on the number of executors of a node.
// Thread: any (constants).
#pragma once

#include <cstdint>

namespace mobula::internal {

// Concurrent executors that run tasks.
constexpr std::int32_t task_executors_of(std::int64_t cpus) {
  constexpr std::int64_t most_cpus = 100'000;
  const auto counted = cpus < 1 ? 1 : cpus > most_cpus ? most_cpus : cpus;
  return static_cast<std::int32_t>(4 * counted);
}
inline constexpr std::int32_t most_actor_executors = 10'000;

}  // namespace mobula::internal
