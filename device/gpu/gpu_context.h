// One GPU as this process uses it: the primary context of the device, shared with the CUDA runtime
// of user code and retained while Mobula has memory in it. Only processes with a lease create one,
// because it initializes CUDA. After that, the process must not fork.
// Thread: any. A `Current` and objects created under it stay on their thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/gpu/cuda_driver.h"
#include "device/gpu/device_uuid.h"

namespace mobula::internal {

struct GpuMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

class GpuContext : public std::enable_shared_from_this<GpuContext> {
 public:
  // Devices visible through CUDA_VISIBLE_DEVICES, in CUDA's order. Initializes CUDA, creates no
  // context.
  static Result<std::vector<DeviceUuid>> visible(const CudaDriver& driver);

  // Fails with not_found, and the visible UUIDs, for an unknown UUID. Fails with unavailable for a
  // device that cannot map or export memory.
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
  // Text such as "0000:3B:00.0"; empty if the driver does not report it.
  std::string pci_bus_id() const;

  // Makes this context current on the calling thread for its lifetime, then restores the previous
  // one. Independent of stream captures of user code.
  class Current {
   public:
    explicit Current(const GpuContext& of);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    // Reason why the context is not current; calls under it then fail.
    const Result<void>& made() const { return made_; }

   private:
    const GpuContext& of_;
    Result<void> made_;
    int capture_mode_ = cuda_abi::capture_mode_relaxed;
  };

  Result<GpuMemory> memory() const;
  // True if kernels and copies of this device can access memory of that visible device.
  bool reaches(const DeviceUuid& other) const;
  // Ordinals of the visible devices that can be granted access to memory on this one; this device
  // is first.
  std::vector<cuda_abi::Device> readers() const;
  // Waits for all work of this process on the device. Fails with invalid_argument during a graph
  // capture by user code, because the wait would break the capture; the driver does not report
  // every capture in advance.
  Result<void> synchronize() const;

 private:
  GpuContext() = default;
  std::shared_ptr<const CudaDriver>
      driver_;  // shared: objects that use the driver are destroyed in any order
  DeviceUuid uuid_{};
  cuda_abi::Device ordinal_ = 0;
  cuda_abi::Context context_ = nullptr;
  std::string name_;
};

// A separate stream that waits for no other stream. The driver frees it after its work.
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
  std::shared_ptr<const GpuContext> context_;  // shared with all allocations on the device
  cuda_abi::Stream stream_;
};

// A position in a stream.
class GpuEvent {
 public:
  static Result<GpuEvent> create(std::shared_ptr<const GpuContext> context);
  GpuEvent(GpuEvent&& other) noexcept;
  GpuEvent& operator=(GpuEvent&&) = delete;
  ~GpuEvent();

  cuda_abi::Event get() const { return event_; }
  Result<void> record(cuda_abi::Stream stream) const;
  // True if the work issued before the event has ended.
  Result<bool> over() const;

 private:
  GpuEvent(std::shared_ptr<const GpuContext> context, cuda_abi::Event event)
      : context_(std::move(context)), event_(event) {}
  std::shared_ptr<const GpuContext> context_;  // shared with all allocations on the device
  cuda_abi::Event event_;
};

}  // namespace mobula::internal
