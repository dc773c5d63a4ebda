#include "scheduler/policy.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace mobula::internal::scheduler {
namespace {

std::int64_t used_millionths(const InstanceLedger& ledger, std::string_view name) {
  const auto total = ledger.total(name);
  return millionths(total - ledger.available(name), total);
}

}  // namespace

NodeRank rank(const Node& node, const Ask& ask, std::int64_t spread_threshold) {
  std::int64_t score = 0;
  if (ask.spread) {
    score = node.spread_slots;
  } else {
    for (const auto name : {resource::cpu, resource::memory, resource::object_store_memory}) {
      score = std::max(score, used_millionths(node.ledger, name));
    }
    if (score < spread_threshold) score = 0;
  }
  return {node.ledger.has_devices() && !ask.need.has_devices, score, node.id};
}

void CandidateHeap::add(const Node& node, const Ask& ask) {
  ranks_.push_back(rank(node, ask, threshold_));
}

void CandidateHeap::seal() { std::ranges::make_heap(ranks_, std::greater<>()); }

Node* CandidateHeap::best(ClusterView& cluster, const Ask& ask) {
  while (!ranks_.empty()) {
    const auto stored = ranks_.front();
    auto* node = cluster.nodes().find(stored.node);
    const bool fits = node != nullptr && cluster.fits(*node, ask);
    const auto current = fits ? rank(*node, ask, threshold_) : NodeRank();
    if (fits && current == stored) return node;
    std::ranges::pop_heap(ranks_, std::greater<>());
    ranks_.pop_back();
    if (!fits) continue;
    ranks_.push_back(current);
    std::ranges::push_heap(ranks_, std::greater<>());
  }
  return nullptr;
}

bool CandidateHeap::as_good(const Node& node, const Node& best, const Ask& ask) const {
  auto mine = rank(node, ask, threshold_);
  mine.node = best.id;
  return mine <= rank(best, ask, threshold_);
}

Node* choose(ClusterView& cluster, CandidateHeap& heap, const Ask& ask,
             const Preference& preference) {
  const bool by_policy = !ask.spread && !ask.wanted_node;
  if (by_policy) {
    const NodeBytes* most = nullptr;
    for (const auto& each : preference.locality) {
      if (each.bytes <= 0 || (most != nullptr && std::pair(-each.bytes, each.node) >=
                                                     std::pair(-most->bytes, most->node))) {
        continue;
      }
      const auto* node = cluster.nodes().find(each.node);
      if (node != nullptr && cluster.fits(*node, ask)) most = &each;
    }
    if (most != nullptr) return cluster.nodes().find(most->node);
  }
  auto* best = heap.best(cluster, ask);
  if (best == nullptr || !by_policy) return best;
  auto* home = cluster.nodes().find(preference.home);
  if (home == nullptr || !cluster.fits(*home, ask)) return best;
  return heap.as_good(*home, *best, ask) ? home : best;
}

}  // namespace mobula::internal::scheduler
