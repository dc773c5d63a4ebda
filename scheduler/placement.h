// One round of placement: offers free capacity to waiting classes in the order of waiting_lines.h.
// It continues the sweep in progress and visits only classes that the freed capacity may serve. If
// its budget is spent, the next round continues.
// Thread: owner (lives for one call).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/ledger/ending_devices.h"
#include "scheduler/ledger/slot_accounting.h"
#include "scheduler/policy.h"
#include "scheduler/queues/pending_demands.h"

namespace mobula::internal::scheduler {

struct PlacementSettings {
  std::int64_t spread_threshold = 500'000;  // millionths of a node in use
  std::int64_t examinations_per_free = 64;  // shapes examined without success per freed node
  std::int64_t visits_per_plan = 20'000;    // classes visited, examined or not
  std::int64_t node_checks_per_plan = 200'000;
  std::size_t grants_per_plan = 16;
  Duration quota_reserve_delay = 2s;  // wait after which the rest of a quota is reserved
  // longest wait of a request for a fraction of a device for slots that end
  Duration settle_delay = 500ms;
};

class PlacementRound {
 public:
  struct Terms {
    Time now;
    const std::function<SlotId()>& next_slot;
    const std::map<ClassKey, NodeId>& reserved;  // node reserved for a class, tried first
    const EndingDevices& ending;
  };
  PlacementRound(ClusterView& cluster, SlotAccounting& accounting, PendingDemands& pending,
                 const PlacementSettings& settings, const Terms& terms);

  // Serves jobs of a priority above `above`, or all jobs. Returns true if work for them is left.
  bool run(std::vector<Slot>& granted, std::optional<std::int32_t> above = std::nullopt);

 private:
  // The next class of each bucket of a queue.
  struct Next {
    JobQueueRank rank;
    WaitQueues::Bucket* bucket = nullptr;
    PendingClass* of = nullptr;
    friend bool operator<(const Next& a, const Next& b) { return b.rank < a.rank; }
  };
  enum class Outcome { passed, in_vain, granted };

  bool is_spent() const;
  // Walks a queue until a slot is granted, the queue ends, or the budget is spent.
  Outcome go_along(WaitQueues::JobQueue& queue);
  void push_next(WaitQueues::Bucket& bucket);
  Outcome examine(PendingClass& of);
  void note_passing(const Slot& slot, Node& node, const PendingClass& of);
  // Returns true if the quota of its job allows one more slot, now and in its turn.
  bool is_allowed(const PendingClass& of) const;
  // A request shape with one of its selectors.
  struct Choice {
    const ShapeRow* row = nullptr;
    const RequestShape* shape = nullptr;
    std::size_t number = 0;
    std::pair<std::uint64_t, std::size_t> key() const { return {row->number, number}; }
  };
  PlacementTarget place(PendingClass& of);
  // Returns true if it waits for ending slots of the node, to get the best fitting device.
  bool awaits_devices(const Node& node, const PendingClass& of) const;
  PlacementTarget choose(const Choice& choice, const Preference* preference);
  void grant(PlacementTarget target, PendingClass& of);
  // The best node for a shape that no earlier freed node fits.
  Node* best_freed(const Choice& choice);
  // The best of all nodes.
  Node* best_of_all(const Choice& choice);
  // The best of the nodes with the least spare capacity; empty if too many qualify.
  std::optional<Node*> best_of_tightest(const Choice& choice);

  ClusterView& cluster_;
  SlotAccounting& accounting_;
  PendingDemands& pending_;
  const PlacementSettings& settings_;
  const Terms terms_;
  Sweep& sweep_;
  const std::uint64_t stamp_;  // capacity freed later is for the next round
  std::vector<Slot>* granted_ = nullptr;
  std::vector<Next> heads_;  // a heap over the buckets of the queue being walked
  // Ranks only worsen in a round, so a node that does not serve at its position never will.
  std::map<std::pair<std::uint64_t, std::size_t>, CandidateHeap> heaps_;  // by choice
  // by choice: no node fits up to this rank
  std::map<std::pair<std::uint64_t, std::size_t>, NodeRank> passed_;
  std::int64_t in_vain_ = 0, visits_ = 0, node_checks_ = 0;
};

}  // namespace mobula::internal::scheduler
