// Functions of the simulated libraries beyond those of the real ones, for test processes.
// Thread: any.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>

namespace mobula::internal {

// Symbol of the library in MOBULA_CUDA_LIBRARY, which this process has loaded.
template <class Function>
Function* simulated_call(const char* name) {
  void* const library = ::dlopen(std::getenv("MOBULA_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

// A kernel that runs for a time and then writes to memory.
inline int simulated_kernel(void* stream, const void* at, std::size_t size, int value,
                            unsigned milliseconds) {
  auto* const call = simulated_call<int(void*, unsigned long long, std::size_t, int, unsigned)>(
      "simulatedGpuKernel");
  return call(stream, reinterpret_cast<unsigned long long>(at), size, value, milliseconds);
}

// Makes the current context permanently unusable, as an illegal access by a kernel does.
inline void simulated_break(int status) { simulated_call<void(int)>("simulatedGpuBreak")(status); }

}  // namespace mobula::internal
