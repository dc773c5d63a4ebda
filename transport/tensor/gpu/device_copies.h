// The thread of this process that calls CUDA for the transfers of one device. It maps and unmaps
// memory and copies on its own stream, in slices, so that a copy can be stopped and copies
// alternate. Copies from or to pageable host memory use a few pinned slices, so that the driver
// makes no hidden copy; without a free slice, a copy waits.
// Thread: the event loop, except post(), which is for any (one lock). The loop never waits for the
// driver, which user code may delay. The device is polled only while an operation is in progress.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "device/gpu/gpu_context.h"
#include "device/gpu/pinned_slices.h"
#include "device/near_gpu.h"
#include "transport/loop/event_loop.h"
#include "transport/tensor/copy_threads.h"

namespace mobula::internal {

// Pinned slices for both directions between host and device, allocated with their first use.
struct DeviceSlices {
  PinnedSlices out, in;
};

struct DeviceCopyOptions {
  std::uint64_t slice_bytes = 32u << 20;
  PinnedSliceOptions pinned = {};  // per direction; slice size at least staged_chunk_bytes
  std::size_t max_copies = 4'096;  // queued or running
  CpuList cpus = {};               // near the device: preferred CPUs of its thread
};

class DeviceCopies final : public Copies {
 public:
  // Fails with the error of the driver if it cannot create a stream.
  static Result<std::unique_ptr<DeviceCopies>> create(EventLoop& loop,
                                                      std::shared_ptr<const GpuContext> context,
                                                      DeviceCopyOptions options = {});
  // Waits for current slices and posted work. No callback runs.
  ~DeviceCopies() override;
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // `to` or `from` is device memory, the other may be host memory. Errors: unavailable if the
  // context is lost.
  Result<std::uint64_t> start(Copy copy) override;
  void stop(std::uint64_t copy) override;

  // Runs work on the device's thread, in order. Thread: any. After the destruction of this object,
  // work runs at once.
  class Poster;
  std::shared_ptr<Poster> poster() const;
  // Shared with the copies in progress.
  const std::shared_ptr<DeviceSlices>& slices() const;
  // Runs `work` on the device's thread and its returned function on the loop, unless this object
  // was destroyed.
  void run(std::function<std::function<void()>()> work);

 private:
  class Impl;
  explicit DeviceCopies(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;  // shared with posted work
};

class DeviceCopies::Poster {
 public:
  virtual ~Poster() = default;
  virtual void post(std::function<void()> work) = 0;
  // For the device's thread: calls `step` repeatedly there until it returns true.
  virtual void watch(std::function<bool()> step) = 0;
  // Thread: any. Runs `news` on the loop, unless its owner was destroyed.
  virtual void tell(std::function<void()> news) = 0;
};

}  // namespace mobula::internal
