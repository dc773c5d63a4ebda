// `mobula logs`: what the head, the agent and the executors of this machine have written. Main
// thread.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

int show_logs(const CommandLine& line);

}  // namespace mobula::internal::cli
