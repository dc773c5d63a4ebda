// The alive nodes in the order of the hybrid policy, updated with their ledgers: the first that
// fits is the best. Below the spread threshold of CPU, memory, and object store a node scores 0, so
// nodes are filled up to it one by one and leveled above it (Ray's hybrid_scheduling_policy.cc).
// Integer arithmetic only.
// Thread: owner (one core).
#pragma once

#include <compare>
#include <cstdint>

#include "base/containers/ordered_runs.h"
#include "base/id.h"
#include "scheduler/ledger/instance_ledger.h"

namespace mobula::internal::scheduler {

struct Node;

// Lower is better.
struct NodeRank {
  bool wastes_devices = false;  // a node with devices for a request without devices
  std::int64_t score = 0;
  NodeId node;
  friend auto operator<=>(const NodeRank&, const NodeRank&) = default;
};

// Use of the most used resource, in millionths; 0 below `spread_threshold`.
std::int64_t packing_score(const InstanceLedger& ledger, std::int64_t spread_threshold);

class NodeOrder {
 public:
  using Order = OrderedRuns<NodeRank, Node*>;

  // The rank is stored in the node; an empty id means that the node is not in the order.
  void put(Node& node);
  void remove(Node& node);

  // The order for requests with devices, or for requests that should avoid devices.
  const Order& ranks(bool for_devices) const { return for_devices ? any_ : sparing_; }

 private:
  Order any_, sparing_;
};

}  // namespace mobula::internal::scheduler
