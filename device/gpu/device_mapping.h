// Device memory mapped into this process: allocated here, or imported through a descriptor of
// another process. The memory exists while a mapping or a descriptor of it exists, in any process.
// Thread: any, one at a time. No stream may use the memory when it is unmapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "device/gpu/gpu_context.h"

namespace mobula::internal {

class DeviceMapping {
 public:
  // Allocates `size_bytes`, rounded up to the mapping granularity, for reading and writing by this
  // device and by visible devices with peer access. Fails with resource_exhausted without device
  // memory.
  static Result<DeviceMapping> create(std::shared_ptr<const GpuContext> context,
                                      std::uint64_t size_bytes);
  // Maps memory of another process, of exactly that size and possibly on another device with peer
  // access, for reading. The descriptor is not needed afterwards. Fails with invalid_argument for a
  // descriptor of another kind.
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

  // Device addresses, which the host must not access.
  std::span<std::byte> bytes() const {
    return {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address_)), size_};
  }
  // Descriptor of an own allocation for other processes, close-on-exec. It keeps the memory alive,
  // too.
  Result<Fd> descriptor() const;

 private:
  void swap(DeviceMapping& other) noexcept;
  Result<void> map(int access);

  std::shared_ptr<const GpuContext> context_;  // shared with all allocations on the device
  cuda_abi::MemoryHandle handle_ = 0;
  bool has_handle_ = false;
  bool mapped_ = false;
  cuda_abi::Address address_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mobula::internal
