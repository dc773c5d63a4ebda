// NCCL communicator of one group member, over all members, on one device of this process. It runs
// one operation at a time and is destroyed with the group or after a failure.
// Thread: any. The caller must hold the turn of the device to begin the communicator or an
// operation.
// Errors: if the communicator cannot be destroyed, `lost` requests a replacement of the process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "device/gpu/gpu_context.h"
#include "device/gpu/nccl_library.h"
#include "tensor/collective/core/operation.h"
#include "tensor/collective/core/plan_progress.h"
#include "tensor/collective/device_thread.h"
#include "transport/tensor/gpu/nccl_channel.h"

namespace mobula::internal::collective {

// NCCL calls of one member for an agreed operation; `memory` is device memory, without scratch.
// Empty if no bytes move. A send or receive names its `peer`.
std::vector<NcclCall> calls_for(const Operation& operation, std::uint32_t rank,
                                std::uint32_t members, const Memory& memory,
                                std::uint32_t peer = 0);

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  struct Terms {
    std::shared_ptr<const NcclLibrary> nccl;    // shared by the process
    std::shared_ptr<const GpuContext> context;  // shared with all allocations on the device
    std::uint32_t rank = 0;
    std::uint32_t ranks = 0;
    Duration shutdown_timeout = 10s;  // time to shut down
    // the communicator cannot be ended; runs on any thread
    std::function<void(const std::string&)> lost;
    std::function<void()> wake;  // wakes the thread that waits for `done` or `quiet`
  };
  // `thread` must outlive the communicator.
  Communicator(DeviceThread& thread, Terms terms) : thread_(thread), terms_(std::move(terms)) {}

  // Unique id that rank 0 creates and all members need to begin.
  Result<nccl_abi::UniqueId> make_id() const;
  void begin(const nccl_abi::UniqueId& id, Time deadline);
  // `keeps` owns the memory until the library no longer accesses it.
  void move(std::vector<NcclCall> calls, Duration limit, std::shared_ptr<const void> keeps);
  // Result of the most recent operation, returned once; empty until the operation ends.
  std::optional<Result<void>> done();
  // Shuts the communicator down with this reason. `quiet` follows when the library no longer
  // accesses memory, or when that will never happen.
  void take_down(const Failure& why);
  bool quiet() const;
  // True if the library may access memory forever.
  bool lost() const;

 private:
  void ended(const Result<void>& result);
  void drive();

  DeviceThread& thread_;
  const Terms terms_;
  mutable Mutex mutex_;
  std::optional<Result<void>> done_ MOBULA_GUARDED_BY(mutex_);
  bool begun_ MOBULA_GUARDED_BY(mutex_) = false;
  bool quiet_ MOBULA_GUARDED_BY(mutex_) = false;
  bool lost_ MOBULA_GUARDED_BY(mutex_) = false;
  bool taken_down_ MOBULA_GUARDED_BY(mutex_) = false;

  // State of the device thread:
  std::unique_ptr<NcclChannel> channel_;
  bool watched_ = false;
};

}  // namespace mobula::internal::collective
