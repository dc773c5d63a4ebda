// Prints the versions of the CUDA driver and of NCCL on this machine, for the agent.
// Thread: owner. Loads large libraries that run their own code: only for a process that does
// nothing else.
#pragma once

namespace mobula::internal {

// Prints a line "mobula-gpu-library NAME VERSION" for each usable library, with NAME `cuda` or
// `nccl`. Prints "mobula-gpu-library NAME - WHY" for the others. Returns the exit code 0.
int print_gpu_libraries();

}  // namespace mobula::internal
