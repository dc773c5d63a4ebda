// `mobula doctor`: looks at what Mobula needs of this machine, and whether a cluster answers.
// Changes nothing. Main thread.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// 0: all is well; 1: something is to be mended; 3: all is well here, but no cluster answers.
int examine(const CommandLine& line);

}  // namespace mobula::internal::cli
