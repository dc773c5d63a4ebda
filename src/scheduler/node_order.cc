#include "scheduler/node_order.h"

#include <algorithm>

namespace mobula::internal::scheduler {

std::int64_t packing_score(const InstanceLedger& ledger, std::int64_t spread_threshold) {
  std::int64_t score = 0;
  for (const auto name : {resource::cpu, resource::memory, resource::object_store_memory}) {
    const auto total = ledger.total(name);
    score = std::max(score, millionths(total - ledger.available(name), total));
  }
  return score < spread_threshold ? 0 : score;
}

void NodeOrder::put(NodeId node, bool has_devices, std::int64_t score) {
  const NodeRank rank{has_devices, score, node};
  auto [at, added] = sparing_ranks_.try_emplace(node, rank);
  if (!added) {
    if (at->second == rank) return;
    sparing_.erase(at->second);
    any_.erase({false, at->second.score, node});
    at->second = rank;
  }
  sparing_.insert(rank);
  any_.insert({false, score, node});
}

void NodeOrder::remove(NodeId node) {
  const auto at = sparing_ranks_.find(node);
  if (at == sparing_ranks_.end()) return;
  sparing_.erase(at->second);
  any_.erase({false, at->second.score, node});
  sparing_ranks_.erase(at);
}

}  // namespace mobula::internal::scheduler
