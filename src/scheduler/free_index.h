// Nodes by how much one request could get of a resource there: finds the nodes that may serve an
// amount without looking at the others, those with least to spare first. Not thread-safe: owned by
// one core.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/ordered_runs.h"
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
  // What it knows of one node, kept there: how much of each resource of its layout, or nothing.
  using Entry = std::vector<Quantity>;

  void put(Node& node);
  // Before the node goes, or gets another layout.
  void remove(Node& node);
  // All nodes that have the resource; from lower_bound({amount, {}}) on those with enough of it.
  const Order& nodes(std::string_view resource) const;

 private:
  std::map<std::string, Order, std::less<>> by_resource_;
};

}  // namespace mobula::internal::scheduler
