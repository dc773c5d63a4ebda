// The stage of one device: chunks go through its slices of pinned memory, copied by its one thread
// (device_copies.h) on a stream of their own. A read that finds no slice waits for one, in order; a receiver that
// finds no room asks again when it is told. Any thread. Must end before the DeviceCopies whose thread it uses.
#pragma once

#include <memory>

#include "transport/direct/chunk_stage.h"
#include "transport/direct/device_copies.h"

namespace mobula::internal {

struct DeviceStageOptions {
  std::size_t max_reads = 8'192;  // that wait; further ones are refused
};

class DeviceStage {
 public:
  // Takes nothing of the device before the first chunk.
  DeviceStage(std::shared_ptr<const GpuContext> context, DeviceCopies& copies, DeviceStageOptions options = {});
  // Reads that wait end with cancelled; what is under way ends on the device's thread.
  ~DeviceStage();
  DeviceStage(const DeviceStage&) = delete;
  DeviceStage& operator=(const DeviceStage&) = delete;

  // Shared with the transfers that use it.
  std::shared_ptr<ChunkStage> stage() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with what is posted
};

}  // namespace mobula::internal
