// `mobula call`: calls a method of a named actor with JSON.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Calls the method that the command line names. Prints the result as JSON, or the error, and
// returns the exit code.
int call_actor(const CommandLine& line);

}  // namespace mobula::internal::cli
