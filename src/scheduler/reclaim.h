// Getting slots back for those who wait. A demand that got nothing for `recall_after` has slots of
// others recalled, as many as it lacks and no more: longest held first, from the job of the lowest
// priority, among those from the one with the largest dominant share, as long as that job stays no smaller than the waiting one (a job or
// holder that has nothing may always take one), and none that is not held that long itself. Slots that only
// hold results go first, whosever they are. One
// that got nothing for `reserve_after` has a node reserved: the one where least has to come back;
// what is freed there is withheld from others until it is placed. A placement group that waits so long
// has nodes reserved for its bundles (group_reservation.h), after demands that have waited longer and
// before all others. Actors' slots are never recalled, and no slot twice. Not thread-safe: owned by one core.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/group_reservation.h"
#include "scheduler/pending_demands.h"
#include "scheduler/recall.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

class Reclaimer {
 public:
  Reclaimer(ClusterView& cluster, SlotBooks& books, PendingDemands& pending, const Groups& groups,
            const ReclaimSettings& settings)
      : cluster_(cluster),
        books_(books),
        pending_(pending),
        groups_(groups),
        settings_(settings),
        for_group_(cluster, books, groups, settings) {}

  // Drops reservations whose class or group waits no longer, or behind others of a higher priority that
  // may want what is withheld, and those whose node is gone.
  void lift_unneeded(Time now);
  void lift(const ClassKey& key);
  const std::map<ClassKey, NodeId>& reserved() const { return reserved_; }
  const GroupReservation& for_group() const { return for_group_; }

  // For a group for which room is made there, in place of what it has. False: others come before it.
  bool reserve_for(const Groups::Row& group, const BundleChoice& choice, Time now);
  // For a class that has none, where room is being made for it; unless the node is reserved.
  void reserve_if_none(const PendingClass& of, NodeId node);

  // After a round of placement: everything that still waits, waits for something to be freed. Costs
  // nothing before it is due.
  void run(Time now, std::vector<Recall>& out);
  // When `run` may have something to do if nothing changes before.
  std::optional<Time> due() const { return due_; }

 private:
  struct Returns {
    NodeId node;
    std::size_t cost = 0;        // slots to wait for, those recalled before included
    std::vector<SlotId> recall;  // those to recall now
  };
  // When a slot comes back: soon; it was recalled and is not back in time; its lessee has refused to
  // end what runs in it.
  enum class Outlook : std::uint8_t { good, overdue, refused };
  struct Victim {
    Outlook outlook = Outlook::good;
    bool fresh = false;  // not recalled yet
    bool works = true;   // else it only holds results
    std::int32_t priority = 0;
    std::int64_t minus_share = 0;
    std::uint64_t sequence = 0;
    const HeldSlot* held = nullptr;
  };
  // One demand in search of slots, and how it stands: with what earlier recalls of this search will bring.
  struct Search {
    Time now;
    const Demand* demand = nullptr;
    const Ask* ask = nullptr;
    bool patient = true;  // waits long enough for a reservation
    std::int32_t priority = 0;
    std::int64_t slots = 0;      // of the holder
    bool job_has_none = false;
    ResourceSet promised;        // with the slot it looks for
    std::int64_t share = 0;      // of the job, with `promised`
  };

  bool is_outranked(JobId job, const Need& need) const;
  Search search_for(const Demand& demand, Time now, bool patient) const;
  // The slot was found, and another one is looked for.
  void look_further(Search& search) const;
  bool may_take(const Search& search, const HeldSlot& victim, const ResourceSet& taken) const;
  std::vector<Victim> victims_on(const Search& search, NodeId node) const;
  std::optional<Returns> returns_on(const Search& search, NodeId node);
  std::optional<Returns> cheapest(const Search& search);
  void recall(const Search& search, const Returns& returns, RecallCause cause,
              std::vector<Recall>& out);
  bool is_outranked(const Groups::Row& group) const;
  void recall_for(Demand& demand, Time now, std::vector<Recall>& out);
  void reserve_for(PendingClass& of, Time now, std::vector<Recall>& out);
  // Opens what has been withheld for long without anything coming back, and closes it again.
  void look_at_withheld(NodeId node, Time now);
  void look_at_withheld_quota(const PendingClass& of, Time now);
  void look_again(Time now, const Withholding::Look& look);
  // Slots of the same job, so that its quota lets it have one.
  void recall_for_quota(Demand& demand, Time now, std::vector<Recall>& out);
  // Those of the class that are due, at most `limit`; returns how many.
  std::size_t recall_for_class(PendingClass& of, Time now, std::size_t limit,
                               std::vector<Recall>& out);
  void wake_at(Time time) { due_ = std::min(due_.value_or(time), time); }
  std::vector<const SlotBooks::Job*> jobs_by_share() const;

  ClusterView& cluster_;
  SlotBooks& books_;
  PendingDemands& pending_;
  const Groups& groups_;
  const ReclaimSettings& settings_;
  GroupReservation for_group_;
  std::map<ClassKey, NodeId> reserved_;
  std::optional<Time> due_;
  std::uint64_t seen_version_ = 0;  // of the cluster
  std::size_t nodes_left_ = 0;      // to look at in this round
  std::optional<std::pair<Time, std::uint64_t>> goes_on_at_;  // where the last round stopped, by age
  std::vector<const SlotBooks::Job*> victims_;  // of this round, largest share first
};

}  // namespace mobula::internal::scheduler
