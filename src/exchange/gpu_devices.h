// The GPUs that this process has a lease on: contexts, memory within its share, NCCL. Nothing is opened before
// something needs it, and only processes with a lease have one of these, so that no other one initialises CUDA.
// Any thread; open() may take a second, so it is for threads that hold no lock others wait for.
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
#include "device/near_gpu.h"
#include "gpu/cuda_memory.h"
#include "gpu/device_arena.h"
#include "gpu/gpu_context.h"
#include "gpu/nccl_library.h"
#include "gpu/pinned_slices.h"

namespace mobula::internal::exchange {

// Of one GPU, as the node's agent knows it.
struct GpuTerms {
  std::string uuid = {};  // empty: not known, so it is the next one that is visible
  Quantity amount = Quantity::whole(1);
  std::uint64_t memory_bytes = 0;   // that the program may take; 0: its part of all
  std::uint64_t context_bytes = 0;  // kept back for this process's context
  std::set<std::string> peers = {};  // whose memory it reaches
};

class GpuDevices : public std::enable_shared_from_this<GpuDevices> {
 public:
  struct Device {
    std::string uuid;
    std::set<DeviceUuid> peers;
    std::shared_ptr<GpuContext> context;  // shared with all that lies there; null: not of the lease
    std::shared_ptr<DeviceArena> arena;   // shared with who offers what lies there
    std::string bus_id = {};              // on PCI; empty: not known
    CpuList cpus = {};                    // near it, for threads that serve it; empty: any
  };

  // `lost` is told once, by any thread, when the contexts of this process are of no use any more, with why.
  // `staging`: by which memory each device's tensors go to the host and come from it.
  GpuDevices(std::vector<GpuTerms> terms, std::function<void(const std::string&)> lost, PinnedSliceOptions staging = {});
  ~GpuDevices();
  GpuDevices(const GpuDevices&) = delete;
  GpuDevices& operator=(const GpuDevices&) = delete;

  const PinnedSliceOptions& staging() const { return staging_; }

  // Once; whoever comes meanwhile waits. Fails the same way for ever where there is no driver, or none of the
  // devices can be used.
  Result<void> open();
  bool is_open() const { return settled_.load(); }  // or has failed to

  // ---- after open() ----
  // By the index of mobula::Device; none where it has failed.
  const std::vector<Device>& devices() const { return devices_; }
  // Why there are none, or empty.
  const std::string& why_none() const { return why_none_; }
  // What lies near them; nothing where that is not known.
  const MachineLocality& locality() const { return locality_; }
  // not_found and the like: why NCCL cannot be used.
  const Result<std::shared_ptr<const NcclLibrary>>& nccl() const { return nccl_; }
  // Which of them has that UUID.
  std::optional<std::uint32_t> lane_of(const std::string& uuid) const;
  // Where a tensor of that device comes to lie: there, else on the first; on_host without any.
  int landing(const std::string& uuid) const;

  // Memory that may be let go of by any thread, a loop's too: it is freed by a thread for that. Whoever finds no
  // room waits for what is on its way to be freed.
  Result<DeviceAllocation> take(int device, std::uint64_t size_bytes);
  // Told of each chunk of a device's arena that is gone; null: nobody.
  void on_closed(std::uint32_t lane, std::function<void(std::uint64_t chunk)> told);

  // For tensors; opens when it is used first.
  std::shared_ptr<DeviceMemory> memory();

 private:
  friend class LeasedMemory;
  struct Closed {
    Mutex mutex;
    std::function<void(std::uint64_t)> told MOBULA_GUARDED_BY(mutex);
  };

  Result<void> open_all();
  Result<Device> open_one(const std::shared_ptr<const CudaDriver>& driver, const DeviceUuid& uuid,
                          const GpuTerms& terms, std::size_t index);
  void look_around();
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
  std::vector<std::shared_ptr<Closed>> closed_;  // by lane; shared with the arenas
  std::shared_ptr<CudaMemory> cuda_;
  Result<std::shared_ptr<const NcclLibrary>> nccl_ = failure(ErrorCode::unavailable, "no GPU of this process is open");

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<const void>> to_free_ MOBULA_GUARDED_BY(mutex_);
  bool freeing_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
  std::thread freer_;  // from the first that has to be freed elsewhere
};

}  // namespace mobula::internal::exchange
