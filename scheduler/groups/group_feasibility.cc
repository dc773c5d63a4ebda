#include "scheduler/groups/group_feasibility.h"

#include <algorithm>
#include <tuple>

#include "scheduler/fewest_slots.h"
#include "scheduler/groups/group_placer.h"

namespace mobula::internal::scheduler {
namespace {

bool lasts(const HeldSlot& held) {
  return !held.slot.actor.empty() || !held.slot.bundle_of.empty();
}
bool is_in_bundle(const HeldSlot& held) { return !held.slot.allocation.group.empty(); }

// A bundle of the group, or a slot in one.
bool is_own(const HeldSlot& held, GroupId group) {
  return !group.empty() && (held.slot.bundle_of == group || held.slot.allocation.group == group);
}

// Slots whose return frees capacity of the node, the next to return first.
std::vector<const HeldSlot*> returns_on(const SlotAccounting& accounting, const Node& node,
                                        GroupId own) {
  std::vector<const HeldSlot*> slots;
  for (const auto id : node.slots) {
    const auto* held = accounting.find(id);
    if (!is_in_bundle(*held) && !is_own(*held, own)) slots.push_back(held);
  }
  std::ranges::sort(slots, {}, [](const HeldSlot* held) {
    return std::tuple(lasts(*held), !held->recalled, held->sequence);
  });
  return slots;
}

}  // namespace

ClusterView view_without(const ClusterView& cluster, const SlotAccounting& accounting,
                         const std::function<bool(const HeldSlot&)>& is_gone) {
  auto view = cluster.emptied();
  for (const auto& [id, node] : cluster.nodes()) {
    auto& like = view.nodes().at(id);
    for (const auto slot_id : node.slots) {
      const auto& held = *accounting.find(slot_id);
      if (is_gone(held)) continue;
      const auto& slot = held.slot;
      like.ledger.restore(is_in_bundle(held) ? Allocation() : slot.allocation, occupancy_of(slot));
    }
    view.took(like);
  }
  return view;
}

std::optional<BundleChoice> choice_on(ClusterView& view, const Groups::Row& row) {
  const auto owner = reservation_key(row.spec);
  const auto found = GroupPlacer(view, row.sites, row.locations, &owner).place(row.spec.strategy);
  if (!found) return std::nullopt;
  BundleChoice choice;
  for (const auto& each : *found) choice[each.node].push_back(each.bundle);
  return choice;
}

bool fit_together(InstanceLedger ledger, const Groups::Row& row,
                  const std::vector<std::int32_t>& bundles) {
  return std::ranges::all_of(bundles, [&](std::int32_t bundle) {
    return ledger.book(row.sites[static_cast<std::size_t>(bundle)].shape.need).has_value();
  });
}

std::optional<GroupBlockers> group_blockers(const ClusterView& cluster,
                                            const SlotAccounting& accounting,
                                            const Groups::Row& row) {
  const auto own = row.spec.id;
  const auto is_task = [&](const HeldSlot& held) { return !lasts(held) && !is_own(held, own); };
  // The slots in a bundle end with it.
  const auto is_others = [&](const HeldSlot& held) { return !is_own(held, own); };
  std::optional<BundleChoice> choice;
  for (const auto& is_gone : {std::function<bool(const HeldSlot&)>(is_task),
                              std::function<bool(const HeldSlot&)>(is_others)}) {
    auto view = view_without(cluster, accounting, is_gone);
    choice = choice_on(view, row);
    if (choice) break;
  }
  if (!choice) return std::nullopt;
  GroupBlockers blockers{std::move(*choice), {}};
  for (const auto& [id, bundles] : blockers.bundles) {
    const auto& node = cluster.nodes().at(id);
    auto trial = node.ledger;
    const auto fits = [&, &on_node = bundles](const InstanceLedger& ledger) {
      return fit_together(ledger, row, on_node);
    };
    for (const auto* held : fewest_slots(trial, returns_on(accounting, node, own), fits)) {
      blockers.slots.push_back(held->slot.id);
    }
  }
  return blockers;
}

}  // namespace mobula::internal::scheduler
