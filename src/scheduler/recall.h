// What the scheduler wants back, and when it does. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/withholding.h"

namespace mobula::internal::scheduler {

enum class RecallCause : std::uint8_t {
  fair_share,
  reservation,
  quota,
  overdraft,
  preemption,
  residence
};
std::string_view to_string(RecallCause cause);

// The lessee is to finish the running task, hand the rest back and return the slot. Preemption: it is
// to end the running task, if that may run again, or, where `asks`, to say whether it may.
struct Recall {
  SlotId slot;
  NodeId node;
  ProcessId lessee;
  RecallCause cause = RecallCause::fair_share;
  JobId for_job;  // empty for an overdraft, which nobody waits for
  ClassId for_class;
  bool asks = false;
};

struct ReclaimSettings {
  Duration recall_after = 200ms;
  Duration recall_again = 2s;    // recalled slots that are not back by then are not counted on
  Duration reserve_after = 2s;
  Duration pause = 100ms;        // between two rounds
  WithholdingSettings withholding;
  // Bounds of what one round looks at, so that none takes long: who was not looked at is in the next.
  std::size_t demands_per_round = 32;
  std::size_t nodes_per_demand = 16;  // each time that it looks for one slot
  std::size_t nodes_per_round = 64;
};

}  // namespace mobula::internal::scheduler
