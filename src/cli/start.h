// `mobula start`: a head and an agent beside it, an agent that joins, or what `mobula::init` needs.
// Main thread, before any other.
#pragma once

#include "cli/command_line.h"
#include "cli/programs.h"

namespace mobula::internal::cli {

// Returns the exit code: at once when it has started something in the background, else when that
// has ended. Of a head `line` is filled up with what is as before.
int start(const Programs& programs, CommandLine& line);

}  // namespace mobula::internal::cli
