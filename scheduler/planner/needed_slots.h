// Number of further slots that a waiting class justifies: a backlog counts by the time that it
// takes, not by its length, and the quota of its job limits it.
// Thread: any (pure).
#pragma once

#include <cstdint>

#include "scheduler/planner/state.h"

namespace mobula::internal::planner {

// Run time of a task of a class without finished tasks.
inline constexpr Duration unknown_run = 1s;

// Tasks: the slots that drain the queue within `target_wait`, less the held ones, at least one for
// a class without a slot. Each actor needs its own slot. The quota of the job limits both.
std::int64_t needed_slots(const WantedSlots& wanted, Duration target_wait);

}  // namespace mobula::internal::planner
