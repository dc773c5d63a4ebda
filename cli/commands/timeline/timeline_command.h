// `mobula timeline`.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Writes the trace and reports its contents and gaps on stderr. Returns the exit code.
int write_timeline(const CommandLine& line);

}  // namespace mobula::internal::cli
