// Transfers of device memory between processes of one machine. Receivers import the descriptors of
// arena chunks, map them, and copy from them or use them in place. Each device of the receiver has
// its own transport, which copies on it. Pulled bytes are stored there or in host memory.
// Thread: see tensor_transport.h, which also states the guarantees.
// Owner: a chunk is reused only after every importer has unmapped it. The memory of a dead holder
// is unmapped when its connection ends.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "device/gpu/device_arena.h"
#include "device/gpu/gpu_context.h"
#include "transport/tensor/gpu/device_copies.h"
#include "transport/tensor/shm/mapped_transport.h"

namespace mobula::internal {

struct CudaIpcOptions {
  std::string socket;  // socket for receivers, in a directory of mode 0700
  // Devices whose memory is accessible from this device, in addition to its own. The node's agent
  // provides the set, because a process sees only its own devices.
  std::set<DeviceUuid> peers = {};
  DeviceCopyOptions copying = {};
  DirectLimits limits = {};
  std::uint64_t max_mapped_bytes = 1ull << 40;  // limit for memory of other processes
};

class CudaIpcTransport final : public MappedTransport {
 public:
  // Reports whether a driver and devices with exportable memory exist. Initializes nothing.
  static Availability probe();
  // Fails with an error of LocalListener::open or of the driver.
  static Result<std::unique_ptr<CudaIpcTransport>> create(EventLoop& loop, ProcessId process,
                                                          std::shared_ptr<const GpuContext> context,
                                                          CudaIpcOptions options);
  ~CudaIpcTransport() override;

  std::string_view name() const override { return "cuda_ipc"; }
  Result<PathCost> reach(const Peer& peer, const MemoryLocation& source,
                         const MemoryLocation& target) const override;

  // Callback for the `closed` event of DeviceArena, which reports freed chunks. Thread: any, also
  // after the transport has ended.
  std::function<void(std::uint64_t chunk)> closed();
  // The copier of this device, also for other copies until this transport ends.
  DeviceCopies& copies() const { return *device_copies_; }

 private:
  CudaIpcTransport(EventLoop& loop, CudaIpcOptions options, ShmEndpoint self,
                   std::shared_ptr<const GpuContext> context);

  const CudaIpcOptions options_;
  const std::shared_ptr<const GpuContext> context_;  // shared with all memory of the device
  DeviceCopies* device_copies_ = nullptr;            // owned by the base class
};

// Describes device memory as a region that can be offered.
SourceRegion region_of(const DeviceUuid& device, std::span<const std::byte> bytes,
                       const DeviceFile& file);

}  // namespace mobula::internal
