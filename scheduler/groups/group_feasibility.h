// Feasibility of the bundles of a placement group on copies of the nodes: whether they fit now, and
// the slots that must end first. Used for explanations and for reservations.
// Thread: owner (functions over the ledgers).
// Not: decisions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/id.h"
#include "scheduler/groups/groups.h"
#include "scheduler/ledger/slot_accounting.h"

namespace mobula::internal::scheduler {

// Bundles by their chosen node.
using BundleChoice = std::map<NodeId, std::vector<std::int32_t>>;

// A copy of the nodes without the slots that `is_gone` selects. Reservations exclude no request.
ClusterView view_without(const ClusterView& cluster, const SlotAccounting& accounting,
                         const std::function<bool(const HeldSlot&)>& is_gone);
// The nodes for unplaced bundles, which are then allocated on `view`. Empty if no choice exists.
std::optional<BundleChoice> choice_on(ClusterView& view, const Groups::Row& row);
// Returns true if these bundles fit there at the same time.
bool fit_together(InstanceLedger ledger, const Groups::Row& row,
                  const std::vector<std::int32_t>& bundles);

// Blockers of a group that would fit if slots ended, on the nodes that a search finds first. Tasks
// are preferred over actors and other groups, and each node has as few blockers as possible; other
// nodes might need fewer.
struct GroupBlockers {
  BundleChoice bundles;
  std::vector<SlotId> slots;
};
std::optional<GroupBlockers> group_blockers(const ClusterView& cluster,
                                            const SlotAccounting& accounting,
                                            const Groups::Row& row);

}  // namespace mobula::internal::scheduler
