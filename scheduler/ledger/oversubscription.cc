#include "scheduler/ledger/oversubscription.h"

#include <algorithm>
#include <tuple>

#include "base/coverage_mark.h"

namespace mobula::internal::scheduler {
namespace {

const CoverageMark mark_oversubscribed("scheduler.recall_for_overdraft");

bool is_over(std::optional<Quantity> free) { return free && *free < Quantity(); }

Quantity cpu_of(const Slot& slot) {
  if (slot.lent) return {};
  const auto* cpu = slot.allocation.find(resource::cpu);
  return cpu == nullptr || cpu->shares.empty() ? Quantity() : cpu->shares.front().amount;
}

}  // namespace

std::optional<Quantity> Oversubscription::free_cpus(const Place& place) const {
  if (place.group.empty()) {
    const auto* node = cluster_.nodes().find(place.node);
    return node == nullptr ? std::nullopt : std::optional(node->ledger.available(resource::cpu));
  }
  const auto* room = cluster_.room(place.group, place.bundle);
  return room == nullptr || room->node != place.node
             ? std::nullopt
             : std::optional(room->ledger.available(resource::cpu));
}

void Oversubscription::resumed(const Slot& slot) {
  const auto& [group, bundle] = std::tie(slot.allocation.group, slot.allocation.bundle);
  const Place place{slot.node, group, group.empty() ? -1 : bundle};
  if (is_over(free_cpus(place))) over_.try_emplace(place, std::nullopt);
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
    auto& [place, since] = *at;
    const bool over = is_over(free_cpus(place));
    if (!since) since = now;
    if (over && now - *since < recall_after_) {
      ++at;
      continue;
    }
    if (over) recall_in(place, now, out);
    at = over_.erase(at);  // it cannot get worse before another slot continues
  }
}

void Oversubscription::recall_in(const Place& place, Time now, std::vector<Recall>& out) {
  std::vector<const HeldSlot*> candidates;
  auto lacking = -*free_cpus(place);
  for (const auto id : accounting_.slots_on(place.node)) {
    const auto* held = accounting_.find(id);
    const auto& allocation = held->slot.allocation;
    if (allocation.group != place.group ||
        (!place.group.empty() && allocation.bundle != place.bundle))
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
