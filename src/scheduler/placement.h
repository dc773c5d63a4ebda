// One round of handing out what is free, to those who wait in the order of waiting_lines.h. It goes on
// with the sweep in progress, and looks only at classes that something freed may serve; when its budget
// is spent the sweep stays open for the next round. Not thread-safe: lives for one call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "scheduler/ending_devices.h"
#include "scheduler/pending_demands.h"
#include "scheduler/policy.h"
#include "scheduler/slot_books.h"

namespace mobula::internal::scheduler {

struct PlacementSettings {
  std::int64_t spread_threshold = 500'000;  // millionths of a node in use
  std::int64_t examinations_per_free = 64;  // asks looked at in vain per freed node
  std::int64_t visits_per_plan = 20'000;    // classes met, whether looked at or not
  std::int64_t node_checks_per_plan = 200'000;
  std::size_t grants_per_plan = 16;
  Duration quota_reserve_after = 2s;  // what is left of a quota is withheld for who waits so long
  Duration settle_delay = 500ms;      // longest wait of a request for a part of a device for slots that end
};

class PlacementRound {
 public:
  struct Terms {
    Time now;
    const std::function<SlotId()>& next_slot;
    const std::map<ClassKey, NodeId>& reserved;  // the node withheld for a class, tried first
    const EndingDevices& ending;
  };
  PlacementRound(ClusterView& cluster, SlotBooks& books, PendingDemands& pending,
                 const PlacementSettings& settings, const Terms& terms);

  // Serves jobs of a priority above `above`, or all. Returns whether there is more to do for them.
  bool run(std::vector<Slot>& granted, std::optional<std::int32_t> above = std::nullopt);

 private:
  // The next class of each lane of a line.
  struct Next {
    LineRank rank;
    WaitingLines::Bucket* bucket = nullptr;
    PendingClass* of = nullptr;
    friend bool operator<(const Next& a, const Next& b) { return b.rank < a.rank; }
  };
  enum class Outcome { passed, in_vain, granted };

  bool is_spent() const;
  // Goes along a line until something is granted, it has ended, or the budget is spent.
  Outcome go_along(WaitingLines::Line& line);
  void push_next(WaitingLines::Bucket& bucket);
  Outcome examine(PendingClass& of);
  void note_passing(const Slot& slot, Node& node, const PendingClass& of);
  // Whether its job's quota lets it have one, now and in its turn.
  bool is_allowed(const PendingClass& of) const;
  // An ask with one of its selectors.
  struct Choice {
    const AskRow* row = nullptr;
    const Ask* ask = nullptr;
    std::size_t number = 0;
    std::pair<std::uint64_t, std::size_t> key() const { return {row->number, number}; }
  };
  Spot place(PendingClass& of);
  // Whether it waits for slots of the node that end, to get the device that suits it best.
  bool awaits_devices(const Node& node, const PendingClass& of) const;
  Spot choose(const Choice& choice, const Preference* preference);
  void grant(Spot spot, PendingClass& of);
  // The best node for an ask of which it is known that nothing freed long ago fits it.
  Node* best_freed(const Choice& choice);
  // The best of all nodes.
  Node* best_of_all(const Choice& choice);
  // The best of the nodes with least to spare for it; nothing: there are too many to tell.
  std::optional<Node*> best_of_tightest(const Choice& choice);

  ClusterView& cluster_;
  SlotBooks& books_;
  PendingDemands& pending_;
  const PlacementSettings& settings_;
  const Terms terms_;
  Sweep& sweep_;
  const std::uint64_t stamp_;  // what is freed later is for the next round
  std::vector<Slot>* granted_ = nullptr;
  std::vector<Next> heads_;  // a heap, of the line being gone along
  // Ranks only get worse in a round, so what does not serve at a place in the order never will.
  std::map<std::pair<std::uint64_t, std::size_t>, CandidateHeap> heaps_;  // by choice
  std::map<std::pair<std::uint64_t, std::size_t>, NodeRank> passed_;      // likewise: nothing fits it up to here
  std::int64_t in_vain_ = 0, visits_ = 0, node_checks_ = 0;
};

}  // namespace mobula::internal::scheduler
