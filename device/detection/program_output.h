// Runs a vendor's program that reports its devices.
// Thread: any. Starts a child process and waits for it, at most `timeout`; a late child is killed.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace mobula::internal {

// Standard output of `program` (a path). Fails with unavailable on a nonzero exit code, with
// timed_out, and with corrupt if the output is too large.
Result<std::string> output_of_program(const std::string& program,
                                      const std::vector<std::string>& arguments, Duration timeout);

}  // namespace mobula::internal
