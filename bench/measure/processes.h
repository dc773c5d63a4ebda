// Memory and CPU time of a local cluster's processes: the descendants of this program, read from
// /proc.
// Thread: the main thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mobula::bench {

struct Process {
  pid_t pid = 0;
  std::string role;  // "head", "agent", or the program's name
  std::int64_t resident_bytes = 0;
  std::int64_t private_bytes = 0;  // RssAnon and RssFile, without shared memory
  double cpu_seconds = 0;          // since the start
};

// Resident memory of this process.
std::int64_t resident_bytes();

// Shared memory files of the machine, mapped or not.
std::int64_t shared_bytes();

// All live descendants of this process.
std::vector<Process> descendants();

}  // namespace mobula::bench
