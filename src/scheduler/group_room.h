// Room for the bundles of a placement group on copies of the nodes: whether they fit now, and what would have
// to end for it. For people who ask, and for who makes room. Decides nothing; functions over the books.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/id.h"
#include "scheduler/groups.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

// Bundles by the node they would go to.
using BundleChoice = std::map<NodeId, std::vector<std::int32_t>>;

// The nodes as if the slots that `is_gone` names were; reservations bar nobody.
ClusterView view_without(const ClusterView& cluster, const SlotBooks& books,
                         const std::function<bool(const HeldSlot&)>& is_gone);
// Where the bundles without a place would go on `view`, on which they are booked then. Nothing: nowhere.
std::optional<BundleChoice> choice_on(ClusterView& view, const Groups::Row& row);
// Whether so many bundles fit there at once.
bool fit_together(InstanceLedger ledger, const Groups::Row& row, const std::vector<std::int32_t>& bundles);

// What is in the way of a group that would fit if something ended: the slots whose return would let it be
// placed, on the nodes where a search finds room first. Tasks rather than actors and other groups, and on
// each of those nodes as few as can be; other nodes might do with less.
struct GroupObstacle {
  BundleChoice bundles;
  std::vector<SlotId> slots;
};
std::optional<GroupObstacle> obstacle_of(const ClusterView& cluster, const SlotBooks& books, const Groups::Row& row);

}  // namespace mobula::internal::scheduler
