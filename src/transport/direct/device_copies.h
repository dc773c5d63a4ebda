// The one thread of this process that calls CUDA for the transfers of a device, beside its user's threads: it
// imports and gives up mappings, and copies on a stream of its own, in slices, so that a copy can be stopped
// between two of them and copies take turns. It looks at the device only while something is under way there.
// What goes to or comes from ordinary memory of the host goes by way of a few slices of pinned memory, so that
// the driver copies nothing behind a call; a copy that finds none free waits for one.
// The face is for the loop's thread, post() for any; a lock guards what the thread shares with it. The loop
// never waits for the driver, which may be held up by whatever user code does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "device/near_gpu.h"
#include "gpu/gpu_context.h"
#include "gpu/pinned_slices.h"
#include "transport/direct/copy_threads.h"
#include "transport/event_loop.h"

namespace mobula::internal {

// By which bytes of one device go to the host and come from it. Both are taken when they are needed first.
struct DeviceSlices {
  PinnedSlices out, in;
};

struct DeviceCopyOptions {
  std::uint64_t slice_bytes = 32u << 20;
  PinnedSliceOptions pinned = {};  // in each direction; slices are made at least staged_chunk_bytes large
  std::size_t max_copies = 4'096;  // that wait or run
  CpuList cpus = {};               // near the device: its thread runs there, as far as it may
};

class DeviceCopies final : public Copies {
 public:
  // Fails with what the driver says where the device has no stream to give.
  static Result<std::unique_ptr<DeviceCopies>> create(EventLoop& loop,
                                                      std::shared_ptr<const GpuContext> context,
                                                      DeviceCopyOptions options = {});
  // Waits for slices in progress, and for what was posted; nobody is answered.
  ~DeviceCopies() override;
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // Where `to` and `from` are of devices or of the host, of which at least one is a device's; unavailable when
  // the context is lost.
  Result<std::uint64_t> start(Copy copy) override;
  void stop(std::uint64_t copy) override;

  // Runs on the device's thread, in order. Any thread, also after this is gone: then at once.
  class Poster;
  std::shared_ptr<Poster> poster() const;
  // Shared with what is on its way through them.
  const std::shared_ptr<DeviceSlices>& slices() const;
  // Runs `work` there, and then what it returns on the loop, unless this is gone.
  void run(std::function<std::function<void()>()> work);

 private:
  class Impl;
  explicit DeviceCopies(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;  // shared with what is posted
};

class DeviceCopies::Poster {
 public:
  virtual ~Poster() = default;
  virtual void post(std::function<void()> work) = 0;
  // For the device's thread: calls `step` there, over and over, until it returns true.
  virtual void watch(std::function<bool()> step) = 0;
  // Any thread: on the loop, unless its owner is gone by then.
  virtual void tell(std::function<void()> news) = 0;
};

}  // namespace mobula::internal
