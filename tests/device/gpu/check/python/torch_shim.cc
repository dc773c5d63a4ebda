// Tensors of Mobula for Python's ctypes, to try the PyTorch of a machine without compiling against
// it: tensors in the unversioned form of DLPack, in both directions. Loaded only by
// `torch_check.py`.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <mobula/tensor.h>

#include "device/device_memory.h"
#include "device/gpu/cuda_memory.h"
#include "tensor/dlpack_abi.h"

namespace {

using namespace mobula::internal;
using mobula::Device;
using mobula::Tensor;

std::string last_error;

template <class Call>
auto guarded(const Call& call, decltype(call()) otherwise) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& error) {
    last_error = error.what();
    return otherwise;
  }
}

Tensor counted(int count, bool on_device) {
  Tensor here = Tensor::empty({2, count / 2}, mobula::DType::int32);
  std::int32_t next = 0;
  for (std::int32_t& each : here.mutable_view<std::int32_t>()) each = next++;
  return on_device ? here.to({Device::cuda, 0}) : here;
}

}  // namespace

extern "C" {

const char* mobula_shim_error() { return last_error.c_str(); }

// Takes a share of the first GPU; returns 0, or -1 with an error.
int mobula_shim_open() {
  return guarded(
      [] {
        const auto driver = CudaDriver::open();
        if (!driver) throw std::runtime_error(driver.error().text);
        const auto visible = GpuContext::visible(**driver);
        if (!visible || visible->empty()) throw std::runtime_error("no GPU is visible");
        auto context = GpuContext::open(*driver, visible->front());
        if (!context) throw std::runtime_error(context.error().text);
        std::vector<std::shared_ptr<DeviceArena>> arenas{std::make_shared<DeviceArena>(
            std::move(*context), DeviceArenaOptions{.max_bytes = 256u << 20})};
        set_device_memory(std::make_shared<CudaMemory>(std::move(arenas)));
        return 0;
      },
      -1);
}

// Returns a DLManagedTensor with 0, 1, … in two rows, transposed so that its strides are not the
// default.
void* mobula_shim_make(int count, int on_device) {
  return guarded(
      [&]() -> void* {
        return counted(count, on_device != 0).transpose(0, 1).to_dlpack_unversioned();
      },
      nullptr);
}

// Imports a DLManagedTensor and returns the sum of its elements; -1 with an error.
long long mobula_shim_sum(void* managed) {
  return guarded(
      [&] {
        const Tensor there = Tensor::from_dlpack(static_cast<DLManagedTensor*>(managed));
        const Tensor here = there.to(Device{}).contiguous();
        long long sum = 0;
        for (const std::int32_t each : here.view<std::int32_t>()) sum += each;
        return sum;
      },
      -1LL);
}
}
