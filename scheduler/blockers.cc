#include "scheduler/blockers.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/fewest_slots.h"

namespace mobula::internal::scheduler {
namespace {

// Actors and placement groups end only on request.
bool is_lasting(const HeldSlot* held) {
  return !held->slot.actor.empty() || !held->slot.bundle_of.empty();
}

// The expected order of return.
auto outlook(const HeldSlot* held) {
  return std::tuple(is_lasting(held), !held->recalled, !held->resident, held->sequence);
}

// True if only slots of others keep the request out.
bool is_taken(ReasonCode code) {
  switch (code) {
    case ReasonCode::resource_busy:
    case ReasonCode::accelerator_type_busy:
    case ReasonCode::gpu_memory_busy:
    case ReasonCode::executors_full:
    case ReasonCode::oversubscribed: return true;
    default: return false;
  }
}

class Comparison {
 public:
  Comparison(const SlotAccounting& accounting, const RequestShape& shape)
      : accounting_(accounting), shape_(shape) {}

  // `trial` is the ledger of the node or of a bundle there; `slots` are the slots in it.
  void examine(const Node& node, std::int32_t bundle, InstanceLedger trial,
               const std::vector<SlotId>& slots) {
    std::vector<const HeldSlot*> candidates;
    for (const auto id : slots) {
      const auto* held = accounting_.find(id);
      if (held != nullptr && held->slot.allocation.bundle == bundle) {
        candidates.push_back(held);
      }
    }
    std::ranges::sort(candidates, {}, outlook);
    const auto fits = [&](const InstanceLedger& left) { return left.fits(shape_.need); };
    const auto needed = fewest_slots(trial, candidates, fits);
    if (needed.empty() || !fits(trial)) return;
    const auto lasting = std::ranges::count_if(needed, is_lasting);
    const std::pair cost(lasting, needed.size());
    if (best_ && cost >= best_cost_) return;
    best_cost_ = cost;
    best_ = Blockers{node.id, bundle, {}};
    for (const auto* held : needed) best_->slots.push_back(held->slot.id);
  }
  std::optional<Blockers> best() && { return std::move(best_); }

 private:
  const SlotAccounting& accounting_;
  const RequestShape& shape_;
  std::optional<Blockers> best_;
  std::pair<std::ptrdiff_t, std::size_t> best_cost_;
};

std::optional<Blockers> least_in_bundles(const ClusterView& cluster,
                                         const SlotAccounting& accounting,
                                         const RequestShape& shape) {
  const auto* group = cluster.bundles_of(shape.group);
  if (group == nullptr) return std::nullopt;
  Comparison comparison(accounting, shape);
  for (const auto& [bundle, capacity] : group->capacities) {
    const auto* node = cluster.nodes().find(capacity.node);
    const bool meant = shape.bundle < 0 || shape.bundle == bundle;
    if (!meant || !capacity.open || node == nullptr ||
        !is_taken(capacity.ledger.why_not(shape.need).code))
      continue;
    const auto inside = accounting.slots_in(shape.group);
    comparison.examine(*node, bundle, capacity.ledger, {inside.begin(), inside.end()});
  }
  return std::move(comparison).best();
}

}  // namespace

std::optional<Blockers> least_blockers(const ClusterView& cluster, const SlotAccounting& accounting,
                                       const RequestShape& shape, std::size_t limit) {
  if (!shape.group.empty()) return least_in_bundles(cluster, accounting, shape);
  Comparison comparison(accounting, shape);
  for (const auto& [id, node] : cluster.nodes()) {
    const auto code = cluster.why_not(node, shape).code;
    if (code == ReasonCode::fits) return std::nullopt;
    if (!is_taken(code)) continue;
    comparison.examine(node, -1, node.ledger, node.slots);
    if (--limit == 0) break;
  }
  return std::move(comparison).best();
}

}  // namespace mobula::internal::scheduler
