// Interface to the memory of this process's devices: allocation, clearing, and copies. `gpu`
// implements it over the driver if the process leases a device, so tensor code includes no driver.
// Thread: any.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal {

// Ordinal of the host; devices count as in mobula::Device.
inline constexpr int on_host = -1;

struct DeviceAllocation {
  std::byte* bytes = nullptr;                   // device address, which the host must not access
  std::shared_ptr<const void> owner = nullptr;  // shared: keeps the memory alive
};

// `height` rows of `width` bytes, `pitch` bytes apart.
struct DeviceRows {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t width = 0;
  std::size_t height = 1;
  std::size_t to_pitch = 0;
  std::size_t from_pitch = 0;
};

struct DeviceCopy {
  std::vector<DeviceRows> rows;
  int to = on_host;  // `to`, `from`, or both are devices
  int from = on_host;
  // Streams of `from` with kernels that write the source. If it is empty and `settled` is false,
  // all work of this process on that device precedes the copy.
  std::vector<void*> after = {};
  bool settled = false;
  // Stream of the destination device, or of the source device for a copy to the host; its present
  // work precedes the copy.
  void* stream = nullptr;
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Fails with not_found for an unknown device. Fails with resource_exhausted, and the numbers,
  // beyond the share or without memory.
  virtual Result<DeviceAllocation> take(int device, std::size_t size_bytes) = 0;
  // Fills with zeros; complete on return.
  virtual Result<void> clear(int device, std::byte* bytes, std::size_t size_bytes) = 0;
  // Complete on return, for every stream. Fails with invalid_argument if one of the streams is
  // being captured into a graph, because waiting would break the capture.
  virtual Result<void> copy(const DeviceCopy& copy) = 0;
  // Waits for the present work of these streams of `device`; without streams, for all work of this
  // process on it. Fails with invalid_argument as `copy` does.
  virtual Result<void> finish(int device, const std::vector<void*>& streams) = 0;

  // UUID of a leased device; otherwise empty.
  virtual std::string uuid_of(int device) = 0;
  // Ordinal that receives a tensor of device `uuid`: the same device if leased, otherwise the first
  // one; `on_host` without a device.
  virtual int landing(const std::string& uuid) = 0;
  // True if other processes can map these bytes.
  virtual bool is_shareable(int device, const std::byte* bytes) = 0;
  // Stream of the first device for the calling thread; null without a device.
  virtual void* thread_stream() = 0;
};

// Device memory of this process; null without a lease. Global, because tensors are created by
// static functions.
std::shared_ptr<DeviceMemory> device_memory();
void set_device_memory(std::shared_ptr<DeviceMemory> memory);

}  // namespace mobula::internal
