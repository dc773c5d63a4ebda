// Reads the processes of this machine from /proc, and signals exactly one process. A pid alone is
// no identity, because the kernel reuses it; pid and start time together are one.
// Thread: any.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace mobula::internal::worker {

// Identity of a process until the next boot.
struct PidIdentity {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot: field 22 of /proc/PID/stat
  friend auto operator<=>(const PidIdentity&, const PidIdentity&) = default;
};

struct ProcessStat {
  PidIdentity identity;
  pid_t parent = 0;
  pid_t session = 0;
  bool ended = false;  // a zombie: it has only its table entry left
};

// Empty if no such process exists.
std::optional<ProcessStat> read_stat(pid_t pid);
// True if exactly this process exists and is no zombie.
bool is_running(PidIdentity process);

std::vector<pid_t> all_processes();
// Children of all threads of a process, zombies included.
std::vector<pid_t> children_of(pid_t pid);
// All descendants of `pid`, parents before children, without `pid` and without zombies.
std::vector<PidIdentity> descendants_of(pid_t pid);

// Value of a variable in the environment at the start of the process.
std::optional<std::string> environment_of(pid_t pid, std::string_view variable);

// A pidfd of exactly this process; empty if it has exited.
Fd open_process(PidIdentity process);
// True if the signal was sent to exactly this process.
bool signal_process(PidIdentity process, int signal);

}  // namespace mobula::internal::worker
