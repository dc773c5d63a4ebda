#include "bench/measure/pinning.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "bench/measure/child.h"

namespace mobula::bench {
namespace {

cpu_set_t only(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(processor), &set);
  return set;
}

}  // namespace

std::vector<int> allowed_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) refused("sched_getaffinity");
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<std::size_t>(i), &set)) processors.push_back(i);
  }
  return processors;
}

void bind_all_threads(int processor) {
  const cpu_set_t set = only(processor);
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t id = std::atoi(thread.path().filename().c_str());
    if (::sched_setaffinity(id, sizeof set, &set) != 0 && errno != ESRCH)
      refused("sched_setaffinity");
  }
}

Pinned::Pinned(int processor) {
  const cpu_set_t set = only(processor);
  if (::sched_getaffinity(0, sizeof before_, &before_) != 0) refused("sched_getaffinity");
  if (::sched_setaffinity(0, sizeof set, &set) != 0) refused("sched_setaffinity");
}

Pinned::~Pinned() { ::sched_setaffinity(0, sizeof before_, &before_); }

}  // namespace mobula::bench
