#include "scheduler/preemption.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/mark.h"
#include "scheduler/fewest_slots.h"

namespace mobula::internal::scheduler {
namespace {

const Mark mark_preempt("scheduler.preempt");
const Mark mark_preempt_set("scheduler.preempt_several_for_one");

}  // namespace

void Preemptor::run(Time now, Reclaimer& reclaimer, std::vector<Recall>& out) {
  if (!settings_.after || (due_ && now < *due_)) return;
  now_ = now;
  due_.reset();
  std::erase_if(asked_for_, [&](const auto& each) { return now - each.second >= settings_.again; });
  std::size_t served = 0;
  for (auto* of : waiting_longest(now)) {
    for (const auto& [rank, demand] : of->waiting) {
      if (served == settings_.demands_per_round) break;
      if (now - rank.since < *settings_.after || asked_for_.contains(*demand->key)) continue;
      ++served;
      preempt_for(*demand, reclaimer, out);
    }
  }
  trials_.clear();
  chosen_.clear();
}

// Classes of jobs below which there are others, the highest priority first. Says when to look again.
std::vector<PendingClass*> Preemptor::waiting_longest(Time now) {
  auto lowest = std::numeric_limits<std::int32_t>::max();
  for (const auto& [id, job] : books_.jobs()) {
    if (!job.task_slots.empty()) lowest = std::min(lowest, job.terms.priority);
  }
  std::vector<PendingClass*> waiting;
  pending_.for_each_by_age([&](Time since, PendingClass& of) {
    due_ = now + std::min(settings_.again, std::max<Duration>(*settings_.after, 100ms));
    if (now - since < *settings_.after) {
      due_ = std::max(*due_, since + *settings_.after);
      return false;
    }
    const bool in_turn = books_.terms(of.key.first).priority > lowest && of.ask->ask.group.empty() &&
                         !of.is_parked();
    if (in_turn && pending_.feasible(*of.ask) && !pending_.never_allowed(of)) waiting.push_back(&of);
    return waiting.size() < settings_.demands_per_round;
  });
  std::ranges::stable_sort(waiting, std::greater<>(), [&](const PendingClass* of) {
    return books_.terms(of->key.first).priority;
  });
  return waiting;
}

void Preemptor::preempt_for(Demand& demand, Reclaimer& reclaimer, std::vector<Recall>& out) {
  const auto& key = *demand.key;
  const auto reserved = reclaimer.reserved().find(demand.of->key);
  const bool has_node = reserved != reclaimer.reserved().end() && &demand == &demand.of->first();
  const auto priority = books_.terms(key.job).priority;
  auto lacking = demand.wanted - demand.rank.held;
  Victims chosen;
  if (has_node && make_room_on(reserved->second, demand.of->ask->ask, priority, chosen)) --lacking;
  auto candidates = lacking > 0 ? victims_below(priority) : Victims();
  while (lacking > 0 && make_room_anywhere(demand, candidates, chosen)) --lacking;
  if (chosen.empty()) return;
  reclaimer.reserve_if_none(*demand.of, chosen.front()->slot.node);
  asked_for_[key] = now_;
  for (const auto* held : chosen) {
    const auto& slot = held->slot;
    mark_preempt.hit();
    out.push_back({slot.id, slot.node, slot.lessee, RecallCause::preemption, key.job, key.class_id});
    books_.mark_preempted(slot.id, now_);
  }
}

bool Preemptor::may_end(const HeldSlot& held, std::int32_t priority) const {
  const auto& slot = held.slot;
  return tenant_of(slot) == Tenant::task && slot.allocation.group.empty() &&
         books_.terms(slot.job).priority < priority && !chosen_.contains(slot.id) && !held.passed &&
         (!held.preempted || now_ - held.recalled_at >= settings_.spared_for);
}

auto Preemptor::order() const {
  return [this](const HeldSlot* held) {
    return std::pair(books_.terms(held->slot.job).priority, -static_cast<std::int64_t>(held->sequence));
  };
}

Preemptor::Victims Preemptor::victims_on(NodeId node, std::int32_t priority) const {
  Victims victims;
  for (const auto id : books_.slots_on(node)) {
    const auto* held = books_.find(id);
    if (may_end(*held, priority)) victims.push_back(held);
  }
  std::ranges::sort(victims, {}, order());
  return victims;
}

Preemptor::Victims Preemptor::victims_below(std::int32_t priority) const {
  Victims victims;
  for (const auto& [id, job] : books_.jobs()) {
    if (job.terms.priority >= priority) continue;
    for (const auto& [sequence, slot] : job.task_slots) {
      const auto* held = books_.find(slot);
      if (may_end(*held, priority)) victims.push_back(held);
    }
  }
  const auto few = std::min(victims.size(), settings_.slots_per_demand);
  std::ranges::partial_sort(victims, victims.begin() + static_cast<std::ptrdiff_t>(few), {}, order());
  victims.resize(few);
  return victims;
}

InstanceLedger& Preemptor::trial_of(NodeId node) {
  const auto at = trials_.find(node);
  if (at != trials_.end()) return at->second;
  return trials_.emplace(node, cluster_.nodes().at(node).ledger).first->second;
}

bool Preemptor::make_room_on(NodeId id, const Ask& ask, std::int32_t priority, Victims& chosen) {
  const auto* node = cluster_.nodes().find(id);
  if (node == nullptr || node->state != NodeState::alive || !cluster_.can_ever(*node, ask)) return false;
  auto& trial = trial_of(id);
  for (const auto slot : books_.slots_on(id)) {
    const auto& held = *books_.find(slot);
    const bool comes_back = held.preempted && !held.refused && !chosen_.contains(slot) &&
                            now_ - held.recalled_at < settings_.spared_for;
    if (comes_back) trial.free(held.slot.allocation, occupancy_of(held.slot));
  }
  const auto fits = [&](const InstanceLedger& ledger) { return ledger.fits(ask.need); };
  const auto needed = fewest_slots(trial, victims_on(id, priority), fits);
  if (!fits(trial)) {
    for (const auto* held : needed) trial.restore(held->slot.allocation, occupancy_of(held->slot));
    return false;
  }
  if (needed.size() > 1) mark_preempt_set.hit();
  trial.book(ask.need);
  for (const auto* held : needed) chosen_.insert(held->slot.id);
  chosen.insert(chosen.end(), needed.begin(), needed.end());
  return true;
}

bool Preemptor::make_room_anywhere(const Demand& demand, Victims& candidates, Victims& chosen) {
  const auto& ask = demand.of->ask->ask;
  const auto pinned = cluster_.pinned(ask);
  for (const auto* held : candidates) {
    const auto& slot = held->slot;
    if (chosen_.contains(slot.id) || (pinned && *pinned != slot.node)) continue;
    const auto& node = *held->node;
    const bool barred = node.reservation && node.reservation->owner != demand.of->key;
    if (node.state != NodeState::alive || barred || !cluster_.can_ever(node, ask)) continue;
    auto& trial = trial_of(slot.node);
    if (trial.fits(ask.need)) continue;  // the next round of placement finds it
    trial.free(slot.allocation, occupancy_of(slot));
    if (trial.book(ask.need)) {
      chosen_.insert(slot.id);
      chosen.push_back(held);
      return true;
    }
    trial.restore(slot.allocation, occupancy_of(slot));
  }
  return false;
}

}  // namespace mobula::internal::scheduler
