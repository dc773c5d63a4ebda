// Decides whether the running process may be forked into executors. Inspection of /proc/self and
// the decision are separate, so that the decision can be tested without devices.
// Thread: any. Not: changes of the process.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/executor/fork_server.h"

namespace mobula::internal::executor {

struct OwnProcess {
  std::vector<std::string> threads;  // thread names
  std::vector<std::string> accelerator_libraries;
  std::vector<std::string> accelerator_devices;
  std::size_t touched_bytes = 0;  // resident private memory
};

OwnProcess inspect_own_process();

// Errors: invalid_argument with the first rule that is violated.
Result<void> judge_fork(const OwnProcess& seen, const ForkServerLimits& limits);

}  // namespace mobula::internal::executor
