#include "scheduler/planner/needed_slots.h"

#include <algorithm>
#include <limits>

namespace mobula::internal::planner {
namespace {

// Slots that run `count` tasks of `run` each within `target`, rounded up.
std::int64_t slots_for(std::int64_t count, Duration run, Duration target) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (run.count() > 0 && count > (most - target.count()) / run.count()) return most;
  return (count * run.count() + target.count() - 1) / target.count();
}

}  // namespace

std::int64_t needed_slots(const WantedSlots& wanted, Duration target_wait) {
  const std::int64_t permitted = std::min(wanted.count, wanted.allowed.value_or(wanted.count));
  if (wanted.tenant != scheduler::Tenant::task || target_wait <= Duration(0)) return permitted;
  Duration run = wanted.mean_run.value_or(unknown_run);
  // If no task left the queue for some time, the running ones take at least that long.
  if (wanted.held > 0) run = std::max(run, wanted.stalled);
  const std::int64_t least = wanted.held > 0 ? 0 : 1;
  return std::min(permitted,
                  std::max(least, slots_for(wanted.count, run, target_wait) - wanted.held));
}

}  // namespace mobula::internal::planner
