// `mobula logs`: the output of the head, agents, executors, and submitted jobs, on all machines;
// for one subject as one stream of lines.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

int show_logs(const CommandLine& line);

}  // namespace mobula::internal::cli
