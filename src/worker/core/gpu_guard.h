// Who has more of a device's memory than its share, and what is done about it. What an executor and the
// processes it has started take counts together; where the driver does not tell processes apart, only that
// all of a device's holders together have more than they may, which is nobody's fault for certain. Part of
// WorkerCore; decides from what it is given alone.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "worker/core/worker_event.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

// An executor that has a part of a device.
struct GpuHolder {
  SlotId slot;
  std::uint32_t generation = 0;
  std::uint32_t device = 0;      // its index on the node
  std::int64_t share_bytes = 0;  // 0: not counted
  std::string name;              // for people
};

// One that begins to have more than its share, or no longer has.
struct GpuVerdict {
  SlotId slot;
  std::uint32_t generation = 0;
  bool on = false;
  Reacts reacts = Reacts::none;  // what is to be done now
  std::string text;
};

class GpuGuard {
 public:
  explicit GpuGuard(const WorkerOptions& options) : options_(options) {}

  // In the order of `holders`. Each executor is told of once for each device and each time.
  std::vector<GpuVerdict> look(const GpuMemorySampled& sample, std::span<const GpuHolder> holders);
  // Nothing of the slot's last generation is left.
  void gone(SlotId slot);

 private:
  const WorkerOptions& options_;
  std::map<std::pair<SlotId, std::uint32_t>, std::uint32_t> over_;  // slot and device: the generation
};

}  // namespace mobula::internal::worker
