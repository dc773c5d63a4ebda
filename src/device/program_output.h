// What a vendor's own program says about its devices. For the agent's start; any thread. It starts a
// child process and waits for it, at most as long as `timeout`; a child that takes longer is killed.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace mobula::internal {

// What `program` (a path) writes to its standard output. unavailable if it ends otherwise than with
// 0, timed_out, corrupt if it writes more than any machine has devices.
Result<std::string> output_of_program(const std::string& program,
                                      const std::vector<std::string>& arguments, Duration timeout);

}  // namespace mobula::internal
