// `mobula provider local|slurm|kubernetes [CALL]`: answers one call of the autoscaler
// (docs/providers.md).
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Reads the request from standard input, writes the answer to standard output, and returns the exit
// code.
int answer_provider_call(const CommandLine& line);

}  // namespace mobula::internal::cli
