// What the processes of a local cluster cost: memory and CPU time of this program's descendants,
// read from /proc. For the main thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mobula::bench {

struct Process {
  pid_t pid = 0;
  std::string role;  // "head", "agent", else the program's name
  std::int64_t resident_bytes = 0;
  std::int64_t private_bytes = 0;  // RssAnon and RssFile: without shared memory
  double cpu_seconds = 0;  // so far
};

// Of this process.
std::int64_t resident_bytes();

// Of the machine: what lies in files of memory, mapped or not.
std::int64_t shared_bytes();

// All descendants of this process that are alive now.
std::vector<Process> descendants();

}  // namespace mobula::bench
