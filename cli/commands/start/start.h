// `mobula start`: a head with an agent, an agent that joins a cluster, or the processes of
// `mobula::init`.
// Thread: main, before any other thread starts.
#pragma once

#include "cli/command_line.h"
#include "cli/commands/start/role_plans.h"

namespace mobula::internal::cli {

// Returns the exit code: immediately after a background start, otherwise when the processes have
// ended. For a head, `line` is completed with the reused flags.
int start(const Programs& programs, CommandLine& line);

}  // namespace mobula::internal::cli
