// The nodes that may be given work, best first by the hybrid policy, kept in order while books
// change: the first that fits is the best. Packing counts CPU, memory and object store: below the
// spread threshold a node scores 0, so nodes are filled one after the other up to it and then
// levelled (Ray's hybrid_scheduling_policy.cc). Integers alone. Not thread-safe: owned by one core.
#pragma once

#include <compare>
#include <cstdint>

#include "base/id.h"
#include "base/ordered_runs.h"
#include "scheduler/instance_ledger.h"

namespace mobula::internal::scheduler {

struct Node;

// Lower is better.
struct NodeRank {
  bool wastes_devices = false;  // a node with devices for a request without
  std::int64_t score = 0;
  NodeId node;
  friend auto operator<=>(const NodeRank&, const NodeRank&) = default;
};

// Use of the resource used most, in millionths; 0 below `spread_threshold`.
std::int64_t packing_score(const InstanceLedger& ledger, std::int64_t spread_threshold);

class NodeOrder {
 public:
  using Order = OrderedRuns<NodeRank, Node*>;

  // What it knows of a node is kept there; no id: the node is not in the order.
  void put(Node& node);
  void remove(Node& node);

  // The order for requests that want devices, or for those that had better leave them alone.
  const Order& ranks(bool for_devices) const { return for_devices ? any_ : sparing_; }

 private:
  Order any_, sparing_;
};

}  // namespace mobula::internal::scheduler
