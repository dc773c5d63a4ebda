// Transfers of device memory between processes of one machine: chunks of the holder's arena, whose descriptors
// receivers import, map and copy from, or see in place. One transport for each device of the receiver, on
// which it copies; what it pulls lands there or in host memory. See tensor_transport.h for what is promised.
//
// Bytes are free for others only when nobody reaches them: a chunk that the holder gives up is let go of by
// all who have imported it, and what a dead holder had is let go of when its connection ends.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "gpu/device_arena.h"
#include "gpu/gpu_context.h"
#include "transport/direct/device_copies.h"
#include "transport/direct/mapped_transport.h"

namespace mobula::internal {

struct CudaIpcOptions {
  std::string socket;  // where receivers connect: in a folder of mode 0700
  // Devices whose memory this one reaches, besides its own: as the node's agent has seen, since a process
  // sees its own devices only.
  std::set<DeviceUuid> peers = {};
  DeviceCopyOptions copying = {};
  DirectLimits limits = {};
  std::uint64_t max_mapped_bytes = 1ull << 40;  // of other processes
};

class CudaIpcTransport final : public MappedTransport {
 public:
  // Whether there is a driver here, and devices that hand memory to other processes. Initialises nothing.
  static Availability probe();
  // Fails with what LocalListener::open fails with, and what the driver says.
  static Result<std::unique_ptr<CudaIpcTransport>> create(EventLoop& loop, ProcessId process,
                                                          std::shared_ptr<const GpuContext> context,
                                                          CudaIpcOptions options);
  ~CudaIpcTransport() override;

  std::string_view name() const override { return "cuda_ipc"; }
  Result<PathCost> reach(const Peer& peer, const MemoryPlace& source,
                         const MemoryPlace& target) const override;

  // What an arena tells of chunks that it has given up, by DeviceArena's `closed`. Any thread, also after the
  // transport's end.
  std::function<void(std::uint64_t chunk)> closed();
  // By which it copies; for other copies of the same device, until this ends.
  DeviceCopies& copies() const { return *device_copies_; }

 private:
  CudaIpcTransport(EventLoop& loop, CudaIpcOptions options, ShmEndpoint self,
                   std::shared_ptr<const GpuContext> context);

  const CudaIpcOptions options_;
  const std::shared_ptr<const GpuContext> context_;  // shared with all that lies there
  DeviceCopies* device_copies_ = nullptr;            // of the base class
};

// To be offered as it is.
SourceRegion region_of(const DeviceUuid& device, std::span<const std::byte> bytes,
                       const DeviceFile& file);

}  // namespace mobula::internal
