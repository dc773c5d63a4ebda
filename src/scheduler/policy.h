// Which of the nodes that fit is best for one demand: locality first, then the order of
// node_order.h or of spreading, with a preferred home among equals. Ray's rules, except that the
// best node is taken, not a random one of the best k: there is one scheduler, so nothing herds. Not
// thread-safe. Affinity pins a node: cluster_view.h.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

NodeRank rank(const Node& node, const Ask& ask);

// The nodes that fit one ask, best first, while things are booked and nothing is freed: a rank then
// only gets worse, so the best is found by correcting the head of a heap.
class CandidateHeap {
 public:
  void add(const Node& node, const Ask& ask);
  void seal();
  // The best node that still fits, or null.
  Node* best(ClusterView& cluster, const Ask& ask);

 private:
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
  std::vector<NodeId> callers{};    // that have to reach the node
};

// Of the nodes that fit, the one with most argument bytes, for the default strategy; else null.
Node* nearest(ClusterView& cluster, const Ask& ask, const Preference& preference);

// `best`, or the preferred home if it fits and ranks no worse, ids aside.
Node* prefer_home(ClusterView& cluster, const Ask& ask, const Preference& preference, Node* best);

}  // namespace mobula::internal::scheduler
