// Selects the slots of one node that must return before a request fits there. Recalls, group
// reservations, and preemption share this rule.
// Thread: owner (works on a trial ledger of the caller).
#pragma once

#include <algorithm>
#include <vector>

#include "scheduler/ledger/instance_ledger.h"
#include "scheduler/ledger/slot_accounting.h"

namespace mobula::internal::scheduler {

// Frees candidates in `trial`, in order, until `fits(trial)`. Then it reallocates the unnecessary
// ones, the last first, and returns the rest in order.
// `trial` keeps the returned ones freed. If all candidates together are not enough, all are
// returned; the caller checks `fits(trial)`.
// `slot_of` returns the slot of a candidate. `admit` may skip a candidate; it is called in order,
// once per examined candidate.
template <class Candidate, class SlotOf, class Admit, class Fits>
std::vector<Candidate> fewest_slots(InstanceLedger& trial, const std::vector<Candidate>& candidates,
                                    const SlotOf& slot_of, const Admit& admit, const Fits& fits) {
  std::vector<Candidate> given_back;
  for (const Candidate& each : candidates) {
    if (fits(trial)) break;
    if (!admit(each)) continue;
    const Slot& slot = slot_of(each);
    trial.free(slot.allocation, occupancy_of(slot));
    given_back.push_back(each);
  }
  std::vector<Candidate> needed;
  for (auto each = given_back.rbegin(); each != given_back.rend(); ++each) {
    const Slot& slot = slot_of(*each);
    trial.restore(slot.allocation, occupancy_of(slot));
    if (fits(trial)) continue;
    trial.free(slot.allocation, occupancy_of(slot));
    needed.push_back(*each);
  }
  std::ranges::reverse(needed);
  return needed;
}

inline std::vector<const HeldSlot*> fewest_slots(InstanceLedger& trial,
                                                 const std::vector<const HeldSlot*>& candidates,
                                                 const auto& fits) {
  return fewest_slots(
      trial, candidates, [](const HeldSlot* held) -> const Slot& { return held->slot; },
      [](const HeldSlot*) { return true; }, fits);
}

}  // namespace mobula::internal::scheduler
