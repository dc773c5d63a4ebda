#include "scheduler/ledger/oversubscription.h"

#include <algorithm>
#include <tuple>

#include "base/coverage_mark.h"

namespace mobula::internal::scheduler {
namespace {

const CoverageMark mark_oversubscribed("scheduler.recall_for_oversubscription");

bool is_over(std::optional<Quantity> free) { return free && *free < Quantity(); }

Quantity cpu_of(const Slot& slot) {
  if (slot.lent) return {};
  const auto* cpu = slot.allocation.find(resource::cpu);
  return cpu == nullptr || cpu->shares.empty() ? Quantity() : cpu->shares.front().amount;
}

}  // namespace

std::optional<Quantity> Oversubscription::free_cpus(const Pool& pool) const {
  if (pool.group.empty()) {
    const auto* node = cluster_.nodes().find(pool.node);
    return node == nullptr ? std::nullopt : std::optional(node->ledger.available(resource::cpu));
  }
  const auto* capacity = cluster_.capacity(pool.group, pool.bundle);
  return capacity == nullptr || capacity->node != pool.node
             ? std::nullopt
             : std::optional(capacity->ledger.available(resource::cpu));
}

void Oversubscription::resumed(const Slot& slot) {
  const auto& [group, bundle] = std::tie(slot.allocation.group, slot.allocation.bundle);
  const Pool pool{slot.node, group, group.empty() ? -1 : bundle};
  if (is_over(free_cpus(pool))) over_.try_emplace(pool, std::nullopt);
}

std::optional<Time> Oversubscription::due() const {
  std::optional<Time> first;
  for (const auto& [id, since] : over_) {
    const Time due = since ? *since + recall_after_ : Time();
    first = std::min(first.value_or(due), due);
  }
  return first;
}

void Oversubscription::run(Time now, std::vector<Recall>& out) {
  for (auto at = over_.begin(); at != over_.end();) {
    auto& [pool, since] = *at;
    const bool over = is_over(free_cpus(pool));
    if (!since) since = now;
    if (over && now - *since < recall_after_) {
      ++at;
      continue;
    }
    if (over) recall_in(pool, now, out);
    at = over_.erase(at);  // it cannot get worse before another slot continues
  }
}

void Oversubscription::recall_in(const Pool& pool, Time now, std::vector<Recall>& out) {
  std::vector<const HeldSlot*> candidates;
  auto lacking = -*free_cpus(pool);
  for (const auto id : accounting_.slots_on(pool.node)) {
    const auto* held = accounting_.find(id);
    const auto& allocation = held->slot.allocation;
    if (allocation.group != pool.group || (!pool.group.empty() && allocation.bundle != pool.bundle))
      continue;
    if (tenant_of(held->slot) != Tenant::task || cpu_of(held->slot) == Quantity()) continue;
    if (held->recalled) {
      lacking = lacking - cpu_of(held->slot);
    } else {
      candidates.push_back(held);
    }
  }
  std::ranges::sort(candidates,
                    [](const auto* a, const auto* b) { return a->sequence > b->sequence; });
  for (const auto* held : candidates) {
    if (lacking <= Quantity()) return;
    const auto& slot = held->slot;
    lacking = lacking - cpu_of(slot);
    accounting_.mark_recalled(slot.id, now);
    out.push_back({slot.id, slot.node, slot.lessee, RecallCause::oversubscription, {}, {}});
    mark_oversubscribed.hit();
  }
}

}  // namespace mobula::internal::scheduler
