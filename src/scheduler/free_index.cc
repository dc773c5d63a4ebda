#include "scheduler/free_index.h"

namespace mobula::internal::scheduler {

void FreeIndex::put(NodeId node, const InstanceLedger& ledger, Entry& entry) {
  std::size_t at = 0;
  const auto forget_rest = [&] {
    for (auto rest = at; rest < entry.size(); ++rest) erase(entry[rest]);
    entry.resize(at);
  };
  ledger.for_each_share([&](const std::string& name, Quantity share) {
    if (at < entry.size() && entry[at].resource != name) forget_rest();  // it has another shape
    if (at == entry.size()) {
      entry.push_back({name, by_resource_[name].emplace(share, node).first});
    } else if (entry[at].at->first != share) {
      auto& order = by_resource_.find(name)->second;
      auto moved = order.extract(entry[at].at);
      moved.value().first = share;
      entry[at].at = order.insert(std::move(moved)).position;
    }
    ++at;
  });
  forget_rest();
}

void FreeIndex::remove(Entry& entry) {
  for (const auto& known : entry) erase(known);
  entry.clear();
}

void FreeIndex::erase(const Known& known) {
  const auto order = by_resource_.find(known.resource);
  order->second.erase(known.at);
  if (order->second.empty()) by_resource_.erase(order);
}

const FreeIndex::Order& FreeIndex::nodes(std::string_view resource) const {
  static const Order none;
  const auto at = by_resource_.find(resource);
  return at == by_resource_.end() ? none : at->second;
}

}  // namespace mobula::internal::scheduler
