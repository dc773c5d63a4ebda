// Starts a job's program as a nursery or, directly, as an executor: what it must find in its
// environment and over which socket the agent goes on talking to it. Same rules as `launch`.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "worker/process/launch.h"
#include "worker/process/process_tree.h"

namespace mobula::internal::worker {

// Everything that a program may have read before `init`: executors that agree in it can be forked
// from the same nursery.
struct NurseryKey {
  std::string program;            // path on this node
  std::vector<std::string> argv;  // of the driver
  // Of the job and the call, and the accelerator variables that hide all devices.
  std::vector<EnvironmentVariable> environment;
  std::string working_directory;  // of the driver
  std::string scratch_directory;  // used, and made, where the former is not there
  JobId job{};                    // what a program has made of itself is never another job's
  friend auto operator<=>(const NurseryKey&, const NurseryKey&) = default;
};

struct StartedProgram {
  ProcessStamp stamp;
  Fd pidfd;
  Fd control;  // non-blocking; packets of protocol/nursery_wire.h
};

// `base`: the agent's own environment. `output_fd`: its stdout and stderr.
Result<StartedProgram> start_nursery(const NurseryKey& key, const std::vector<std::string>& base,
                                     int output_fd);
// `settings` go over those of the key.
Result<StartedProgram> start_executor(const NurseryKey& key, const std::vector<std::string>& base,
                                      std::vector<EnvironmentVariable> settings, int output_fd);

// The variables by which an executor and what it starts are known.
std::vector<EnvironmentVariable> marks_of(SlotId slot, ProcessId process);

}  // namespace mobula::internal::worker
