// The processes of `mobula::init`: a cluster of one driver, or an agent that adds the driver's
// machine to a running cluster. Reports the start as one line of JSON, and ends when the driver
// ends.
// Thread: main, before any other thread starts.
#pragma once

#include "cli/command_line.h"
#include "cli/commands/start/role_plans.h"

namespace mobula::internal::cli {

// Returns when all processes have ended.
int start_for_driver(const Programs& programs, const CommandLine& line);

}  // namespace mobula::internal::cli
