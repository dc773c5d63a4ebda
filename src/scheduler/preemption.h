// Ending what runs, for jobs of a higher priority. Off unless it is asked for. A demand that got
// nothing for `after`, recalls notwithstanding, has tasks of jobs of a lower priority ended: as many
// slots as it lacks, those of the lowest priority first, then those granted last. Several slots for one
// request are asked for only on the node that is reserved for its class, where others cannot take what
// the first of them frees; elsewhere one slot has to be enough, and its node is to be reserved with what
// else is free there. A placement group that waits so long gets its room on the nodes that are reserved
// for it, or has others reserved, all of it or nothing. Whether a task may be ended only its lessee knows:
// where several have to end for one purpose, all of them are asked before the first is ended. A slot of
// which the lessee has said no, or nothing, is left alone for a while. Slots of actors and in
// bundles are never asked for. Not thread-safe: owned by one core.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/groups.h"
#include "scheduler/pending_demands.h"
#include "scheduler/reclaim.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

struct PreemptionSettings {
  std::optional<Duration> after{};  // nothing: never
  Duration again = 2s;  // between two rounds for one demand, unless all who were asked answer before
  Duration spared_for = 10s;        // a slot is asked for again only after this
  std::size_t demands_per_round = 32;
  std::size_t slots_per_demand = 256;  // looked at
};

class Preemptor {
 public:
  Preemptor(ClusterView& cluster, SlotBooks& books, PendingDemands& pending, const Groups& groups,
            const PreemptionSettings& settings)
      : cluster_(cluster), books_(books), pending_(pending), groups_(groups), settings_(settings) {}

  // After recalls. Costs nothing before it is due.
  void run(Time now, Reclaimer& reclaimer, std::vector<Recall>& out);
  // The lessee of a slot has answered, or given it back.
  void answered(SlotId slot);
  // When `run` may have something to do if nothing changes before.
  std::optional<Time> due() const { return due_; }

 private:
  // Slots with the least priority first, the newest before others.
  using Victims = std::vector<const HeldSlot*>;

  void begin_round(Time now);
  std::vector<PendingClass*> waiting_longest();
  // The group that waits, if it is its time.
  const Groups::Row* group_due();
  void preempt_for(Demand& demand, Reclaimer& reclaimer, std::vector<Recall>& out);
  void preempt_for(const Groups::Row& group, Reclaimer& reclaimer, std::vector<Recall>& out);
  // Slots that help only together are ended when all of them may be, and asked about until then.
  void end(const Victims& together, const HolderKey& for_whom, std::vector<Recall>& out);
  bool may_end(const HeldSlot& held, std::int32_t priority) const;
  bool comes_back(const HeldSlot& held) const;
  auto order() const;
  // Of one node; those of all nodes, of jobs below `priority`.
  Victims victims_on(NodeId node, std::int32_t priority) const;
  Victims victims_below(std::int32_t priority) const;
  // The fewest of the node that make `fits` true of `trial`, beside those that come back anyway, with
  // what they hold given back to it; nothing if all are not enough.
  template <class Fits>
  std::optional<Victims> room_on(NodeId node, std::int32_t priority, InstanceLedger& trial, const Fits& fits) const;
  // On the one node that is reserved for it.
  std::optional<Victims> room_for(const Ask& ask, NodeId node, std::int32_t priority);
  // On all nodes that the group would go to.
  std::optional<Victims> room_for(const Groups::Row& group, const BundleChoice& choice);
  // Where it would go if all that may be ended were.
  std::optional<BundleChoice> choice_for(const Groups::Row& group) const;
  // One slot that makes it fit, wherever; null if there is none.
  const HeldSlot* room_anywhere(const Demand& demand, const Victims& candidates);
  InstanceLedger& trial_of(NodeId node);

  ClusterView& cluster_;
  SlotBooks& books_;
  PendingDemands& pending_;
  const Groups& groups_;
  const PreemptionSettings& settings_;
  std::map<HolderKey, Time> asked_for_;    // not long ago
  std::map<SlotId, HolderKey> questions_;  // that are not answered, of those
  std::optional<Time> due_;
  // Of the running round: what the nodes would have free, and what was chosen.
  Time now_;
  std::int32_t lowest_ = 0;  // priority of those who have slots
  std::map<NodeId, InstanceLedger> trials_;
  std::set<SlotId> chosen_;
};

}  // namespace mobula::internal::scheduler
