// A process that has a context on a GPU and nothing else, for whoever wants to see what that costs and whether
// the driver tells of it by process. Initialises CUDA: never in a process that does anything else.
#pragma once

namespace mobula::internal {

// Makes a context on the first GPU that this process sees, prints "ready" and a line end, and keeps it until its
// standard input ends. The exit code; without a GPU 2, with the reason on standard error.
int hold_gpu_context();

}  // namespace mobula::internal
