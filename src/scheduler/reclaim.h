// Getting slots back for those who wait. A demand that got nothing for `recall_after` has slots of
// others recalled, as many as it lacks and no more: longest held first, from the job of the lowest
// priority, among those from the one with the largest dominant share, as long as that job stays no smaller than the waiting one (a job or
// holder that has nothing may always take one), and none that is not held that long itself. One
// that got nothing for `reserve_after` has a node reserved: the one where least has to come back;
// what is freed there is withheld from others until it is placed. Actors' slots are never recalled,
// and no slot twice. Not thread-safe: owned by one core.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/pending_demands.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

enum class RecallCause : std::uint8_t { fair_share, reservation, quota, preemption };
std::string_view to_string(RecallCause cause);

// The lessee is to finish the running task, hand the rest back and return the slot. Preemption: it is
// to end the running task, if that may run again.
struct Recall {
  SlotId slot;
  NodeId node;
  ProcessId lessee;
  RecallCause cause = RecallCause::fair_share;
  JobId for_job;
  ClassId for_class;
};

struct ReclaimSettings {
  Duration recall_after = 200ms;
  Duration recall_again = 2s;    // recalled slots that are not back by then are not counted on
  Duration reserve_after = 2s;
  Duration pause = 100ms;        // between two rounds
  std::size_t demands_per_round = 32;
  std::size_t nodes_per_demand = 16;
};

class Reclaimer {
 public:
  Reclaimer(ClusterView& cluster, SlotBooks& books, PendingDemands& pending,
            const ReclaimSettings& settings)
      : cluster_(cluster), books_(books), pending_(pending), settings_(settings) {}

  // Drops reservations whose class waits no longer, or behind others of a higher priority that may
  // want what is withheld, and those whose node is gone.
  void lift_unneeded();
  void lift(const ClassKey& key);
  const std::map<ClassKey, NodeId>& reserved() const { return reserved_; }

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
    std::int32_t priority = 0;
    std::int64_t minus_share = 0;
    std::uint64_t sequence = 0;
    const HeldSlot* held = nullptr;
  };
  // One demand in search of slots.
  struct Search {
    Time now;
    const Demand* demand = nullptr;
    const Ask* ask = nullptr;
    bool patient = true;  // waits long enough for a reservation
    ResourceSet promised;  // what earlier recalls of this search will bring
    std::int64_t promised_slots = 0;
  };

  bool is_outranked(JobId job, const Need& need) const;
  bool may_take(const Search& search, const HeldSlot& victim, const ResourceSet& taken) const;
  std::vector<Victim> victims_on(const Search& search, NodeId node) const;
  std::optional<Returns> returns_on(const Search& search, NodeId node) const;
  std::optional<Returns> cheapest(const Search& search) const;
  void recall(const Search& search, const Returns& returns, RecallCause cause,
              std::vector<Recall>& out);
  void recall_for(Demand& demand, Time now, std::vector<Recall>& out);
  void reserve_for(PendingClass& of, Time now, std::vector<Recall>& out);
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
  const ReclaimSettings& settings_;
  std::map<ClassKey, NodeId> reserved_;
  std::optional<Time> due_;
  std::uint64_t seen_version_ = 0;  // of the cluster
  std::vector<const SlotBooks::Job*> victims_;  // of this round, largest share first
};

}  // namespace mobula::internal::scheduler
