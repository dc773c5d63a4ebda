// Detects executors that use more GPU memory than their share, and chooses the reaction. The memory
// of an executor includes the processes that it started. If the driver reports no memory per
// process, the use of the whole device is compared with the sum of the shares, and no single
// executor is blamed.
// Thread: owner (WorkerCore). Units: bytes. Not: sampling, killing.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "worker/core/worker_events.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

// An executor with a share of a device.
struct GpuHolder {
  SlotId slot;
  std::uint32_t generation = 0;
  std::uint32_t device = 0;      // index of the device on the node
  std::int64_t share_bytes = 0;  // share in bytes; 0: not limited
  std::string name;              // human-readable name
};

// A change: the executor begins or ceases to exceed its share.
struct GpuVerdict {
  SlotId slot;
  std::uint32_t generation = 0;
  bool on = false;
  Reacts reacts = Reacts::none;  // reaction that is due now
  std::string text;
};

class GpuGuard {
 public:
  explicit GpuGuard(const WorkerOptions& options) : options_(options) {}

  // Returns the changes since the last sample, in the order of `holders`. Each transition of an
  // executor on a device is reported once.
  std::vector<GpuVerdict> evaluate(const GpuMemorySampled& sample,
                                   std::span<const GpuHolder> holders);
  // Forgets the slot after its generation has ended.
  void gone(SlotId slot);

 private:
  const WorkerOptions& options_;
  std::map<std::pair<SlotId, std::uint32_t>, std::uint32_t> over_;  // generation over its share
};

}  // namespace mobula::internal::worker
