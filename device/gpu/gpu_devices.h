// Opens and owns the GPUs that this process leases: contexts, an arena within the memory share,
// NCCL. Devices are opened on first use. A process without a lease has no instance and never
// initializes CUDA.
// Thread: any. `open()` can take a second: call it without a lock that other threads need.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/quantity.h"
#include "base/result.h"
#include "device/device_memory.h"
#include "device/gpu/cuda_memory.h"
#include "device/gpu/device_arena.h"
#include "device/gpu/gpu_context.h"
#include "device/gpu/nccl_library.h"
#include "device/gpu/pinned_slices.h"
#include "device/near_gpu.h"

namespace mobula::internal::exchange {

// One leased GPU, as the agent of the node reports it.
struct GpuTerms {
  std::string uuid = {};  // empty: unknown; the next visible GPU is used
  Quantity amount = Quantity::whole(1);
  // limit for the program's tensors; 0: the leased fraction of the device
  std::uint64_t memory_bytes = 0;
  std::uint64_t context_bytes = 0;   // reserved for the CUDA context of this process
  std::set<std::string> peers = {};  // UUIDs of GPUs with peer access
};

class GpuDevices : public std::enable_shared_from_this<GpuDevices> {
 public:
  struct Device {
    std::string uuid;
    std::set<DeviceUuid> peers;
    // shared with all allocations on the device; null: visible, but not leased
    std::shared_ptr<GpuContext> context;
    std::shared_ptr<DeviceArena> arena;  // shared with offers of memory on the device
    std::string bus_id = {};             // PCI address; empty: unknown
    CpuList cpus = {};                   // CPUs near the device, for its threads; empty: any
  };

  // `lost` is called once, on any thread, with the reason, when the CUDA contexts of this process
  // have become unusable. `staging` sizes the pinned memory for copies between each device and the
  // host.
  GpuDevices(std::vector<GpuTerms> terms, std::function<void(const std::string&)> lost,
             PinnedSliceOptions staging = {});
  ~GpuDevices();
  GpuDevices(const GpuDevices&) = delete;
  GpuDevices& operator=(const GpuDevices&) = delete;

  const PinnedSliceOptions& staging() const { return staging_; }

  // Opens the devices once; concurrent callers wait for the result. The result is final. It is a
  // failure if the driver is missing or no device can be used.
  Result<void> open();
  bool is_open() const { return settled_.load(); }  // also true after a failure

  // ---- valid after open() ----
  // Devices by the index of `mobula::Device`; empty after a failure.
  const std::vector<Device>& devices() const { return devices_; }
  // Reason of an empty device list; otherwise empty.
  const std::string& why_none() const { return why_none_; }
  // CPUs and network interfaces near the devices; empty if unknown.
  const MachineLocality& locality() const { return locality_; }
  // The NCCL library, or the reason why it cannot be used.
  const Result<std::shared_ptr<const NcclLibrary>>& nccl() const { return nccl_; }
  // Ordinal of the device with this UUID.
  std::optional<std::uint32_t> ordinal_of(const std::string& uuid) const;
  // Ordinal of the device that receives a tensor of device `uuid`: the same device if leased,
  // otherwise the first one; `on_host` without a device.
  int landing(const std::string& uuid) const;

  // Allocates device memory. Any thread may release it, a loop thread too: a background thread
  // frees it. If the share is exhausted, the call first waits for pending frees.
  Result<DeviceAllocation> take(int device, std::uint64_t size_bytes);
  // Sets the callback for each chunk that the arena of a device closes; null removes it.
  void on_closed(std::uint32_t device_ordinal, std::function<void(std::uint64_t chunk)> callback);

  // Device memory for tensors; its first use opens the devices.
  std::shared_ptr<DeviceMemory> memory();

 private:
  friend class LeasedMemory;
  struct Closed {
    Mutex mutex;
    std::function<void(std::uint64_t)> callback MOBULA_GUARDED_BY(mutex);
  };

  Result<void> open_all();
  Result<Device> open_one(const std::shared_ptr<const CudaDriver>& driver, const DeviceUuid& uuid,
                          const GpuTerms& terms, std::size_t index);
  void discover();
  std::shared_ptr<const void> freed_elsewhere(std::shared_ptr<const void> owner);
  void free_later(std::shared_ptr<const void> owner);
  void wait_until_freed();
  void free_all();

  const std::vector<GpuTerms> terms_;
  const std::function<void(const std::string&)> lost_;
  const PinnedSliceOptions staging_;
  std::once_flag once_;
  std::atomic<bool> settled_ = false;
  Result<void> opened_;
  std::string why_none_;
  std::vector<Device> devices_;
  MachineLocality locality_;
  std::vector<std::shared_ptr<Closed>> closed_;  // by device ordinal; shared with the arenas
  std::shared_ptr<CudaMemory> cuda_;
  Result<std::shared_ptr<const NcclLibrary>> nccl_ =
      failure(ErrorCode::unavailable, "no GPU of this process is open");

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<const void>> to_free_ MOBULA_GUARDED_BY(mutex_);
  bool freeing_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
  std::thread freer_;  // started by the first deferred free
};

}  // namespace mobula::internal::exchange
