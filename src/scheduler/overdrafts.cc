#include "scheduler/overdrafts.h"

#include <algorithm>

#include "base/mark.h"

namespace mobula::internal::scheduler {
namespace {

const Mark mark_overdraft("scheduler.recall_for_overdraft");

bool is_over(const Node& node) { return node.ledger.available(resource::cpu) < Quantity(); }

// Of the node itself; what slots have in bundles is the bundles'.
Quantity cpu_of(const Slot& slot) {
  if (slot.lent || !slot.allocation.group.empty()) return {};
  const auto* cpu = slot.allocation.find(resource::cpu);
  return cpu == nullptr || cpu->shares.empty() ? Quantity() : cpu->shares.front().amount;
}

}  // namespace

void Overdrafts::resumed(NodeId id) {
  const auto* node = cluster_.nodes().find(id);
  if (node != nullptr && is_over(*node)) over_.try_emplace(id, std::nullopt);
}

std::optional<Time> Overdrafts::due() const {
  std::optional<Time> first;
  for (const auto& [id, since] : over_) {
    const Time due = since ? *since + recall_after_ : Time();
    first = std::min(first.value_or(due), due);
  }
  return first;
}

void Overdrafts::run(Time now, std::vector<Recall>& out) {
  for (auto at = over_.begin(); at != over_.end();) {
    auto& [id, since] = *at;
    const auto* node = cluster_.nodes().find(id);
    const bool over = node != nullptr && is_over(*node);
    if (!since) since = now;
    if (over && now - *since < recall_after_) {
      ++at;
      continue;
    }
    if (over) recall_on(*node, now, out);
    at = over_.erase(at);  // it gets no worse before another slot resumes
  }
}

void Overdrafts::recall_on(const Node& node, Time now, std::vector<Recall>& out) {
  std::vector<const HeldSlot*> candidates;
  auto lacking = -node.ledger.available(resource::cpu);
  for (const auto id : books_.slots_on(node.id)) {
    const auto* held = books_.find(id);
    if (tenant_of(held->slot) != Tenant::task || cpu_of(held->slot) == Quantity()) continue;
    if (held->recalled) {
      lacking = lacking - cpu_of(held->slot);
    } else {
      candidates.push_back(held);
    }
  }
  std::ranges::sort(candidates, [](const auto* a, const auto* b) { return a->sequence > b->sequence; });
  for (const auto* held : candidates) {
    if (lacking <= Quantity()) return;
    const auto& slot = held->slot;
    lacking = lacking - cpu_of(slot);
    books_.mark_recalled(slot.id, now);
    out.push_back({slot.id, slot.node, slot.lessee, RecallCause::overdraft, {}, {}});
    mark_overdraft.hit();
  }
}

}  // namespace mobula::internal::scheduler
