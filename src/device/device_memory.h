// The memory of this process's devices as tensors use it: taken, filled, copied. Implemented over the driver
// (`gpu`) where the process has a lease on a device, so that nothing that handles tensors includes one. Any
// thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal {

// A device counts as in mobula::Device; the host has none.
inline constexpr int on_host = -1;

struct DeviceAllocation {
  std::byte* bytes = nullptr;                   // of the device: the host must not look there
  std::shared_ptr<const void> owner = nullptr;  // shared: the memory lives as long as this
};

// `height` stretches of `width` bytes, each `pitch` bytes behind the one before.
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
  int to = on_host;  // one of the two is a device
  int from = on_host;
  // Streams of `from` on which kernels write what is read; none, and `settled` false: whatever this process
  // has issued there comes first.
  std::vector<void*> after = {};
  bool settled = false;
  // A stream of the device to which bytes go, or from which they come to the host: what was issued there
  // comes first.
  void* stream = nullptr;
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // not_found without such a device, resource_exhausted beyond the share or without room, with the numbers.
  virtual Result<DeviceAllocation> take(int device, std::size_t size_bytes) = 0;
  // Zeros, there when this returns.
  virtual Result<void> clear(int device, std::byte* bytes, std::size_t size_bytes) = 0;
  // There when this returns, for every stream. invalid_argument while one of the streams is being captured
  // into a graph, which waiting would break.
  virtual Result<void> copy(const DeviceCopy& copy) = 0;
  // Waits until what these streams of `device` have is through; none: whatever this process has issued
  // there. invalid_argument as of copy().
  virtual Result<void> finish(int device, const std::vector<void*>& streams) = 0;

  // What names a device everywhere; empty for one that this process has no lease on.
  virtual std::string uuid_of(int device) = 0;
  // Where a tensor of that device comes to lie here: there, else on the first one; on_host without any.
  virtual int landing(const std::string& uuid) = 0;
  // Whether these bytes lie where other processes can reach them.
  virtual bool is_shareable(int device, const std::byte* bytes) = 0;
  // A stream of the first device, for the calling thread; null where there is none.
  virtual void* thread_stream() = 0;
};

// That of this process, once it has one; tensors are made by static functions, which nobody can hand it to.
std::shared_ptr<DeviceMemory> device_memory();
void set_device_memory(std::shared_ptr<DeviceMemory> memory);

}  // namespace mobula::internal
