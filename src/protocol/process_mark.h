// Which process it was, and not another that has its number since: the pid, when the kernel started it,
// and in which boot. Reads /proc; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/cluster_files.h"

namespace mobula::internal {

struct ProcessMark {
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  // in the kernel's ticks since boot; 0: not known, its pid alone speaks
  std::string boot_id{};

  static ProcessMark of_this_process();
  // It runs (a zombie does not), and is the one that was marked.
  bool alive() const;

  friend bool operator==(const ProcessMark&, const ProcessMark&) = default;
};

// Field 22 of /proc/<pid>/stat (proc(5)); nothing for a process that is gone or a zombie.
std::optional<std::uint64_t> start_time_of(std::int64_t pid);
std::string boot_id_of_machine();

// Whether the head or agent that has left this file still runs.
bool runs(const HeadFile& file);
bool runs(const AgentFile& file);

}  // namespace mobula::internal
