// `mobula timeline`. Main thread.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Writes the trace and says on stderr what it holds and what is missing; returns the exit code.
int write_timeline(const CommandLine& line);

}  // namespace mobula::internal::cli
