// `mobula logs`: what the head, agents, executors and submitted jobs have written, on this machine and on
// others; of one thing, also when it is spread over several of them, as one stream of lines. Main thread.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

int show_logs(const CommandLine& line);

}  // namespace mobula::internal::cli
