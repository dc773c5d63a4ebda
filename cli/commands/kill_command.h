// `mobula kill`: ends an actor.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Prints the result or the fault and returns the exit code.
int kill_actor(const CommandLine& line);

}  // namespace mobula::internal::cli
