// Reserves nodes for the first placement group in the queue that waited for `reserve_after`, as if
// recallable slots there were free. Capacity freed on them is kept for the bundles, and those slots
// are recalled. It may take over nodes reserved for requests with a shorter wait. The choice is
// revised when a node leaves, when another due group comes first, or when recalled slots are
// overdue and other nodes do without them.
// Thread: owner (one core).
// Not: placement, see groups.h. Until the next choice, no other request gets the reserved capacity.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/groups/group_feasibility.h"
#include "scheduler/groups/groups.h"
#include "scheduler/ledger/slot_accounting.h"
#include "scheduler/queues/recall.h"

namespace mobula::internal::scheduler {

class GroupReservation {
 public:
  GroupReservation(ClusterView& cluster, SlotAccounting& accounting, const Groups& groups,
                   const ReclaimSettings& settings)
      : cluster_(cluster), accounting_(accounting), groups_(groups), settings_(settings) {}

  struct Held {
    GroupId group;
    std::map<NodeId, std::vector<std::int32_t>> bundles;
    Time revise_at;
    std::size_t slots_to_return = 0;  // at the last revision
  };
  const std::optional<Held>& held() const { return held_; }

  // The first group in the queue if it has waited long enough; else null.
  const Groups::Row* due(Time now) const;
  // Time at which that will be, or of the next action for it.
  std::optional<Time> next_due() const;
  // Reserves nodes for the group, except `kept_for_others`, or keeps its nodes, and recalls the
  // blockers on them. Does nothing if no nodes suffice now.
  void reserve_for(const Groups::Row& row, const std::set<NodeId>& kept_for_others, Time now,
                   std::vector<Recall>& out);
  // Reserves these nodes, none of which has another reservation, and releases the previous ones.
  void move_to(const Groups::Row& row, BundleChoice choice, Time now);
  // Lifts the reservation if its group no longer waits, or is behind a group that has not waited
  // long enough, or has lost one of the nodes.
  void lift_unneeded(Time now);
  void lift();

 private:
  struct Returns {
    std::vector<const HeldSlot*> slots;
    bool overdue = false;  // a recalled slot has not returned in time
  };
  using Choice = BundleChoice;

  bool may_recall(const HeldSlot& held, const Groups::Row& row) const;
  bool is_overdue(const HeldSlot& held) const;
  // With `patient`, overdue slots count as returning.
  std::optional<Choice> choose(const Groups::Row& row, const std::set<NodeId>& kept_for_others,
                               bool patient) const;
  void take(const Groups::Row& row, Choice choice, const ReservationGate& withheld);
  // The fewest slots of the node that must return before its bundles fit there.
  Returns returns_on(const Groups::Row& row, NodeId node,
                     const std::vector<std::int32_t>& bundles) const;

  ClusterView& cluster_;
  SlotAccounting& accounting_;
  const Groups& groups_;
  const ReclaimSettings& settings_;
  std::optional<Held> held_;
  Time tried_again_at_;  // time of the last attempt without success
  Time now_;             // time of the running call
};

}  // namespace mobula::internal::scheduler
