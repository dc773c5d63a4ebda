// `mobula top`: use of nodes and executors.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

int show_top(const CommandLine& line);

}  // namespace mobula::internal::cli
