// `mobula drain` and `mobula undrain`: a node gets no more work, or gets it again. Drain says what it has moved
// and ended: from what lay on the node before, and what has become of that. Main thread.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Each prints what came of it, or why nothing did, and returns the exit code.
int drain(const CommandLine& line);
int undrain(const CommandLine& line);

}  // namespace mobula::internal::cli
