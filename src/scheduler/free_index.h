// Nodes by how much one request could get of a resource there: finds the nodes that may serve an
// amount without looking at the others, those with least to spare first. Not thread-safe: owned by
// one core.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id.h"
#include "scheduler/instance_ledger.h"

namespace mobula::internal::scheduler {

class FreeIndex {
 public:
  using Order = std::set<std::pair<Quantity, NodeId>>;
  // What it knows of one node, kept by the node's owner.
  struct Known {
    std::string resource;
    Order::iterator at;
  };
  using Entry = std::vector<Known>;

  void put(NodeId node, const InstanceLedger& ledger, Entry& entry);
  void remove(Entry& entry);
  // All nodes that have the resource; from lower_bound({amount, {}}) on those with enough of it.
  const Order& nodes(std::string_view resource) const;

 private:
  std::map<std::string, Order, std::less<>> by_resource_;
  void erase(const Known& known);
};

}  // namespace mobula::internal::scheduler
