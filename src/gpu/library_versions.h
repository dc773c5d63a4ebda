// Says which CUDA driver and which NCCL a process of this machine finds, for an agent that tells it to others. Opens
// the libraries, which are large and run code of their own: in a process that does nothing else.
#pragma once

namespace mobula::internal {

// A line "mobula-gpu-library NAME VERSION" on standard output for each that can be used, of NAME `cuda` and `nccl`;
// for the others "mobula-gpu-library NAME - WHY". The exit code: 0.
int print_gpu_libraries();

}  // namespace mobula::internal
