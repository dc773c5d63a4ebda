// CPUs and memory that this process may use: CPUs by affinity and cgroup quota, memory by free
// memory and memory cgroup.
// Thread: any. Reads /proc and cgroup files (both versions) on each call.
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
  unsigned affinity = 1;          // CPUs that this process may run on
  std::optional<double> quota{};  // CPU quota of its cgroups, in CPUs

  // The smallest of the three in whole CPUs, at least one.
  unsigned usable() const;
};

struct HostMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;  // MemAvailable
  // Bytes left below the tightest limit of its memory cgroups; reclaimable file pages count as
  // free. Empty without a limit.
  std::optional<std::uint64_t> cgroup_headroom_bytes{};

  std::uint64_t usable_bytes() const;
};

HostCpus probe_cpus(const HostPaths& paths = {});
// Fails with corrupt if /proc/meminfo cannot be read.
Result<HostMemory> probe_memory(const HostPaths& paths = {});

// CPUs on which the calling thread may run, by cpuset, taskset, or an earlier `run_on`.
CpuList allowed_cpus();
// Binds the calling thread to those of `cpus` that it may use. Returns false, and changes nothing,
// if `cpus` contains none of them.
bool run_on(const CpuList& cpus);

// Default memory of a node for requests: 70 % of the usable bytes.
std::uint64_t default_node_memory(const HostMemory& memory);

}  // namespace mobula::internal
