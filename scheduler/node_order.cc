#include "scheduler/node_order.h"

#include <algorithm>

#include "scheduler/cluster_view.h"

namespace mobula::internal::scheduler {

std::int64_t packing_score(const InstanceLedger& ledger, std::int64_t spread_threshold) {
  std::int64_t score = 0;
  const auto& layout = *ledger.layout();
  for (const auto at : layout.packed) {
    const auto& of = layout.resources[at];
    score = std::max(score, millionths(ledger.used(of), of.total));
  }
  return score < spread_threshold ? 0 : score;
}

void NodeOrder::put(Node& node) {
  auto& known = node.order_entry;
  const NodeRank rank{node.ledger.has_devices(), node.score, node.id};
  if (known == rank) return;
  remove(node);
  known = rank;
  sparing_.insert(rank, &node);
  any_.insert({false, rank.score, rank.node}, &node);
}

void NodeOrder::remove(Node& node) {
  auto& known = node.order_entry;
  if (known.node.empty()) return;
  sparing_.erase(known);
  any_.erase({false, known.score, known.node});
  known = {};
}

}  // namespace mobula::internal::scheduler
