// Starts a job's program as a fork server or, directly, as an executor, with its environment and
// the control socket to the agent.
// Thread: as for `launch`.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "worker/process/pool/launch.h"
#include "worker/process/watch/process_tree.h"

namespace mobula::internal::worker {

// All inputs that a program may read before `init`: executors with equal keys can be forked from
// the same fork server.
struct ForkServerKey {
  std::string program;            // path on this node
  std::vector<std::string> argv;  // argv of the driver
  // Variables of the job and the call, and the accelerator variables that hide all devices.
  std::vector<EnvironmentVariable> environment;
  std::string working_directory;  // directory of the driver
  std::string scratch_directory;  // used, and created, if the working directory is missing
  JobId job{};                    // state of a program before `init` is never shared between jobs
  // An exit before `init` with a code other than 0 means that the program cannot run on this node.
  bool is_interpreter = false;
  friend auto operator<=>(const ForkServerKey&, const ForkServerKey&) = default;
};

struct StartedProgram {
  PidIdentity identity;
  Fd pidfd;
  Fd control;  // non-blocking; packets of protocol/fork_server_wire.h
};

// `base`: the environment of the agent. `output_fd`: stdout and stderr of the program.
Result<StartedProgram> start_fork_server(const ForkServerKey& key,
                                         const std::vector<std::string>& base, int output_fd);
// `settings` override those of the key.
Result<StartedProgram> start_executor(const ForkServerKey& key,
                                      const std::vector<std::string>& base,
                                      std::vector<EnvironmentVariable> settings, int output_fd);

// The variables that identify an executor and its descendants.
std::vector<EnvironmentVariable> marks_of(SlotId slot, ProcessId process);

}  // namespace mobula::internal::worker
