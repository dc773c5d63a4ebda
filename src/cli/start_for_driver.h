// What `mobula::init` starts: a cluster of one driver, or an agent that brings its machine into a
// running one. Tells how the start went as one line of JSON, and ends when its starter does,
// leaving nothing behind. Main thread, before any other.
#pragma once

#include "cli/command_line.h"
#include "cli/programs.h"

namespace mobula::internal::cli {

// Returns when all of it has ended.
int start_for_driver(const Programs& programs, const CommandLine& line);

}  // namespace mobula::internal::cli
