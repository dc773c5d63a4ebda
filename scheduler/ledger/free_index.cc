#include "scheduler/ledger/free_index.h"

#include <utility>

#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

void FreeIndex::put(Node& node) {
  auto& known = node.free_entry;
  const auto& resources = node.ledger.layout()->resources;
  const bool added = known.empty();
  known.resize(resources.size());
  for (std::size_t i = 0; i < resources.size(); ++i) {
    const auto share = node.ledger.largest_share(resources[i]);
    const auto before = std::exchange(known[i], share);
    if (!added && share == before) continue;
    auto& order = by_resource_[resources[i].name];
    if (added) {
      order.insert({share, node.id}, &node);
    } else {
      order.move({before, node.id}, {share, node.id});
    }
  }
}

void FreeIndex::remove(Node& node) {
  const auto& resources = node.ledger.layout()->resources;
  for (std::size_t i = 0; i < node.free_entry.size(); ++i) {
    const auto order = by_resource_.find(resources[i].name);
    order->second.erase({node.free_entry[i], node.id});
    if (order->second.empty()) by_resource_.erase(order);
  }
  node.free_entry.clear();
}

const FreeIndex::Order& FreeIndex::nodes(std::string_view resource) const {
  static const Order none;
  const auto at = by_resource_.find(resource);
  return at == by_resource_.end() ? none : at->second;
}

}  // namespace mobula::internal::scheduler
