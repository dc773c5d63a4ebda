// Modules and kernels of the simulated driver: the kernels of deploy/gpu-check/kernels.ptx by name.
// A cycle is one nanosecond.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "simulated_gpu/cuda_state.h"
#include "simulated_gpu/settings.h"

using namespace simulated_gpu;

namespace {

enum class Kernel : int { spin = 1, nothing, fault };

void run_spin(unsigned long long ticks) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(ticks));
}

}  // namespace

extern "C" {

int cuModuleLoadData(void** module, const void* image) {
  if (const auto status = enter_context("cuModuleLoadData")) return status;
  // PTX, or a compiled form that cannot be inspected here.
  const auto* const text = static_cast<const char*>(image);
  const bool compiled = std::memcmp(text, "\177ELF", 4) == 0;
  if (!compiled && std::strstr(text, ".entry spin(") == nullptr) return abi::invalid_value;
  *module = reinterpret_cast<void*>(std::uintptr_t{1});
  return abi::success;
}

int cuModuleGetFunction(void** function, void*, const char* name) {
  if (const auto status = enter_context("cuModuleGetFunction")) return status;
  const auto kernel = std::strcmp(name, "spin") == 0      ? Kernel::spin
                      : std::strcmp(name, "nothing") == 0 ? Kernel::nothing
                      : std::strcmp(name, "fault") == 0   ? Kernel::fault
                                                          : Kernel{};
  if (kernel == Kernel{}) return abi::not_found;
  *function = reinterpret_cast<void*>(static_cast<std::uintptr_t>(kernel));
  return abi::success;
}

int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, abi::Stream stream, void** arguments, void**) {
  if (const auto status = enter_context("cuLaunchKernel")) return status;
  const int device = current_device();
  const auto kernel = static_cast<Kernel>(reinterpret_cast<std::uintptr_t>(function));
  unsigned long long ticks = 0;
  if (kernel == Kernel::spin) std::memcpy(&ticks, arguments[0], sizeof ticks);
  return issue(stream, device, [=] {
    if (kernel == Kernel::spin) run_spin(ticks);
    if (kernel == Kernel::fault) lose_context(device, abi::illegal_address);
  });
}

}  // extern "C"
