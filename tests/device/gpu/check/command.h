// Runs a program to its end, with a time limit, and returns what it printed.
// Thread: owner. Errors: code -1 if it did not start or was ended at its limit.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"

namespace mobula::internal::gpu_check {

struct CommandEnd {
  int code = -1;
  std::string out;  // standard output and standard error, at most 64 KiB of the end
};

// `variables` are set on top of this process's environment; an empty value removes one. `on_line`
// is called for each complete line as it arrives.
CommandEnd run_command(const std::vector<std::string>& words,
                       const std::map<std::string, std::string>& variables, Duration limit,
                       const std::function<void(const std::string&)>& on_line = {});

}  // namespace mobula::internal::gpu_check
