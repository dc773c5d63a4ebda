// Demands that wait for slots: the count of each holder, the order of turns in each class, and the
// queues of classes. Reports what a sweep of the queues may serve, and which demands are
// infeasible.
// Thread: owner (one core).
// Not: placement, see placement.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/containers/grouped_ids.h"
#include "base/containers/ordered_runs.h"
#include "base/id.h"
#include "base/model/request.h"
#include "base/time.h"
#include "scheduler/ledger/slot_accounting.h"
#include "scheduler/policy.h"
#include "scheduler/queues/request_shapes.h"
#include "scheduler/queues/wait_queues.h"

namespace mobula::internal::scheduler {

struct Demand {
  const HolderKey* key = nullptr;
  PendingClass* of = nullptr;
  Holder* holder = nullptr;                      // null: it has never held a slot
  std::unique_ptr<const Preference> preference;  // null: none
  std::int64_t wanted = 0;                       // total number of slots, including held ones
  Time oldest_waiting;
  Time last_served;  // time of its last grant or return
  Time recall_from;  // no recall for it before this time
  DemandRank rank;
  bool reported = false;   // infeasibility was reported
  bool waiting = false;    // in the tables of its class, under `rank`
  bool gave_back = false;  // it returned a slot that is not noted yet
};

struct PendingClass {
  ClassKey key;
  DemandClass demand;
  ShapeRow* row = nullptr;
  std::uint64_t sequence = 0;
  OrderedRuns<std::uint64_t, Demand*> members{};  // all demands, by sequence
  OrderedRuns<DemandRank, Demand*> waiting{};
  OrderedRuns<std::uint64_t, Demand*> unreported{};  // waiting demands that were not reported
  WaitQueues::Bucket* bucket = nullptr;              // null unless a demand waits; under `rank`
  JobQueueRank rank{};
  Time age_key{};  // key in the order of ages: not after the age of its first demand

  Demand& first() const { return *waiting.begin()->second; }
  // It waits for resources that its own job holds.
  bool is_parked() const {
    return bucket != nullptr && bucket->bucket_key->kind == BucketKey::Kind::quota;
  }
};

class PendingDemands {
 public:
  PendingDemands(ClusterView& cluster, SlotAccounting& accounting)
      : cluster_(cluster), accounting_(accounting), shapes_(cluster), queues_(accounting) {}
  PendingDemands(const PendingDemands&) = delete;
  PendingDemands& operator=(const PendingDemands&) = delete;

  // Full state of the demand of one holder; `wanted` 0 ends it.
  void set(const HolderKey& key, const DemandClass& demand_class, std::int64_t wanted,
           Time oldest_waiting, const Preference& preference);
  void erase(const HolderKey& key);
  void erase_lessee(ProcessId lessee);
  void erase_job(JobId job);
  // The slots that `key` holds have changed.
  void refresh(const HolderKey& key);
  // The demand got a slot; `holder` is its present count.
  void got(Demand& demand, Holder& holder, Time now);
  // A slot of the job, and of the demand if it exists, was returned: their turns move behind others
  // that waited in between. Effective from the next `note_returns`.
  void gave_back(JobId job, Demand* demand);
  void note_returns(Time now);

  // Null if none of the class waits.
  PendingClass* waiting_class(const ClassKey& key);
  const PendingClass* waiting_class(const ClassKey& key) const;
  // Calls visit(since, PendingClass&) for waiting classes until it returns false, ordered by the
  // time since which the first demand of each got nothing.
  template <class Visit>
  void for_each_by_age(Visit&& visit) {
    for (auto at = by_age_.begin(); at != by_age_.end();) {
      auto& of = *at->second;
      const auto since = of.rank.rank.since;
      if (since == of.age_key) {
        if (!visit(since, of)) return;
        ++at;
      } else {  // it was served in between and moves back
        const auto next = std::next(at);
        const auto put = set_age(of, since);
        at = next == by_age_.end() || put->first < next->first ? put : next;
      }
    }
  }
  // The earliest start of a new wait since the last call.
  std::optional<Time> take_oldest_new() { return std::exchange(oldest_new_, std::nullopt); }

