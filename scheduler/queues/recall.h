// Slots that the scheduler recalls, and the settings of recalls.
// Thread: owner (plain values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/queues/reservation_gate.h"

namespace mobula::internal::scheduler {

enum class RecallCause : std::uint8_t {
  fair_share,
  reservation,
  quota,
  oversubscription,
  preemption,
  residence
};
std::string_view to_string(RecallCause cause);

// The lessee must finish the running task, return the other calls, and return the slot. Preemption:
// it must end the running task if that may run again or, with `queries`, report whether it may.
struct Recall {
  SlotId slot;
  NodeId node;
  ProcessId lessee;
  RecallCause cause = RecallCause::fair_share;
  JobId for_job;  // empty for oversubscription, for which no job waits
  ClassId for_class;
  bool queries = false;
};

struct ReclaimSettings {
  Duration recall_delay = 200ms;
  // recalled slots that have not returned by then no longer count as returning
  Duration recall_again = 2s;
  Duration reserve_after = 2s;
  Duration pause = 100ms;  // interval between two rounds
  ReservationGateSettings reservation_gate;
  // Limits of one round, so that no round takes long. The next round continues with the rest.
  std::size_t demands_per_round = 32;
  std::size_t nodes_per_demand = 16;  // for each search of one slot
  std::size_t nodes_per_round = 64;
};

}  // namespace mobula::internal::scheduler
