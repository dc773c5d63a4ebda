// DeviceMemory over CUDA: an arena for each device that this process has a lease on, within its share, and
// copies between them and the host. Any thread that holds no lock for which a stream's work waits.
#pragma once

#include <memory>
#include <vector>

#include "device/device_memory.h"
#include "gpu/device_arena.h"

namespace mobula::internal {

class CudaMemory final : public DeviceMemory {
 public:
  // `arenas`: by the index of the device in this process; null where it has no lease.
  explicit CudaMemory(std::vector<std::shared_ptr<DeviceArena>> arenas)
      : arenas_(std::move(arenas)) {}

  Result<DeviceAllocation> take(int device, std::size_t size_bytes) override;
  Result<void> clear(int device, std::byte* bytes, std::size_t size_bytes) override;
  Result<void> copy(const DeviceCopy& copy) override;

 private:
  Result<void> copy_by_host(const DeviceCopy& copy);
  Result<DeviceArena*> arena_of(int device) const;

  const std::vector<std::shared_ptr<DeviceArena>>
      arenas_;  // shared with who offers what lies there
};

}  // namespace mobula::internal
