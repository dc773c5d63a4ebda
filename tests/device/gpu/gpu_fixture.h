// Common steps of the GPU tests, for processes of a simulated machine.
// Thread: owner.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "device/gpu/cuda_driver.h"
#include "device/gpu/device_arena.h"
#include "device/gpu/gpu_context.h"
#include "simulated_gpu/calls.h"
#include "simulated_gpu/machine.h"

namespace mobula::internal {

inline constexpr std::uint64_t mib = 1u << 20;

// Opens the first visible device, or device `which`.
inline std::shared_ptr<GpuContext> open_gpu(std::size_t which = 0) {
  const auto driver = CudaDriver::open();
  EXPECT_TRUE(driver) << (driver ? "" : driver.error().text);
  const auto devices = GpuContext::visible(**driver);
  EXPECT_TRUE(devices) << (devices ? "" : devices.error().text);
  auto context = GpuContext::open(*driver, devices->at(which));
  EXPECT_TRUE(context) << (context ? "" : context.error().text);
  return std::move(context).value();
}

inline cuda_abi::Address address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

// Copies device bytes to the host after all issued work.
inline std::vector<std::byte> read_device(const GpuContext& context,
                                          std::span<const std::byte> bytes) {
  std::vector<std::byte> made(bytes.size());
  const GpuContext::Current current(context);
  EXPECT_EQ(context.call().context_synchronize(), cuda_abi::success);
  EXPECT_EQ(context.call().copy_async(address_of(made.data()), address_of(bytes.data()),
                                      made.size(), nullptr),
            0);
  EXPECT_EQ(context.call().stream_synchronize(nullptr), cuda_abi::success);
  return made;
}

inline void fill_device(const GpuContext& context, std::span<std::byte> bytes,
                        unsigned char value) {
  const GpuContext::Current current(context);
  EXPECT_EQ(context.call().fill_async(address_of(bytes.data()), value, bytes.size(), nullptr), 0);
  EXPECT_EQ(context.call().stream_synchronize(nullptr), cuda_abi::success);
}

inline bool all_are(std::span<const std::byte> bytes, unsigned char value) {
  for (const std::byte each : bytes) {
    if (each != std::byte{value}) return false;
  }
  return true;
}

}  // namespace mobula::internal
