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

void NodeOrder::put(NodeId node, bool has_devices, std::int64_t score, NodeRank& known) {
  const NodeRank rank{has_devices, score, node};
  if (known == rank) return;
  remove(known);
  known = rank;
  sparing_.insert(rank);
  any_.insert({false, score, node});
}

void NodeOrder::remove(NodeRank& known) {
  if (known.node.empty()) return;
  sparing_.erase(known);
  any_.erase({false, known.score, known.node});
  known = {};
}

}  // namespace mobula::internal::scheduler
