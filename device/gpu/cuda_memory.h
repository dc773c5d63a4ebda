// Device memory over CUDA: one arena per leased device, within its memory share, and copies between
// devices and the host.
// Thread: any. The caller must not hold a lock that a stream's work waits for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "device/device_memory.h"
#include "device/gpu/device_arena.h"

namespace mobula::internal {

class CudaMemory final : public DeviceMemory {
 public:
  // `arenas`: by device ordinal in this process; null without a lease.
  explicit CudaMemory(std::vector<std::shared_ptr<DeviceArena>> arenas)
      : arenas_(std::move(arenas)) {}

  Result<DeviceAllocation> take(int device, std::size_t size_bytes) override;
  Result<void> clear(int device, std::byte* bytes, std::size_t size_bytes) override;
  Result<void> copy(const DeviceCopy& copy) override;
  Result<void> finish(int device, const std::vector<void*>& streams) override;
  std::string uuid_of(int device) override;
  int landing(const std::string& uuid) override;
  bool is_shareable(int device, const std::byte* bytes) override;
  void* thread_stream() override;

 private:
  Result<void> copy_by_host(const DeviceCopy& copy);
  Result<DeviceArena*> arena_of(int device) const;

  const std::vector<std::shared_ptr<DeviceArena>>
      arenas_;  // shared with offers of memory on the device
  Mutex mutex_;
  std::map<std::thread::id, GpuStream> streams_ MOBULA_GUARDED_BY(mutex_);  // by requesting thread
};

}  // namespace mobula::internal
