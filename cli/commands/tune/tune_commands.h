// `mobula tune`: commands about hyper-parameter experiments. They read the file of the experiment
// alone, also while a controller writes it.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Prints the answer or the fault and returns the exit code.
int tune_command(const CommandLine& line);

}  // namespace mobula::internal::cli
