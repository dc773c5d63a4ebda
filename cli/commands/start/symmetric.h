// `mobula symmetric [FLAGS] -- PROGRAM ARGS`: the same command on every machine of a launch by
// srun, mpiexec, or mpirun. Rank 0 starts a head and, when all ranks have joined, the program. Its
// end stops all processes.
// Thread: main, before any other thread starts.
#pragma once

namespace mobula::internal::cli {

// Returns the code of the program (128 + signal), or 127 or 126 if it cannot be run.
int symmetric(int argc, char** argv);

}  // namespace mobula::internal::cli
