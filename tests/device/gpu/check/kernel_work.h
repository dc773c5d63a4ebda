// Kernels of the checks on a peer's device: loads them, launches them, and measures calls of the
// driver that Mobula itself does not use.
// Thread: owner. Errors: not_found for a missing kernel file or driver function, else the driver's
// failure.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "device/gpu/check/stages/stages.h"
#include "device/gpu/gpu_context.h"

namespace mobula::internal::gpu_check {

class KernelWork {
 public:
  // The kernels are in $MOBULA_GPU_KERNELS: kernels.sm_NN.cubin of the device, else kernels.ptx.
  static Result<KernelWork> load(const std::shared_ptr<GpuContext>& context);

  // Starts one block of `spin` for `ticks` cycles on a separate stream and returns while it runs.
  Result<Json> spin(const Json& order);
  // Launches `spin` with `blocks` blocks of `threads` threads in a loop for `seconds`; the number
  // of launches that completed.
  Result<Json> spin_repeatedly(const Json& order);
  // Launches an empty kernel `count` times; launches per second.
  Result<Json> launch_rate(const Json& order);
  // Writes to address 0; the failure that the driver reports.
  Result<Json> fault();

 private:
  struct Calls;
  explicit KernelWork(std::shared_ptr<GpuContext> context) : context_(std::move(context)) {}
  Result<void> launch(void* function, unsigned blocks, unsigned threads, cuda_abi::Stream stream,
                      unsigned long long ticks);
  int attribute(int which) const;

  std::shared_ptr<GpuContext> context_;  // shared with the peer's memory
  std::optional<GpuStream> stream_, spinning_;
  std::shared_ptr<const Calls> calls_;  // shared between copies of this object
  void *spin_ = nullptr, *nothing_ = nullptr, *fault_ = nullptr;
};

// A function of the driver, by dlsym, as user code finds it; null if the driver has none.
void* function_of_driver(const GpuContext& context, const char* name);

// Allocates and frees `bytes` with cuMemAlloc `count` times; pairs per second.
Result<Json> allocation_rate(const GpuContext& context, const Json& order);
// Allocates `bytes` with cuMemAlloc and keeps them: {"allocated": false, "error": …} if the driver
// refuses.
Result<Json> allocate_directly(const GpuContext& context, const Json& order);

// Compares the pointers of cuGetProcAddress with those of dlsym for the functions that a share has
// to replace, over versions 3020 to 13000 and flags 0, 1 and 2.
Result<Json> compare_pointers(const std::string& library);
// The path of the CUDA driver's file.
Result<Json> library_path();

}  // namespace mobula::internal::gpu_check
