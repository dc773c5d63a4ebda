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

constexpr std::size_t bits_per_set = 8 * sizeof(cpu_set_t);

// The kernel's mask can be longer than cpu_set_t, so the buffer grows until it fits. Empty if it
// never does.
std::vector<cpu_set_t> affinity_of_this_thread() {
  for (std::size_t sets = 1; sets <= 64; sets *= 2) {
    std::vector<cpu_set_t> mask(sets);
    if (::sched_getaffinity(0, sets * sizeof(cpu_set_t), mask.data()) == 0) return mask;
  }
  return {};
}

unsigned cpus_of_affinity(unsigned fallback) {
  const auto mask = affinity_of_this_thread();
  return mask.empty()
             ? fallback
             : static_cast<unsigned>(CPU_COUNT_S(mask.size() * sizeof(cpu_set_t), mask.data()));
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

CpuList allowed_cpus() {
  const auto mask = affinity_of_this_thread();
  CpuList cpus;
  for (std::size_t cpu = 0; cpu < mask.size() * bits_per_set; ++cpu) {
    if (CPU_ISSET_S(cpu, mask.size() * sizeof(cpu_set_t), mask.data()))
      cpus.push_back(static_cast<unsigned>(cpu));
  }
  return cpus;
}

bool run_on(const CpuList& cpus) {
  const CpuList both = cpus_to_use(cpus, allowed_cpus());
  if (both.empty()) return false;
  std::vector<cpu_set_t> mask(both.back() / bits_per_set + 1);
  for (const unsigned cpu : both) CPU_SET_S(cpu, mask.size() * sizeof(cpu_set_t), mask.data());
  return ::sched_setaffinity(0, mask.size() * sizeof(cpu_set_t), mask.data()) == 0;
}

std::uint64_t default_node_memory(const HostMemory& memory) {
  const std::uint64_t usable = memory.usable_bytes();
  return usable / 10 * 7 + usable % 10 * 7 / 10;
}

}  // namespace mobula::internal
