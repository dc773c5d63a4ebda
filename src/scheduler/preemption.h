// Ending what runs, for jobs of a higher priority. Off unless it is asked for. A demand that got
// nothing for `after`, recalls notwithstanding, has tasks of jobs of a lower priority ended: as many
// slots as it lacks, those of the lowest priority first, then those granted last. Several slots at
// once are asked for only on the node that is reserved for its class, where others cannot take what
// the first of them frees; elsewhere one slot has to be enough, and its node is to be reserved with what
// else is free there. Whether a task may be ended only its
// lessee knows; a slot of which it has said no is left alone for a while. Slots of actors and in
// bundles are never asked for. Not thread-safe: owned by one core.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/pending_demands.h"
#include "scheduler/reclaim.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

struct PreemptionSettings {
  std::optional<Duration> after{};  // nothing: never
  Duration again = 2s;              // between two rounds for one demand
  Duration spared_for = 10s;        // a slot is asked for again only after this
  std::size_t demands_per_round = 32;
  std::size_t slots_per_demand = 256;  // looked at
};

class Preemptor {
 public:
  Preemptor(ClusterView& cluster, SlotBooks& books, PendingDemands& pending,
            const PreemptionSettings& settings)
      : cluster_(cluster), books_(books), pending_(pending), settings_(settings) {}

  // After recalls. Costs nothing before it is due.
  void run(Time now, Reclaimer& reclaimer, std::vector<Recall>& out);
  // When `run` may have something to do if nothing changes before.
  std::optional<Time> due() const { return due_; }

 private:
  // Slots with the least priority first, the newest before others.
  using Victims = std::vector<const HeldSlot*>;

  std::vector<PendingClass*> waiting_longest(Time now);
  void preempt_for(Demand& demand, Reclaimer& reclaimer, std::vector<Recall>& out);
  bool may_end(const HeldSlot& held, std::int32_t priority) const;
  auto order() const;
  // Of one node; those of all nodes, of jobs below `priority`.
  Victims victims_on(NodeId node, std::int32_t priority) const;
  Victims victims_below(std::int32_t priority) const;
  // The fewest on its reserved node that make it fit; true if those, or some asked for before, will.
  bool make_room_on(NodeId node, const Ask& ask, std::int32_t priority, Victims& chosen);
  // One slot that makes it fit, wherever.
  bool make_room_anywhere(const Demand& demand, Victims& candidates, Victims& chosen);
  InstanceLedger& trial_of(NodeId node);

  ClusterView& cluster_;
  SlotBooks& books_;
  PendingDemands& pending_;
  const PreemptionSettings& settings_;
  std::map<HolderKey, Time> asked_for_;  // not long ago
  std::optional<Time> due_;
  // Of the running round: what the nodes would have free, and what was chosen.
  Time now_;
  std::map<NodeId, InstanceLedger> trials_;
  std::set<SlotId> chosen_;
};

}  // namespace mobula::internal::scheduler
