// `mobula stop`: ends what was started from a state folder, and nothing else. Main thread.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

int stop(const CommandLine& line);

}  // namespace mobula::internal::cli
