// Probe process that has a CUDA context on one GPU and nothing else, to measure the cost of a
// context and the driver's accounting by process.
// Thread: owner. Initializes CUDA: only for a process that does nothing else.
#pragma once

namespace mobula::internal {

// Creates a context on the first visible GPU, prints "ready" and a newline, and keeps the context
// until the end of standard input. Returns the exit code; without a GPU 2, with the reason on
// standard error.
int hold_gpu_context();

}  // namespace mobula::internal
