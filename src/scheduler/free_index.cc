#include "scheduler/free_index.h"

namespace mobula::internal::scheduler {

void FreeIndex::put(NodeId node, const InstanceLedger& ledger) {
  auto& shares = shares_[node];
  for (const auto& name : ledger.names()) {
    const auto share = ledger.largest_share(name);
    const auto [at, added] = shares.try_emplace(name, share);
    if (!added && at->second == share) continue;
    auto& order = by_resource_[name];
    if (!added) order.erase({at->second, node});
    at->second = share;
    order.emplace(share, node);
  }
}

void FreeIndex::remove(NodeId node) {
  const auto at = shares_.find(node);
  if (at == shares_.end()) return;
  for (const auto& [name, share] : at->second) {
    const auto order = by_resource_.find(name);
    order->second.erase({share, node});
    if (order->second.empty()) by_resource_.erase(order);
  }
  shares_.erase(at);
}

const FreeIndex::Order& FreeIndex::nodes(std::string_view resource) const {
  static const Order none;
  const auto at = by_resource_.find(resource);
  return at == by_resource_.end() ? none : at->second;
}

}  // namespace mobula::internal::scheduler
