// Which of the nodes that fit is best, in integers alone: the hybrid policy (pack nodes below the
// spread threshold in order of id, then level them), spreading, and locality. Ray's rules
// (hybrid_scheduling_policy.cc), except that the best node is taken, not a random one of the best
// k: there is one scheduler, so nothing herds. Not thread-safe. Affinity pins a node:
// cluster_view.h.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

// Lower is better.
struct NodeRank {
  bool wastes_devices = false;  // a node with devices for a request without
  std::int64_t score = 0;
  NodeId node;
  friend auto operator<=>(const NodeRank&, const NodeRank&) = default;
};

// `spread_threshold` in millionths: a node used less than that scores 0.
NodeRank rank(const Node& node, const Ask& ask, std::int64_t spread_threshold);

// The nodes that fit one ask, best first, while things are booked and nothing is freed: a rank then
// only gets worse, so the best is found by correcting the head of a heap.
class CandidateHeap {
 public:
  explicit CandidateHeap(std::int64_t spread_threshold) : threshold_(spread_threshold) {}

  void add(const Node& node, const Ask& ask);
  void seal();
  // The best node that still fits, or null.
  Node* best(ClusterView& cluster, const Ask& ask);
  // Whether `node` ranks no worse than `best`, ids aside.
  bool as_good(const Node& node, const Node& best, const Ask& ask) const;

 private:
  std::int64_t threshold_;
  std::vector<NodeRank> ranks_;  // a heap with the best on top
};

struct NodeBytes {
  NodeId node;
  std::int64_t bytes = 0;
};

// What one demand prefers among nodes that fit.
struct Preference {
  std::vector<NodeBytes> locality;  // argument bytes that lie on nodes
  NodeId home;                      // wins among equals; empty: none
};

// The node for one slot: the one with most argument bytes, else home if none ranks better, else the
// best of `heap`. Strategies other than the default one look at the heap alone. Null: none fits.
Node* choose(ClusterView& cluster, CandidateHeap& heap, const Ask& ask,
             const Preference& preference);

}  // namespace mobula::internal::scheduler
