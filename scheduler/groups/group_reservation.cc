#include "scheduler/groups/group_reservation.h"

#include <algorithm>
#include <tuple>

#include "base/coverage_mark.h"
#include "scheduler/fewest_slots.h"
#include "scheduler/groups/group_feasibility.h"

namespace mobula::internal::scheduler {
namespace {

const CoverageMark mark_group_reserve("scheduler.reserve_for_group");
const CoverageMark mark_moved("scheduler.group_reservation_moved");

}  // namespace

const Groups::Row* GroupReservation::due(Time now) const {
  const auto* row = groups_.first_waiting();
  return row != nullptr && now - row->waits_since >= settings_.reserve_after ? row : nullptr;
}

std::optional<Time> GroupReservation::next_due() const {
  const auto* row = groups_.first_waiting();
  if (row == nullptr) return std::nullopt;
  const auto again = held_ ? held_->revise_at : tried_again_at_;
  return std::max(row->waits_since + settings_.reserve_after, again);
}

void GroupReservation::lift() {
  if (!held_) return;
  for (const auto& [id, bundles] : held_->bundles) {
    auto* node = cluster_.nodes().find(id);
    if (node != nullptr && node->reservation && node->reservation->group == held_->group) {
      cluster_.lift_reservation(*node);
    }
  }
  held_.reset();
  tried_again_at_ = {};
}

void GroupReservation::lift_unneeded(Time now) {
  if (!held_) return;
  const bool stands = std::ranges::all_of(held_->bundles, [&](const auto& each) {
    const auto* node = cluster_.nodes().find(each.first);
    return node != nullptr && node->state == NodeState::alive && node->reservation &&
           node->reservation->group == held_->group;
  });
  const auto* first = groups_.first_waiting();
  const bool others_turn =
      first != nullptr && first->spec.id != held_->group && due(now) == nullptr;
  if (!stands || others_turn || !groups_.is_waiting(held_->group)) lift();
}

void GroupReservation::reserve_for(const Groups::Row& row, const std::set<NodeId>& kept_for_others,
                                   Time now, std::vector<Recall>& out) {
  now_ = now;
  if (now < (held_ ? held_->revise_at : tried_again_at_)) return;
  tried_again_at_ = now + settings_.recall_again;
  const auto waits_in_vain = [&] {
    return std::ranges::any_of(held_->bundles, [&](const auto& each) {
      return returns_on(row, each.first, each.second).overdue;
    });
  };
  const bool is_anothers = held_ && held_->group != row.spec.id;
  if (!held_ || is_anothers || waits_in_vain()) {
    auto choice = choose(row, kept_for_others, false);
    if (!choice && (!held_ || is_anothers)) choice = choose(row, kept_for_others, true);
    if (choice) move_to(row, std::move(*choice), now);
  }
  if (held_ && held_->group != row.spec.id) lift();
  if (!held_) return;
  held_->revise_at = now + settings_.recall_again;
  held_->slots_to_return = 0;
  const auto owner = reservation_key(row.spec);
  for (const auto& [id, bundles] : held_->bundles) {
    const auto returns = returns_on(row, id, bundles);
    held_->slots_to_return += returns.slots.size();
    for (const auto* held : returns.slots) {
      if (held->recalled || held->passed) continue;
      const auto& slot = held->slot;
      out.push_back(
          {slot.id, slot.node, slot.lessee, RecallCause::reservation, owner.first, owner.second});
      accounting_.mark_recalled(slot.id, now);
    }
  }
}

void GroupReservation::move_to(const Groups::Row& row, BundleChoice choice, Time now) {
  now_ = now;
  ReservationGate withheld;
  if (held_) {
    mark_moved.hit();
    withheld = cluster_.nodes().at(held_->bundles.begin()->first).reservation->withheld;
  }
  lift();
  take(row, std::move(choice), withheld);
  held_->revise_at = now + settings_.recall_again;
}

bool GroupReservation::may_recall(const HeldSlot& held, const Groups::Row& row) const {
  const auto& slot = held.slot;
  return tenant_of(slot) == Tenant::task && slot.allocation.group.empty() &&
         (held.resident || accounting_.terms(slot.job).priority <= row.job_priority);
}

bool GroupReservation::is_overdue(const HeldSlot& held) const {
  return held.ending == Ending::refused ||
         (held.recalled && now_ - held.recalled_at >= settings_.recall_again);
}

std::optional<GroupReservation::Choice> GroupReservation::choose(
    const Groups::Row& row, const std::set<NodeId>& kept_for_others, bool patient) const {
  auto view = view_without(cluster_, accounting_, [&](const HeldSlot& held) {
    return may_recall(held, row) && (patient || !is_overdue(held));
  });
  for (const auto id : kept_for_others) view.set_state(id, NodeState::draining);
  return choice_on(view, row);
}

void GroupReservation::take(const Groups::Row& row, Choice choice,
                            const ReservationGate& withheld) {
  mark_group_reserve.hit();
  for (const auto& [id, bundles] : choice) {
    Reservation reservation{reservation_key(row.spec), {}, row.spec.id, withheld};
    auto& amounts = reservation.need.amounts;
    for (const auto bundle : bundles) {
      for (const auto& each : row.sites[static_cast<std::size_t>(bundle)].shape.need.amounts) {
        const auto known = std::ranges::find(amounts, each.name, &Need::Amount::name);
        if (known == amounts.end()) {
          amounts.push_back(each);
        } else {
          known->amount += each.amount;
        }
      }
    }
    auto& node = cluster_.nodes().at(id);
    if (node.reservation) cluster_.lift_reservation(node);
    cluster_.reserve(node, std::move(reservation));
  }
  held_ = Held{row.spec.id, std::move(choice), now_, 0};
}

GroupReservation::Returns GroupReservation::returns_on(
    const Groups::Row& row, NodeId id, const std::vector<std::int32_t>& bundles) const {
  std::vector<const HeldSlot*> victims;
  for (const auto slot : accounting_.slots_on(id)) {
    const auto* held = accounting_.find(slot);
    if (may_recall(*held, row)) victims.push_back(held);
  }
  std::ranges::sort(victims, {}, [&](const HeldSlot* held) {
    return std::tuple(is_overdue(*held), !held->recalled,
                      accounting_.terms(held->slot.job).priority, held->sequence);
  });
  auto trial = cluster_.nodes().at(id).ledger;
  Returns returns;
  returns.slots = fewest_slots(trial, victims, [&](const InstanceLedger& ledger) {
    return fit_together(ledger, row, bundles);
  });
  returns.overdue =
      std::ranges::any_of(returns.slots, [&](const auto* held) { return is_overdue(*held); });
  return returns;
}

}  // namespace mobula::internal::scheduler
