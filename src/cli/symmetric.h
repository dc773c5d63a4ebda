// `mobula symmetric [FLAGS] -- PROGRAM ARGS`: the same command on every machine of a launch by srun,
// mpiexec or mpirun. The first rank starts a head and, once all others have joined, the program; at
// its end everything is taken down. Main thread, before any other.
#pragma once

namespace mobula::internal::cli {

// The exit code: the program's own (128 + signal), 127 or 126 where it cannot be run.
int symmetric(int argc, char** argv);

}  // namespace mobula::internal::cli
