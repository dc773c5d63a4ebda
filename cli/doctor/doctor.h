// `mobula doctor`: checks this machine, the files of its clusters, and the path to a cluster, and
// reports a fix for each fault. Changes nothing.
// Thread: main, before any other thread starts.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli::doctor {

// Returns 0 without a problem, 1 if something must be fixed, and 3 if only the cluster is missing.
int examine(const CommandLine& line);

// `doctor --probe`, for container probes: checks that the processes of this state directory are
// alive. Fast; prints one line on failure. Returns 0, 1, or 3 if no process runs.
int probe(const CommandLine& line);

}  // namespace mobula::internal::cli::doctor
