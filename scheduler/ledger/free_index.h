// Index of nodes by the largest amount of a resource that one request could get there. Finds nodes
// for an amount without a scan, the least spare capacity first.
// Thread: owner (one core).
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/containers/ordered_runs.h"
#include "base/id.h"
#include "base/quantity.h"

namespace mobula::internal::scheduler {

struct Node;

class FreeIndex {
 public:
  struct Share {
    Quantity amount;
    NodeId node;
    friend auto operator<=>(const Share&, const Share&) = default;
  };
  using Order = OrderedRuns<Share, Node*>;
  // Entry of the index in a node: the amount of each resource of its layout, or nothing.
  using Entry = std::vector<Quantity>;

  void put(Node& node);
  // Required before the node is removed or gets another layout.
  void remove(Node& node);
  // All nodes with the resource, in ascending amount: lower_bound({amount, {}}) is the first with
  // enough of it.
  const Order& nodes(std::string_view resource) const;

 private:
  std::map<std::string, Order, std::less<>> by_resource_;
};

}  // namespace mobula::internal::scheduler
