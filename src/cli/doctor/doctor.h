// `mobula doctor`: looks at what Mobula needs of this machine, at the files by which it is part of clusters, and
// whether a cluster can be reached; says of each what was seen and what to type. Changes nothing. Main thread,
// before any other is started.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli::doctor {

// 0: all is well; 1: something is to be mended; 3: all is well here, but no cluster answers.
int examine(const CommandLine& line);

// `doctor --probe`, for probes of containers: whether what this state folder runs is alive. Fast; says nothing when
// it is, and one line when it is not. 0, 1, or 3 where nothing runs from here.
int probe(const CommandLine& line);

}  // namespace mobula::internal::cli::doctor
