// Chunk stage of one device. Chunks pass through its slices of pinned memory, copied by its thread
// (device_copies.h) on a separate stream. A read without a free slice waits in FIFO order. A
// receiver without a buffer retries after `freed`.
// Thread: any. Owner: must be destroyed before its DeviceCopies.
#pragma once

#include <memory>

#include "transport/tensor/chunk_stage.h"
#include "transport/tensor/gpu/device_copies.h"

namespace mobula::internal {

struct DeviceStageOptions {
  std::size_t max_reads = 8'192;  // queued; further reads are rejected
};

class DeviceStage {
 public:
  // Allocates nothing on the device before the first chunk.
  DeviceStage(std::shared_ptr<const GpuContext> context, DeviceCopies& copies,
              DeviceStageOptions options = {});
  // Queued reads end with cancelled. Running copies end on the device's thread.
  ~DeviceStage();
  DeviceStage(const DeviceStage&) = delete;
  DeviceStage& operator=(const DeviceStage&) = delete;

  // Shared with the transfers that use it.
  std::shared_ptr<ChunkStage> stage() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with posted work
};

}  // namespace mobula::internal
