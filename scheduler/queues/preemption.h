// Preemption: ends running tasks of lower-priority jobs for a demand or group that got nothing for
// `after`, despite recalls. Off by default. Victims have the lowest priority first, then the latest
// grant. Only the lessee knows if a task may be ended, so if several must end for one purpose, all
// are queried before the first ends.
// Thread: owner (one core).
// Not: slots of actors and in bundles, which are never preempted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/groups/groups.h"
#include "scheduler/ledger/slot_accounting.h"
#include "scheduler/queues/pending_demands.h"
#include "scheduler/queues/reclaim.h"

namespace mobula::internal::scheduler {

// Several slots for one request are preempted only on the node that is reserved for its class,
// because others cannot take the capacity there. Elsewhere one slot must suffice, and its node is
// then reserved together with its free capacity. A placement group gets capacity on its reserved
// nodes, or on newly reserved ones, all or nothing. A slot whose lessee refused or did not reply is
// spared for a while.

struct PreemptionSettings {
  std::optional<Duration> after{};  // empty: never
  // interval between two rounds for one demand, unless all queried lessees reply earlier
  Duration again = 2s;
  Duration spared_for = 10s;  // a slot is queried again only after this time
  std::size_t demands_per_round = 32;
  std::size_t slots_per_demand = 256;  // slots examined
};

class Preemptor {
 public:
  Preemptor(ClusterView& cluster, SlotAccounting& accounting, PendingDemands& pending,
            const Groups& groups, const PreemptionSettings& settings)
      : cluster_(cluster),
        accounting_(accounting),
        pending_(pending),
        groups_(groups),
        settings_(settings) {}

  // Runs after recalls. Costs nothing before it is due.
  void run(Time now, Reclaimer& reclaimer, std::vector<Recall>& out);
  // The lessee of a slot has replied or returned it.
  void answered(SlotId slot);
  // Time at which `run` may act, if nothing changes before.
  std::optional<Time> due() const { return due_; }

 private:
  // Slots with the lowest priority first, the newest first among equals.
  using Victims = std::vector<const HeldSlot*>;

  void begin_round(Time now);
  std::vector<PendingClass*> waiting_longest();
  // The waiting group, if it is due.
  const Groups::Row* group_due();
  void preempt_for(Demand& demand, Reclaimer& reclaimer, std::vector<Recall>& out);
  void preempt_for(const Groups::Row& group, Reclaimer& reclaimer, std::vector<Recall>& out);
  // Ends slots that help only together once all of them may end; queries their lessees until then.
  void end(const Victims& together, const HolderKey& for_whom, std::vector<Recall>& out);
  bool may_end(const HeldSlot& held, std::int32_t priority) const;
  bool comes_back(const HeldSlot& held) const;
  auto order() const;
  // Victims on one node, and on all nodes, from jobs below `priority`.
  Victims victims_on(NodeId node, std::int32_t priority) const;
  Victims victims_below(std::int32_t priority) const;
  // The fewest slots of the node that make `fits(trial)` true, in addition to those that return
  // anyway. Their resources are freed in `trial`. Empty if all are not enough.
  template <class Fits>
  std::optional<Victims> victims_on(NodeId node, std::int32_t priority, InstanceLedger& trial,
                                    const Fits& fits) const;
  // On the one node that is reserved for it.
  std::optional<Victims> capacity_for(const RequestShape& shape, NodeId node,
                                      std::int32_t priority);
  // On all nodes that the group would use.
  std::optional<Victims> capacity_for(const Groups::Row& group, const BundleChoice& choice);
  // The nodes of the group if all slots that may be ended were.
  std::optional<BundleChoice> choice_for(const Groups::Row& group) const;
  // One slot on any node that makes it fit; null if none does.
  const HeldSlot* capacity_anywhere(const Demand& demand, const Victims& candidates);
  InstanceLedger& trial_of(NodeId node);

  ClusterView& cluster_;
  SlotAccounting& accounting_;
  PendingDemands& pending_;
  const Groups& groups_;
  const PreemptionSettings& settings_;
  std::map<HolderKey, Time> queried_;      // recent queries by waiting holder
  std::map<SlotId, HolderKey> questions_;  // unanswered ones of them
  std::optional<Time> due_;
  // State of the running round: free capacity of the nodes, and chosen slots.
  Time now_;
  std::int32_t lowest_ = 0;  // lowest priority of a job with slots
  std::map<NodeId, InstanceLedger> trials_;
  std::set<SlotId> chosen_;
};

}  // namespace mobula::internal::scheduler
