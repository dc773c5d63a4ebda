// `mobula repl`: a console on a terminal, or a script from -c, a file or a pipe. Main thread.
#pragma once

#include "cli/repl/shell.h"

namespace mobula::internal::cli::repl {

// Returns the code to end with: of a script, that of the first statement that failed. `run` carries out a parsed
// command in this process.
int run_repl(const CommandLine& line, const RunCommand& run);

}  // namespace mobula::internal::cli::repl