  // The sweep in progress, or a new one with all capacity freed until now.
  Sweep& continue_sweep();
  // The sweep was offered to all. Returns true if more was freed in between.
  bool end_sweep();
  WaitQueues& queues() { return queues_; }
  const WaitQueues& queues() const { return queues_; }
  // Returns true if the sweep may have capacity for it.
  bool may_fit(const ShapeRow& row) const;
  // Stamp from which freed nodes are unexamined for a row: earlier sweeps would have found a fit.
  std::uint64_t unexamined_from(const ShapeRow& row) const {
    return std::max(row.examined_through, sweep_.from);
  }
  // No node freed up to `stamp`, and no bundle, fits.
  void examined(ShapeRow& row, std::uint64_t stamp);

  // Parks the class if the quota of its job does not allow one more slot. This is checked late,
  // because a class that no freed capacity concerns is not visited.
  void heed_quota(PendingClass& of);
  // The quota of its job forbids it, or allows it again. After `unpark`, its fit is unknown.
  void park(PendingClass& of);
  void unpark(PendingClass& of);

  bool feasible(ShapeRow& row) const { return shapes_.feasible(row); }
  // Why its job may never have a slot for it, independent of the nodes.
  std::optional<Reason> never_allowed(const PendingClass& of) const {
    return accounting_.over_quota(of.key.first, of.row->most_held, true);
  }
  // The first class that waits for the quota of the job, if the rest of the quota must be reserved
  // for it. That requires a wait of at least `after`, no open reservation, and a limited resource
  // that both it and `most` use. Else null.
  const PendingClass* quota_withheld_for(JobId job, const ResourceSet& most, Time now,
                                         Duration after) const;
  // Waiting demands that no present node can ever serve. Each is returned once until the nodes or
  // the demand change.
  std::vector<HolderKey> take_infeasible();
  const PendingClass& class_of_demand(const HolderKey& key) const { return *demands_.at(key).of; }
  // Key of its class while it is wanted, else of the class of those without cut links.
  ClassKey class_key(const HolderKey& key) const;
  // Links of this node were cut or work again: demands with it as a caller may have another class.
  void links_changed(NodeId node);
  // Classes and demands that searches for infeasible demands and ends of jobs have visited. For
  // tests of cores.
  std::uint64_t walked() const { return walked_; }

 private:
  PendingClass& class_for(const HolderKey& key, const DemandClass& demand_class,
                          const std::vector<NodeId>& cut_off);
  std::vector<NodeId> cut_off(const Demand& demand) const;
  void join_class(Demand& demand, const std::vector<NodeId>& cut_off);
  void refresh(Demand& demand);
  void stop_waiting(Demand& demand);
  // Updates the position of the class in its queue and by age, after its waiting demands changed.
  void line_up(PendingClass& of);
  // Moves all classes with this shape, after its cached state changed.
  void move_to_lane(ShapeRow& row);
  void enter_bucket(PendingClass& of, const BucketKey& bucket_key);
  void leave_lane(PendingClass& of);
  void leave_class(PendingClass& of, const Demand& demand);
  // The search for infeasible demands visits all waiting classes of this shape.
  void set_preference(Demand& demand, const Preference& preference);
  void index_callers(const Demand& demand, bool listed);
  void check_classes(const ShapeRow& row);
  using ByAge = std::map<std::pair<Time, std::uint64_t>, PendingClass*>;
  ByAge::iterator set_age(PendingClass& of, Time since);

  ClusterView& cluster_;
  SlotAccounting& accounting_;
  RequestShapes shapes_;
  WaitQueues queues_;
  std::map<HolderKey, Demand> demands_;
  GroupedIds<NodeId, HolderKey> by_caller_;  // demands by the nodes in `preference->callers`
  std::map<ClassKey, PendingClass> classes_;
  ByAge by_age_;
  // Waiting classes whose feasibility may have changed, or with demands that were not checked, by
  // the number of their shape.
  std::set<std::pair<std::uint64_t, ClassKey>> unchecked_;
  std::vector<Demand*> gave_back_;
  std::set<JobId> jobs_gave_back_;
  Sweep sweep_;
  bool sweeping_ = false;
  std::optional<Time> oldest_new_;
  std::uint64_t lines_version_ = 0;
  std::uint64_t checked_version_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t walked_ = 0;
};

}  // namespace mobula::internal::scheduler
