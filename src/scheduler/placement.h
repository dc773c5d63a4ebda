// One round of handing out what is free: jobs in order of weighted dominant share, then of how long
// they have got nothing; within a job by priority, slots held, and the same age. A round looks only
// at asks that a freed node may serve, and stops when its budget is spent; what it has not looked
// at stays open for the next. Not thread-safe: lives for one call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/pending_demands.h"
#include "scheduler/policy.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

struct PlacementSettings {
  std::int64_t spread_threshold = 500'000;  // millionths of a node in use
  std::int64_t examinations_per_free = 64;     // asks looked at in vain per freed node
  std::int64_t node_checks_per_plan = 200'000;
  std::size_t asks_per_plan = 1000;         // more take turns over plans
};

class PlacementRound {
 public:
  PlacementRound(ClusterView& cluster, SlotBooks& books, PendingDemands& pending,
                 const PlacementSettings& settings);

  // `reserved`: the node withheld for a class, tried first. Returns whether it stopped early.
  bool run(Time now, const std::map<ClassKey, NodeId>& reserved,
           const std::function<SlotId()>& next_slot, std::vector<Slot>& granted);

 private:
  struct Head {
    std::int64_t minus_priority = 0;
    DemandRank rank;
    friend auto operator<=>(const Head&, const Head&) = default;
  };
  struct Turn {
    std::int64_t share = 0;
    Time since;
    std::uint64_t sequence = 0;
    friend auto operator<=>(const Turn&, const Turn&) = default;
  };
  struct Line {  // one job's classes, the next first
    Turn turn;
    std::map<Head, ClassKey> heads;
  };

  void line_up(const ClassKey& key);
  void queue(JobId job);
  // The best node for an ask of which it is known that nothing freed long ago fits it.
  Node* best_freed(AskNumber number);
  // The best of all nodes.
  Node* best_of_all(AskNumber number);
  Spot place(const ClassKey& key, const Demand& demand,
             const std::map<ClassKey, NodeId>& reserved);
  Slot grant(Spot spot, Demand& demand, const Ask& ask, SlotId id, Time now);

  ClusterView& cluster_;
  SlotBooks& books_;
  PendingDemands& pending_;
  const PlacementSettings& settings_;
  std::uint64_t stamp_;  // what is freed later is for the next round
  std::map<JobId, Line> lines_;
  std::map<Turn, JobId> turns_;
  std::map<AskNumber, CandidateHeap> heaps_;
  // Ranks only get worse in a round, so what does not serve at a place in the order never will:
  // up to here nothing fits the ask, and up to here no ask finds enough of a resource.
  std::map<AskNumber, NodeRank> passed_;
  std::map<std::pair<std::string, bool>, NodeRank> exhausted_;
  std::int64_t node_checks_ = 0;
};

}  // namespace mobula::internal::scheduler
