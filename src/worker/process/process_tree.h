// Looks at the processes of this machine through /proc, and signals exactly the one meant. A pid
// alone names no process: the kernel gives it away again; pid and start time do. Value functions,
// any thread. Does not wait, except where it says so.
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

// Identity of a process until the machine starts again.
struct ProcessStamp {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot: field 22 of /proc/PID/stat
  friend auto operator<=>(const ProcessStamp&, const ProcessStamp&) = default;
};

struct ProcessStat {
  ProcessStamp stamp;
  pid_t parent = 0;
  pid_t session = 0;
  bool ended = false;  // a zombie: holds nothing any more but its entry
};

// Nothing if there is no such process.
std::optional<ProcessStat> read_stat(pid_t pid);
// Whether that very process is there and has not ended.
bool is_running(ProcessStamp process);

std::vector<pid_t> all_processes();
// Children of all threads of a process, zombies included.
std::vector<pid_t> children_of(pid_t pid);
// Everything below `pid`, parents before children, without `pid` itself and without zombies.
std::vector<ProcessStamp> descendants_of(pid_t pid);

// Value of a variable in the environment with which the process was started.
std::optional<std::string> environment_of(pid_t pid, std::string_view variable);

// A pidfd, checked to belong to that very process. Empty if it is gone.
Fd open_process(ProcessStamp process);
// Whether the signal was sent to that very process.
bool signal_process(ProcessStamp process, int signal);

}  // namespace mobula::internal::worker
