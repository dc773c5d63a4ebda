// Processor time of the calling thread, which excludes other load.
// Thread: any.
#pragma once

#include <ctime>

namespace mobula::internal {

inline double thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}
inline double thread_cpu_us() { return thread_cpu_ns() / 1e3; }
inline double thread_cpu_ms() { return thread_cpu_ns() / 1e6; }

}  // namespace mobula::internal
