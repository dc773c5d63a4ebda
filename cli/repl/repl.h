// `mobula repl`: a console on a terminal, or a script from -c, a file, or a pipe.
// Thread: main.
#pragma once

#include "cli/repl/shell.h"

namespace mobula::internal::cli::repl {

// Returns the exit code; for a script, that of the first failed statement. `run` runs a parsed
// command in this process.
int run_repl(const CommandLine& line, const RunCommand& run);

}  // namespace mobula::internal::cli::repl
