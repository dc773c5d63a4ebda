// What the simulated libraries offer besides the calls of the real ones, for the processes of tests.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>

namespace mobula::internal {

// A symbol of the library that MOBULA_CUDA_LIBRARY names, which this process has open.
template <class Function>
Function* simulated_call(const char* name) {
  void* const library = ::dlopen(std::getenv("MOBULA_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

// A kernel that runs for so long, and then writes to memory.
inline int simulated_kernel(void* stream, const void* at, std::size_t size, int value,
                            unsigned milliseconds) {
  auto* const call = simulated_call<int(void*, unsigned long long, std::size_t, int, unsigned)>(
      "simulatedGpuKernel");
  return call(stream, reinterpret_cast<unsigned long long>(at), size, value, milliseconds);
}

// The current context is lost for good, as after a kernel's wrong access.
inline void simulated_break(int status) { simulated_call<void(int)>("simulatedGpuBreak")(status); }

}  // namespace mobula::internal
