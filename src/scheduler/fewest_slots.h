// Which slots of one node have to come back before something fits there: the rule that recalls,
// reservations for groups and preemption share. A function over a trial of the node's books.
#pragma once

#include <algorithm>
#include <vector>

#include "scheduler/instance_ledger.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

// Gives slots back to `trial` in the order of `candidates` until `fits(trial)`, then takes back those it
// fits without, the last first. Returns the rest, in order; `trial` is left with what they held. If all of
// them are not enough it is all: `fits(trial)` tells. `slot_of` names a candidate's slot; `admit` may
// leave a candidate out, and is asked in order, once for each that is looked at.
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
