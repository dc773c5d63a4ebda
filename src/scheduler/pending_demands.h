// What waits for slots: per holder how many, per class in the order of their turns, and in lines in
// which classes are served. Says what a sweep of the lines may serve, and which demands can never be.
// Not thread-safe: owned by one core. Places nothing: that is placement.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/ordered_runs.h"
#include "base/time.h"
#include "model/request.h"
#include "scheduler/ask_table.h"
#include "scheduler/policy.h"
#include "scheduler/slot_books.h"
#include "scheduler/waiting_lines.h"

namespace mobula::internal::scheduler {

struct Demand {
  const HolderKey* key = nullptr;
  PendingClass* of = nullptr;
  Holder* holder = nullptr;  // null: it has never held anything
  std::unique_ptr<const Preference> preference;  // null: none
  std::int64_t wanted = 0;  // slots in all, those held included
  Time oldest_waiting;
  Time last_served;         // when it last got a slot or gave one back
  Time recall_from;         // nothing is recalled for it before
  DemandRank rank;
  bool reported = false;    // as infeasible
  bool waiting = false;     // in the tables of its class, under `rank`
  bool gave_back = false;   // a slot, which has not been noted yet
};

struct PendingClass {
  ClassKey key;
  DemandClass demand;
  AskRow* ask = nullptr;
  std::uint64_t sequence = 0;
  std::size_t holders = 0;
  OrderedRuns<DemandRank, Demand*> waiting{};
  WaitingLines::Bucket* bucket = nullptr;  // while something waits, under `rank`
  LineRank rank{};
  Time age_key{};  // in the order of ages: no later than the first demand's

  Demand& first() const { return *waiting.begin()->second; }
  // It waits for something that its own job holds.
  bool is_parked() const { return bucket != nullptr && bucket->lane->kind == Lane::Kind::quota; }
};

class PendingDemands {
 public:
  PendingDemands(ClusterView& cluster, SlotBooks& books)
      : cluster_(cluster), books_(books), asks_(cluster), lines_(books) {}
  PendingDemands(const PendingDemands&) = delete;
  PendingDemands& operator=(const PendingDemands&) = delete;

  // Full state of one holder's demand; wanted 0 ends it.
  void set(const HolderKey& key, const DemandClass& demand_class, std::int64_t wanted,
           Time oldest_waiting, const Preference& preference);
  void erase(const HolderKey& key);
  void erase_lessee(ProcessId lessee);
  void erase_job(JobId job);
  // What `key` holds has changed.
  void refresh(const HolderKey& key);
  // It got a slot, and has what `holder` says.
  void got(Demand& demand, Holder& holder, Time now);
  // A slot of the job, and of the demand if there is one, is back: their turns come after those of
  // others who have waited meanwhile. Counts from the next `note_returns` on.
  void gave_back(JobId job, Demand* demand);
  void note_returns(Time now);

  // Null if nothing of it waits.
  PendingClass* waiting_class(const ClassKey& key);
  const PendingClass* waiting_class(const ClassKey& key) const;
  // Calls visit(since, PendingClass&) for waiting classes until it returns false, in the order of
  // the time since which the first of each got nothing.
  template <class Visit>
  void for_each_by_age(Visit&& visit) {
    for (auto at = by_age_.begin(); at != by_age_.end();) {
      auto& of = *at->second;
      const auto since = of.rank.rank.since;
      if (since == of.age_key) {
        if (!visit(since, of)) return;
        ++at;
      } else {  // it was served meanwhile: it comes later
        const auto next = std::next(at);
        const auto put = set_age(of, since);
        at = next == by_age_.end() || put->first < next->first ? put : next;
      }
    }
  }
  // Since the last call: the age of the oldest that has begun to wait.
  std::optional<Time> take_oldest_new() { return std::exchange(oldest_new_, std::nullopt); }

  // The sweep in progress, or a new one, with what was freed until now.
  Sweep& continue_sweep();
  // Everything was offered. Returns whether more was freed meanwhile.
  bool end_sweep();
  WaitingLines& lines() { return lines_; }
  const WaitingLines& lines() const { return lines_; }
  // Whether, for all that is known, the sweep may hold what serves it.
  bool may_fit(const AskRow& row) const;
  // Of a row that was examined: nothing freed up to here fits, or earlier sweeps would have found it.
  std::uint64_t unexamined_from(const AskRow& row) const {
    return std::max(row.examined_through, sweep_.from);
  }
  // No node freed up to `stamp`, or no room, fits.
  void examined(AskRow& row, std::uint64_t stamp);

  // Parks the class if its job's quota does not allow one more: that need not have been found out where nothing
  // was freed that it could want.
  void heed_quota(PendingClass& of);
  // Its job's quota does not allow it now; and does again: nothing is known of where it fits.
  void park(PendingClass& of);
  void unpark(PendingClass& of);

  bool feasible(AskRow& row) const { return asks_.feasible(row); }
  // Why its job may never have one, whatever the nodes are.
  std::optional<Reason> never_allowed(const PendingClass& of) const {
    return books_.over_quota(of.key.first, of.ask->most_held, true);
  }
  // The first that waits for the job's quota, if that was `after` ago and nobody else gets what is left
  // of it who may hold as much as `most`; null: none.
  const PendingClass* quota_withheld_for(JobId job, const ResourceSet& most, Time now, Duration after) const;
  // Waiting demands that no node present can ever serve and that were not returned since the nodes
  // or the demand changed.
  std::vector<HolderKey> take_infeasible();
  const PendingClass& class_of_demand(const HolderKey& key) const { return *demands_.at(key).of; }
  // Key of its class while it is wanted, else of the class of those without cut links.
  ClassKey class_key(const HolderKey& key) const;
  // Links of this node were cut or work again: demands with it as a caller may have another class.
  void links_changed(NodeId node);

 private:
  PendingClass& class_for(const HolderKey& key, const DemandClass& demand_class, const std::vector<NodeId>& cut_off);
  std::vector<NodeId> cut_off(const Demand& demand) const;
  void join_class(Demand& demand, const std::vector<NodeId>& cut_off);
  void refresh(Demand& demand);
  void stop_waiting(Demand& demand);
  // After its waiting demands have changed: the class's place in line and by age.
  void line_up(PendingClass& of);
  // All classes with this ask, after what is known of it has changed.
  void move_to_lane(AskRow& row);
  void enter_lane(PendingClass& of, const Lane& lane);
  void leave_lane(PendingClass& of);
  void leave_class(PendingClass& of);
  using ByAge = std::map<std::pair<Time, std::uint64_t>, PendingClass*>;
  ByAge::iterator set_age(PendingClass& of, Time since);

  ClusterView& cluster_;
  SlotBooks& books_;
  AskTable asks_;
  WaitingLines lines_;
  std::map<HolderKey, Demand> demands_;
  std::map<ClassKey, PendingClass> classes_;
  ByAge by_age_;
  std::set<std::uint64_t> unchecked_;  // asks whose feasibility may have changed
  std::vector<Demand*> gave_back_;
  std::set<JobId> jobs_gave_back_;
  Sweep sweep_;
  bool sweeping_ = false;
  std::optional<Time> oldest_new_;
  std::uint64_t lines_version_ = 0;
  std::uint64_t checked_version_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace mobula::internal::scheduler
