#include "scheduler/policy.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace mobula::internal::scheduler {
namespace {

bool by_default_policy(const RequestShape& shape) { return !shape.spread && !shape.wanted_node; }

}  // namespace

NodeRank rank(const Node& node, const RequestShape& shape) {
  return {node.ledger.has_devices() && !shape.need.has_devices,
          shape.spread ? node.spread_slots : node.score, node.id};
}

void CandidateHeap::add(const Node& node, const RequestShape& shape) {
  ranks_.push_back(rank(node, shape));
}

void CandidateHeap::seal() { std::ranges::make_heap(ranks_, std::greater<>()); }

Node* CandidateHeap::best(ClusterView& cluster, const RequestShape& shape) {
  while (!ranks_.empty()) {
    const auto stored = ranks_.front();
    auto* node = cluster.nodes().find(stored.node);
    const bool fits = node != nullptr && cluster.fits(*node, shape);
    const auto current = fits ? rank(*node, shape) : NodeRank();
    if (fits && current == stored) return node;
    std::ranges::pop_heap(ranks_, std::greater<>());
    ranks_.pop_back();
    if (!fits) continue;
    ranks_.push_back(current);
    std::ranges::push_heap(ranks_, std::greater<>());
  }
  return nullptr;
}

Node* nearest(ClusterView& cluster, const RequestShape& shape, const Preference& preference) {
  if (!by_default_policy(shape)) return nullptr;
  const NodeBytes* most = nullptr;
  for (const auto& each : preference.locality) {
    if (each.bytes <= 0 || (most != nullptr && std::pair(-each.bytes, each.node) >=
                                                   std::pair(-most->bytes, most->node))) {
      continue;
    }
    const auto* node = cluster.nodes().find(each.node);
    if (node != nullptr && cluster.fits(*node, shape)) most = &each;
  }
  return most == nullptr ? nullptr : cluster.nodes().find(most->node);
}

Node* prefer_home(ClusterView& cluster, const RequestShape& shape, const Preference& preference,
                  Node* best) {
  if (best == nullptr || !by_default_policy(shape)) return best;
  auto* home = cluster.nodes().find(preference.home);
  if (home == nullptr || !cluster.fits(*home, shape)) return best;
  auto home_rank = rank(*home, shape);
  home_rank.node = best->id;
  return home_rank <= rank(*best, shape) ? home : best;
}

}  // namespace mobula::internal::scheduler
