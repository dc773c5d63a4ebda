// A piece of device memory at an address of this process: made here, or by another process and imported by
// its descriptor. The memory lives as long as anybody has it mapped or holds a descriptor of it, whoever
// made it. Any thread, one at a time; what is gone must not be in use by a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "gpu/gpu_context.h"

namespace mobula::internal {

class DeviceMapping {
 public:
  // `size_bytes` rounded up to what the device maps at once, mapped for reading and writing by
  // this device and those that this process sees and that reach it.
  // resource_exhausted when the device has no such memory.
  static Result<DeviceMapping> create(std::shared_ptr<const GpuContext> context,
                                      std::uint64_t size_bytes);
  // Memory of another process, of exactly that size, which may lie on another device that this one
  // reaches; mapped for reading. The descriptor is not needed afterwards. invalid_argument for a descriptor
  // of something else.
  static Result<DeviceMapping> import(std::shared_ptr<const GpuContext> context,
                                      const Fd& descriptor, std::uint64_t size_bytes);

  DeviceMapping() = default;
  DeviceMapping(DeviceMapping&& other) noexcept { swap(other); }
  DeviceMapping& operator=(DeviceMapping&& other) noexcept {
    DeviceMapping gone(std::move(*this));
    swap(other);
    return *this;
  }
  ~DeviceMapping();

  // Addresses of the device: the host must not look there.
  std::span<std::byte> bytes() const {
    return {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address_)), size_};
  }
  // For one of this process's own: a descriptor for others, close-on-exec. It keeps the memory, too.
  Result<Fd> descriptor() const;

 private:
  void swap(DeviceMapping& other) noexcept;
  Result<void> map(int access);

  std::shared_ptr<const GpuContext> context_;  // shared with all that lies there
  cuda_abi::MemoryHandle handle_ = 0;
  bool has_handle_ = false;
  bool mapped_ = false;
  cuda_abi::Address address_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mobula::internal
