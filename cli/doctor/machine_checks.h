// Checks of the machine itself: limits, memory, names, and programs. `measure` reads the kernel
// once. The checks are pure, so that tests can try each fault.
// Thread: main.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/finding.h"

namespace mobula::internal::cli::doctor {

constexpr std::uint64_t unlimited = ~std::uint64_t{0};

struct Measures {
  bool root = false;
  std::uint64_t files = unlimited;      // hard limits; Mobula raises its soft limits to them
  std::uint64_t processes = unlimited;  // limit of this user
  std::uint64_t locked_bytes = unlimited;
  std::optional<std::uint64_t> group_processes_left{};  // left by the control groups
  std::optional<std::uint64_t> group_memory_left{};
  std::optional<std::uint64_t> shared_bytes{};  // size of /dev/shm; absent: not mounted
  std::optional<std::uint64_t> shared_free_bytes{};
  bool shared_writable = true;
  std::uint64_t memory_bytes = 0;
  std::uint64_t swap_bytes = 0;
  std::uint64_t swap_free_bytes = 0;
  int overcommit = 0;                           // vm.overcommit_memory
  std::uint64_t commit_left_bytes = unlimited;  // if overcommit is 2
  std::string host{};
  std::vector<std::string> host_addresses{};  // numeric addresses of the host name
  bool pidfd = true;
  bool curve = true;
  bool has_gpus = false;        // device files of GPUs
  std::string plugins{};        // MOBULA_TRANSPORT_PLUGINS
  bool separate_hosts = false;  // MOBULA_TEST_SEPARATE_HOSTS
};

struct MachinePaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
  std::string dev = "/dev";
};

Measures measure(const MachinePaths& paths = {});

Findings check_limits(const Measures& seen);
Findings check_memory(const Measures& seen);
// `advertised` is the host part of the address that the head or agent of this machine advertises;
// empty if none runs.
Findings check_names(const Measures& seen, const std::string& advertised);
Findings check_kernel(const Measures& seen);
// Checks the programs of a launcher: "ssh" or "slurm".
Findings check_programs(const std::string& way, const std::string& path_variable);

}  // namespace mobula::internal::cli::doctor
