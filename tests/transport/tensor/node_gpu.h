// Device memory of a node on a simulated machine. Sources and targets are in it and are inspected
// through host memory.
// Thread: the event loop.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/gpu/device_arena.h"
#include "transport/loop/event_loop.h"
#include "transport/tensor/node.h"
#include "transport/tensor/region.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal::direct_test {

class NodeGpu {
 public:
  // Opens the device in the options. From then on, this process sees no other device.
  static Result<std::unique_ptr<NodeGpu>> open(const NodeOptions& options);

  Result<std::unique_ptr<TensorTransport>> make_transport(EventLoop& loop, ProcessId process);

  Result<DeviceBytes> take_source(std::uint64_t size) { return sources_->take(size); }
  Result<DeviceBytes> take_target(std::uint64_t size) { return targets_->take(size); }
  SourceRegion source(std::span<std::byte> bytes, const DeviceFile& file) const;
  MemoryLocation location() const { return {MemoryKind::device, context_->uuid()}; }

  void write(std::span<std::byte> device, std::span<const std::byte> host) const;
  void read(std::span<std::byte> host, std::span<const std::byte> device) const;

  std::uint64_t source_bytes() const { return sources_->used_bytes(); }

  bool lost() const { return lost_; }

 private:
  NodeOptions options_;
  bool lost_ = false;
  std::shared_ptr<GpuContext> context_;
  std::shared_ptr<DeviceArena> sources_, targets_;
  std::shared_ptr<std::function<void(std::uint64_t)>>
      closed_;  // shared with the arena; set when the transport exists
};

}  // namespace mobula::internal::direct_test
