// The NCCL communicator of one member of a group: over all members, on one device of this process. Begun with the
// group, used for one operation at a time, taken down with the group or by what fails; where it cannot even be taken
// down the process is to be replaced. Who begins it or an operation has the turn of the device. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "collective/core/operation.h"
#include "collective/core/progress.h"
#include "collective/device_thread.h"
#include "gpu/gpu_context.h"
#include "gpu/nccl_library.h"
#include "transport/direct/nccl_channel.h"

namespace mobula::internal::collective {

// What a member does for an operation that all have agreed on: `memory` is of the device, its scratch unused.
// Nothing for what moves nothing. Of two alone: with `peer`.
std::vector<NcclCall> calls_for(const Operation& operation, std::uint32_t rank, std::uint32_t members, const Memory& memory,
                                std::uint32_t peer = 0);

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  struct Terms {
    std::shared_ptr<const NcclLibrary> nccl;    // shared by all of the process
    std::shared_ptr<const GpuContext> context;  // shared with all that lies there
    std::uint32_t rank = 0;
    std::uint32_t ranks = 0;
    Duration patience = 10s;                        // for it to end
    std::function<void(const std::string&)> lost;   // it cannot be ended; by some thread
    std::function<void()> wake;                     // of who waits for done() or quiet()
  };
  // `thread` outlives it.
  Communicator(DeviceThread& thread, Terms terms) : thread_(thread), terms_(std::move(terms)) {}

  // Of the first rank: what the others need to begin.
  Result<nccl_abi::UniqueId> make_id() const;
  void begin(const nccl_abi::UniqueId& id, Time deadline);
  // `keeps` the memory until the library lets go of it.
  void move(std::vector<NcclCall> calls, Duration limit, std::shared_ptr<const void> keeps);
  // Of what was begun last, once it has ended.
  std::optional<Result<void>> done();
  // Others wait for nobody here any more; quiet() when the library reads and writes nothing, or never will end.
  void take_down(const Failure& why);
  bool quiet() const;
  // It is quiet as far as it will ever be: its library may go on for ever.
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

  // The thread's.
  std::unique_ptr<NcclChannel> channel_;
  bool watched_ = false;
};

}  // namespace mobula::internal::collective
