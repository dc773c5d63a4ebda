// Chooses the best fitting node for one demand: locality first, then the order of node_order.h or
// of spreading, with a preferred home among equals. Ray's rules, except that the best node is used
// and not a random one of the best k: with one scheduler, no herding occurs.
// Thread: owner.
// Not: affinity, see cluster_view.h.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

NodeRank rank(const Node& node, const RequestShape& shape);

// The nodes that fit one shape, best first, while capacity is only allocated. Ranks then only
// worsen, so correcting the head of a heap finds the best.
class CandidateHeap {
 public:
  void add(const Node& node, const RequestShape& shape);
  void seal();
  // The best node that still fits, or null.
  Node* best(ClusterView& cluster, const RequestShape& shape);

 private:
  std::vector<NodeRank> ranks_;  // a heap with the best on top
};

struct NodeBytes {
  NodeId node;
  std::int64_t bytes = 0;
};

// Preferences of one demand among nodes that fit.
struct Preference {
  std::vector<NodeBytes> locality;  // argument bytes by node
  NodeId home;                      // preferred among equals; empty: none
  std::vector<NodeId> callers{};    // nodes that must reach the node
};

// The fitting node with the most argument bytes, for the default strategy; else null.
Node* nearest(ClusterView& cluster, const RequestShape& shape, const Preference& preference);

// `best`, or the preferred home if it fits and ranks no worse apart from its id.
Node* prefer_home(ClusterView& cluster, const RequestShape& shape, const Preference& preference,
                  Node* best);

}  // namespace mobula::internal::scheduler
