// `mobula stop`: ends the processes that were started from a state directory, and no others.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

int stop(const CommandLine& line);

}  // namespace mobula::internal::cli
