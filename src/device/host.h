// What this process may use of its host: CPUs by affinity and cgroup quota, memory by what is free
// and by the memory cgroup. Reads /proc and cgroup files (both versions) each time it is asked; for
// the agent's start. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "device/near_gpu.h"

namespace mobula::internal {

struct HostPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

struct HostCpus {
  unsigned online = 1;            // logical CPUs of the machine
  unsigned affinity = 1;          // of those, the ones this process may run on
  std::optional<double> quota{};  // CPUs' worth of time that its cgroups grant

  // The smallest of them, whole CPUs, at least one.
  unsigned usable() const;
};

struct HostMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;  // MemAvailable
  // What is left below the tightest limit of its memory cgroups; pages of files that the kernel can
  // drop count as free. Nothing without a limit.
  std::optional<std::uint64_t> cgroup_headroom_bytes{};

  std::uint64_t usable_bytes() const;
};

HostCpus probe_cpus(const HostPaths& paths = {});
// corrupt if /proc/meminfo cannot be read.
Result<HostMemory> probe_memory(const HostPaths& paths = {});

// The CPUs on which the calling thread may run: by cpuset, taskset, or an earlier choice.
CpuList allowed_cpus();
// From here on the calling thread runs on these CPUs alone, of those that it may run on; without any of them, or
// of none, nothing changes. Whether it was bound.
bool run_on(const CpuList& cpus);

// What a node offers to requests unless told otherwise: 70 % of what is usable.
std::uint64_t default_node_memory(const HostMemory& memory);

}  // namespace mobula::internal
