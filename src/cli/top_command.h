// `mobula top`: what is busy. Main thread.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

int show_top(const CommandLine& line);

}  // namespace mobula::internal::cli
