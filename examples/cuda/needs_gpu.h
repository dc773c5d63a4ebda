// Shared parts of the programs of this directory: an error for machines without a GPU, and the exit
// code for it.
// Thread: any.
#pragma once

#include <cuda_runtime.h>
#include <mobula/mobula.h>

#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

// Exit code of a program that did nothing because it needs a GPU (77: "skipped" of automake and
// CTest).
inline constexpr int exit_skipped = 77;

// Thrown by tasks, and rethrown as itself by get.
class NeedsGpu : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
inline const bool needs_gpu_registered = mobula::register_exception<NeedsGpu>();

// Throws if `status` is an error: NeedsGpu if no driver or device is available, else
// std::runtime_error.
inline void check(cudaError_t status, const std::string& operation) {
  if (status == cudaSuccess) return;
  const std::string message = operation + ": " + cudaGetErrorString(status);
  switch (status) {
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorStubLibrary:
      throw NeedsGpu("kernels cannot run here: " + message +
                     "; run on a machine with an NVIDIA driver");
    default: throw std::runtime_error(message);
  }
}

// The stream of the calling thread's task.
inline cudaStream_t task_stream() { return static_cast<cudaStream_t>(mobula::current().stream()); }

// Calls `body` in the driver if the cluster has a GPU. Returns its exit code, exit_skipped, or 1
// after another error.
template <class Body>
int run_on_gpus(const char* program, Body body) {
  try {
    if (mobula::cluster_resources()["GPU"] > 0) return body();
    std::cerr << program
              << ": the cluster has no GPU; run on a machine with an NVIDIA driver, or set "
                 "MOBULA_ADDRESS\n";
    return exit_skipped;
  } catch (const NeedsGpu& error) {
    std::cerr << program << ": " << error.what() << "\n";
    return exit_skipped;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << "\n";
    return 1;
  }
}
