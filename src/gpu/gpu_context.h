// One GPU as this process uses it: the primary context of the device with a UUID, which user code's CUDA
// runtime shares, kept while anything of Mobula lies there. Only processes with a lease on the GPU make one:
// it initialises CUDA, after which the process must not fork. Any thread; a Current or what is made of it
// stays on its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/cuda_driver.h"
#include "gpu/device_uuid.h"

namespace mobula::internal {

struct GpuMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

class GpuContext : public std::enable_shared_from_this<GpuContext> {
 public:
  // The devices that CUDA_VISIBLE_DEVICES leaves, in CUDA's order. Initialises CUDA, makes no context.
  static Result<std::vector<DeviceUuid>> visible(const CudaDriver& driver);

  // not_found, naming those that are there, if no visible device has that UUID; unavailable for a device
  // that cannot map memory or hand it to others.
  static Result<std::shared_ptr<GpuContext>> open(std::shared_ptr<const CudaDriver> driver,
                                                  const DeviceUuid& uuid);
  ~GpuContext();
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  const CudaDriver& driver() const { return *driver_; }
  const CudaFunctions& call() const { return driver_->call(); }
  const DeviceUuid& uuid() const { return uuid_; }
  cuda_abi::Device ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  // "0000:3B:00.0"; empty where the driver does not say.
  std::string pci_bus_id() const;

  // While it lives the calling thread's current context is this one; before and after, what it was.
  // Neither disturbs nor is disturbed by a stream capture of user code.
  class Current {
   public:
    explicit Current(const GpuContext& of);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    // Why it is not; the calls made under it then fail.
    const Result<void>& made() const { return made_; }

   private:
    const GpuContext& of_;
    Result<void> made_;
    int capture_mode_ = cuda_abi::capture_mode_relaxed;
  };

  Result<GpuMemory> memory() const;
  // Whether kernels and copies here may touch that visible device's memory.
  bool reaches(const DeviceUuid& other) const;
  // The ordinals of the visible devices that may be given access to memory that lies here, this one first.
  std::vector<cuda_abi::Device> readers() const;
  // Waits for everything that this process has issued on the device. invalid_argument while user code captures
  // work of it into a graph: that would break the capture, as far as the driver says beforehand that there is one.
  Result<void> synchronize() const;

 private:
  GpuContext() = default;
  std::shared_ptr<const CudaDriver>
      driver_;  // shared: what calls it outlives each other in any order
  DeviceUuid uuid_{};
  cuda_abi::Device ordinal_ = 0;
  cuda_abi::Context context_ = nullptr;
  std::string name_;
};

// A stream of its own, which waits for no other one. Destroyed after what was issued on it.
class GpuStream {
 public:
  static Result<GpuStream> create(std::shared_ptr<const GpuContext> context);
  GpuStream(GpuStream&& other) noexcept;
  GpuStream& operator=(GpuStream&&) = delete;
  ~GpuStream();

  cuda_abi::Stream get() const { return stream_; }
  const GpuContext& context() const { return *context_; }
  Result<void> synchronize() const;

 private:
  GpuStream(std::shared_ptr<const GpuContext> context, cuda_abi::Stream stream)
      : context_(std::move(context)), stream_(stream) {}
  std::shared_ptr<const GpuContext> context_;  // shared with all that lies there
  cuda_abi::Stream stream_;
};

// A moment of a stream.
class GpuEvent {
 public:
  static Result<GpuEvent> create(std::shared_ptr<const GpuContext> context);
  GpuEvent(GpuEvent&& other) noexcept;
  GpuEvent& operator=(GpuEvent&&) = delete;
  ~GpuEvent();

  cuda_abi::Event get() const { return event_; }
  Result<void> record(cuda_abi::Stream stream) const;
  // Whether what was issued before it has ended.
  Result<bool> over() const;

 private:
  GpuEvent(std::shared_ptr<const GpuContext> context, cuda_abi::Event event)
      : context_(std::move(context)), event_(event) {}
  std::shared_ptr<const GpuContext> context_;  // shared with all that lies there
  cuda_abi::Event event_;
};

}  // namespace mobula::internal
