// `mobula drain` and `mobula undrain`: stops and resumes scheduling onto a node. Drain reports the
// work that it moved and ended, from the state of the node before and after.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Each prints the result or the fault and returns the exit code.
int drain(const CommandLine& line);
int undrain(const CommandLine& line);

}  // namespace mobula::internal::cli
