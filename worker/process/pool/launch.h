// Starts a program as a child of this process with exactly the given environment, working
// directory, and descriptors.
// Thread: a thread that lives as long as the child, because the kernel ties the child's life to it.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::worker {

using EnvironmentVariable = std::pair<std::string, std::string>;

// A copy of `base` ("NAME=value") in which later settings replace earlier ones.
std::vector<std::string> with_variables(std::vector<std::string> base,
                                        const std::vector<EnvironmentVariable>& settings);

struct Launch {
  std::string program;  // path
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::string working_directory;
  std::string scratch_directory;         // used if the working directory is missing; empty: /
  bool needs_working_directory = false;  // a missing working directory is a failure
  int output_fd = -1;                    // stdout and stderr
  int control_fd = -1;                   // stays open under its number
};

struct Launched {
  pid_t pid = 0;
  Fd pidfd;
};

// Own session, stdin from /dev/null, default signals, killed when this process exits, no other
// descriptors. If the program cannot run, a message is written to `output_fd` and the exit code is
// 127, as for a library that the loader does not find.
Result<Launched> launch(const Launch& what);

}  // namespace mobula::internal::worker
