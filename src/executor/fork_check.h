// Whether the running process may be forked into executors: what there is to see in /proc/self, and
// the judgement of it. Split so that the judgement can be tried without the hardware it is about.
// Any thread; reads files, changes nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/nursery.h"

namespace mobula::internal::executor {

struct OwnProcess {
  std::vector<std::string> threads;  // names
  std::vector<std::string> accelerator_libraries;
  std::vector<std::string> accelerator_devices;
  std::size_t touched_bytes = 0;  // resident private memory
};

OwnProcess look_at_own_process();

// Fails with invalid_argument and the first rule that refuses.
Result<void> judge_fork(const OwnProcess& seen, const NurseryLimits& limits);

}  // namespace mobula::internal::executor
