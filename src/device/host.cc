#include "device/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "device/cgroup.h"

namespace mobula::internal {
namespace {

unsigned online_cpus() {
  const long count = ::sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<unsigned>(count) : 1;
}

// The kernel's mask may be longer than cpu_set_t: the buffer grows until it fits.
unsigned cpus_of_affinity(unsigned fallback) {
  static constexpr std::size_t bits_per_set = 8 * sizeof(cpu_set_t);
  for (std::size_t sets = 1; sets <= 64; sets *= 2) {
    std::vector<cpu_set_t> mask(sets);
    const std::size_t bytes = sets * bits_per_set / 8;
    if (::sched_getaffinity(0, bytes, mask.data()) == 0) {
      return static_cast<unsigned>(CPU_COUNT_S(bytes, mask.data()));
    }
  }
  return fallback;
}

}  // namespace

unsigned HostCpus::usable() const {
  unsigned count = std::min(online, affinity);
  if (quota && *quota < count) count = static_cast<unsigned>(*quota);
  return std::max(count, 1u);
}

std::uint64_t HostMemory::usable_bytes() const {
  return std::min(available_bytes, cgroup_headroom_bytes.value_or(available_bytes));
}

HostCpus probe_cpus(const HostPaths& paths) {
  HostCpus cpus;
  cpus.online = online_cpus();
  cpus.affinity = cpus_of_affinity(cpus.online);
  cpus.quota = CgroupLimits(paths.proc + "/self/cgroup", paths.cgroup).cpu_quota();
  return cpus;
}

Result<HostMemory> probe_memory(const HostPaths& paths) {
  const std::string path = paths.proc + "/meminfo";
  std::istringstream text(small_file(path).value_or(""));
  HostMemory memory;
  for (std::string line; std::getline(text, line);) {
    std::istringstream fields(line);
    std::string name;
    std::uint64_t kib = 0;
    if (!(fields >> name >> kib)) continue;
    if (name == "MemTotal:") memory.total_bytes = kib * 1024;
    if (name == "MemAvailable:") memory.available_bytes = kib * 1024;
  }
  if (memory.total_bytes == 0) {
    return failure(ErrorCode::corrupt,
                   "cannot read MemTotal from " + path + ": name the memory with --memory");
  }
  memory.cgroup_headroom_bytes =
      CgroupLimits(paths.proc + "/self/cgroup", paths.cgroup).memory_headroom();
  return memory;
}

std::uint64_t default_node_memory(const HostMemory& memory) {
  const std::uint64_t usable = memory.usable_bytes();
  return usable / 10 * 7 + usable % 10 * 7 / 10;
}

}  // namespace mobula::internal
