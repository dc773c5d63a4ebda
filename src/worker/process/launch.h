// Starts a program as a child of this process with exactly the surroundings it was given. The
// calling thread must live as long as the child may: the kernel ties the child's life to it.
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
  std::string program;  // a path
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::string working_directory;
  std::string scratch_directory;  // used where the working directory is not there; may be empty: /
  bool needs_working_directory = false;  // there is no other place for it
  int output_fd = -1;             // stdout and stderr
  int control_fd = -1;            // stays open under its number
};

struct Launched {
  pid_t pid = 0;
  Fd pidfd;
};

// Own session, stdin from /dev/null, default signals, killed when this process ends, no other fds.
// A program that cannot be run says so on `output_fd` and ends with exit code 127, as it does when
// the loader lacks a library.
Result<Launched> launch(const Launch& what);

}  // namespace mobula::internal::worker
