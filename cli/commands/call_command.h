// `mobula call`: calls a method of a named actor with JSON.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Prints the JSON of the result, or the fault, and returns the exit code.
int call_actor(const CommandLine& line);

}  // namespace mobula::internal::cli
