// The nodes that may be given work, best first by the hybrid policy, kept in order while books
// change: the first that fits is the best. Packing counts CPU, memory and object store: below the
// spread threshold a node scores 0, so nodes are filled one after the other up to it and then
// levelled (Ray's hybrid_scheduling_policy.cc). Integers alone. Not thread-safe: owned by one core.
#pragma once

#include <compare>
#include <cstdint>
#include <set>

#include "base/id.h"
#include "scheduler/instance_ledger.h"

namespace mobula::internal::scheduler {

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
  // What it knows of one node, kept by the node's owner; no id: it is not in the order.
  void put(NodeId node, bool has_devices, std::int64_t score, NodeRank& known);
  void remove(NodeRank& known);

  // The order for requests that want devices, or for those that had better leave them alone.
  const std::set<NodeRank>& ranks(bool for_devices) const { return for_devices ? any_ : sparing_; }

 private:
  std::set<NodeRank> any_, sparing_;
};

}  // namespace mobula::internal::scheduler
