// Identifies one process, even if its pid is reused: the pid, its start time in the kernel, and the
// boot id.
// Thread: any; reads /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/program/cluster_files.h"

namespace mobula::internal {

struct ProcessIdentity {
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  // kernel ticks since boot; 0: unknown, so only the pid is compared
  std::string boot_id{};

  static ProcessIdentity of_this_process();
  // Returns true if the process exists, is not a zombie, and is the identified one.
  bool alive() const;

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// Field 22 of /proc/<pid>/stat (proc(5)); empty if the process exited or is a zombie.
std::optional<std::uint64_t> start_time_of(std::int64_t pid);
std::string boot_id_of_machine();

// Returns true if the head or agent that wrote this file still runs.
bool runs(const HeadFile& file);
bool runs(const AgentFile& file);

}  // namespace mobula::internal
