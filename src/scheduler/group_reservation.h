// Room for the placement group that waits longest. One that has had no place for `reserve_after` has
// nodes chosen for its bundles, as if the slots that can be recalled there were free: what becomes free
// on them is withheld from others but for what fits beside the bundles, and those slots are recalled.
// One group at a time, the first in turn of those that could ever be placed; it takes nodes over that were
// reserved for requests which have waited less long. It is chosen anew when a
// node leaves, when another group comes first that has waited long enough (until then others cannot take what
// is withheld: what a quota allows may change with every slot), or when slots that were recalled are not back
// and other nodes would do without such. Not thread-safe: owned by one core. Places nothing: that is groups.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/group_room.h"
#include "scheduler/groups.h"
#include "scheduler/recall.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

class GroupReservation {
 public:
  GroupReservation(ClusterView& cluster, SlotBooks& books, const Groups& groups,
                   const ReclaimSettings& settings)
      : cluster_(cluster), books_(books), groups_(groups), settings_(settings) {}

  struct Held {
    GroupId group;
    std::map<NodeId, std::vector<std::int32_t>> bundles;
    Time revise_at;
    std::size_t slots_to_return = 0;  // when it was last revised
  };
  const std::optional<Held>& held() const { return held_; }

  // The first group in turn if it has waited long enough; null: none has.
  const Groups::Row* due(Time now) const;
  // When that will be, or when there is something to be done for it again.
  std::optional<Time> next_due() const;
  // Reserves nodes for the group, none of `kept_for_others`, or keeps those it has, and recalls what is
  // in its way there. Nothing if no nodes will do now.
  void reserve_for(const Groups::Row& row, const std::set<NodeId>& kept_for_others, Time now,
                   std::vector<Recall>& out);
  // Reserves these nodes, none of which others have, and lets go what it had.
  void move_to(const Groups::Row& row, BundleChoice choice, Time now);
  // If its group waits no longer, or behind another that has not waited long enough; or if a node of it is gone.
  void lift_unneeded(Time now);
  void lift();

 private:
  struct Returns {
    std::vector<const HeldSlot*> slots;
    bool overdue = false;  // one of them was recalled and is not back in time
  };
  using Choice = BundleChoice;

  bool may_recall(const HeldSlot& held, const Groups::Row& row) const;
  bool is_overdue(const HeldSlot& held) const;
  // `patient`: slots that are overdue are counted on, too.
  std::optional<Choice> choose(const Groups::Row& row, const std::set<NodeId>& kept_for_others,
                               bool patient) const;
  void take(const Groups::Row& row, Choice choice, const Withholding& withheld);
  // The fewest slots of the node that have to come back before its bundles fit there.
  Returns returns_on(const Groups::Row& row, NodeId node,
                     const std::vector<std::int32_t>& bundles) const;

  ClusterView& cluster_;
  SlotBooks& books_;
  const Groups& groups_;
  const ReclaimSettings& settings_;
  std::optional<Held> held_;
  Time tried_again_at_;  // in vain before
  Time now_;             // of the running call
};

}  // namespace mobula::internal::scheduler
