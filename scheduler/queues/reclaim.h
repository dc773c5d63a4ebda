// Recalls and reservations for waiting demands. A demand that got nothing for `recall_delay` has as
// many slots recalled as it lacks. After `reserve_after`, a node is reserved for it, the one with
// the fewest slots to return; capacity freed there is kept for it. A placement group follows
// demands with a longer wait (group_reservation.h).
// Thread: owner (one core).
// Not: actor slots, which are never recalled. No slot is recalled twice.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/groups/group_reservation.h"
#include "scheduler/ledger/slot_accounting.h"
#include "scheduler/queues/pending_demands.h"
#include "scheduler/queues/recall.h"

namespace mobula::internal::scheduler {

// Recalls choose the longest-held slots of the job with the lowest priority, then of the job with
// the largest dominant share. That job must not become smaller than the waiting one, but a job or
// holder without slots may always take one. A slot must have been held for `recall_delay`. Resident
// slots are recalled first, from any job.

class Reclaimer {
 public:
  Reclaimer(ClusterView& cluster, SlotAccounting& accounting, PendingDemands& pending,
            const Groups& groups, const ReclaimSettings& settings)
      : cluster_(cluster),
        accounting_(accounting),
        pending_(pending),
        groups_(groups),
        settings_(settings),
        for_group_(cluster, accounting, groups, settings) {}

  // Lifts reservations whose class or group no longer waits, or is behind others of a higher
  // priority that may need the capacity, or whose node has left.
  void lift_unneeded(Time now);
  void lift(const ClassKey& key);
  const std::map<ClassKey, NodeId>& reserved() const { return reserved_; }
  const GroupReservation& for_group() const { return for_group_; }

  // Reserves the nodes of `choice` for a group in place of its present ones. False if others
  // precede it.
  bool reserve_for(const Groups::Row& group, const BundleChoice& choice, Time now);
  // Reserves `node` for a class without a reservation, unless the node is reserved.
  void reserve_if_none(const PendingClass& of, NodeId node);

  // Runs after a round of placement, when every waiting demand needs freed capacity. Costs nothing
  // before it is due.
  void run(Time now, std::vector<Recall>& out);
  // Time at which `run` may act, if nothing changes before.
  std::optional<Time> due() const { return due_; }

 private:
  struct Returns {
    NodeId node;
    std::size_t cost = 0;        // number of slots to wait for, including recalled ones
    std::vector<SlotId> recall;  // slots to recall now
  };
  // Expected return of a slot: soon; recalled and overdue; refused by its lessee.
  enum class Outlook : std::uint8_t { good, overdue, refused };
  struct Victim {
    Outlook outlook = Outlook::good;
    bool fresh = false;  // not recalled yet
    bool works = true;   // false: it only holds results
    std::int32_t priority = 0;
    std::int64_t minus_share = 0;
    std::uint64_t sequence = 0;
    const HeldSlot* held = nullptr;
  };
  // State of one demand that searches slots, including the results of earlier recalls of this
  // search.
  struct Search {
    Time now;
    const Demand* demand = nullptr;
    const RequestShape* shape = nullptr;
    bool patient = true;  // it waits long enough for a reservation
    std::int32_t priority = 0;
    std::int64_t slots = 0;  // slots of the holder
    bool job_has_none = false;
    ResourceSet promised;    // amounts including the slot that it searches
    std::int64_t share = 0;  // share of the job including `promised`
  };

  // State of one call of `run`.
  struct Round {
    Time now;
    Time next;  // time of the next round
    std::size_t examined = 0;
    // resources with a reservation: each has at most one
    std::set<std::string> reserved_resources{};
    const Groups::Row* group = nullptr;  // due group that is not served yet
    std::vector<Recall>& out;
  };

  void serve_group(Round& round);
  // Serves the demands of a class. Returns false if the round ends here.
  bool serve_class(PendingClass& of, Time since, Round& round);
  void serve_parked(PendingClass& of, Time since, Round& round);
  bool is_outranked(JobId job, const Need& need) const;
  Search search_for(const Demand& demand, Time now, bool patient) const;
  // A slot was found, and the search continues.
  void search_further(Search& search) const;
  bool may_take(const Search& search, const HeldSlot& victim, const ResourceSet& taken) const;
  std::vector<Victim> victims_on(const Search& search, NodeId node) const;
  std::optional<Returns> returns_on(const Search& search, NodeId node);
  std::optional<Returns> cheapest(const Search& search);
  void recall(const Search& search, const Returns& returns, RecallCause cause,
              std::vector<Recall>& out);
  bool is_outranked(const Groups::Row& group) const;
  void recall_for(Demand& demand, Time now, std::vector<Recall>& out);
  void reserve_for(PendingClass& of, Time now, std::vector<Recall>& out);
  // Opens reserved capacity if nothing has returned for long, and closes it again.
  void check_withheld(NodeId node, Time now);
  void check_withheld_quota(const PendingClass& of, Time now);
  void check_again_at(Time now, const ReservationGate::GateCheck& check);
  // Recalls slots of the same job, so that its quota allows a new one.
  void recall_for_quota(Demand& demand, Time now, std::vector<Recall>& out);
  // Recalls for the due demands of the class, at most `limit`; returns their number.
  std::size_t recall_for_class(PendingClass& of, Time now, std::size_t limit,
                               std::vector<Recall>& out);
  void wake_at(Time time) { due_ = std::min(due_.value_or(time), time); }
  std::vector<const SlotAccounting::Job*> jobs_by_share() const;

  ClusterView& cluster_;
  SlotAccounting& accounting_;
  PendingDemands& pending_;
  const Groups& groups_;
  const ReclaimSettings& settings_;
  GroupReservation for_group_;
  std::map<ClassKey, NodeId> reserved_;
  std::optional<Time> due_;
  std::uint64_t seen_version_ = 0;  // version of the cluster
  std::size_t nodes_left_ = 0;      // nodes left to examine in this round
  // position at which the last round stopped, by age
  std::optional<std::pair<Time, std::uint64_t>> goes_on_at_;
  std::vector<const SlotAccounting::Job*> victims_;  // jobs with slots, the largest share first
};

}  // namespace mobula::internal::scheduler
