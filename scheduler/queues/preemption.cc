#include "scheduler/queues/preemption.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/coverage_mark.h"
#include "scheduler/fewest_slots.h"
#include "scheduler/groups/group_feasibility.h"

namespace mobula::internal::scheduler {
namespace {

const CoverageMark mark_preempt("scheduler.preempt");
const CoverageMark mark_preempt_set("scheduler.preempt_several_for_one");
const CoverageMark mark_preempt_group("scheduler.preempt_for_group");
const CoverageMark mark_question("scheduler.preempt_queried_before");

// The waiting group as a holder for which slots are ended.
HolderKey waiter_of(const Groups::Row& group) {
  const auto [job, class_id] = reservation_key(group.spec);
  return {{}, {}, job, class_id};
}

}  // namespace

void Preemptor::run(Time now, Reclaimer& reclaimer, std::vector<Recall>& out) {
  if (!settings_.after || (due_ && now < *due_)) return;
  begin_round(now);
  const auto waiting = waiting_longest();
  const auto* group = group_due();
  std::size_t served = 0;
  for (auto* of : waiting) {
    if (group != nullptr && group->job_priority >= accounting_.terms(of->key.first).priority) {
      preempt_for(*std::exchange(group, nullptr), reclaimer, out);
    }
    for (const auto& [rank, demand] : of->waiting) {
      if (served == settings_.demands_per_round) break;
      if (now - rank.since < *settings_.after || queried_.contains(*demand->key)) continue;
      ++served;
      preempt_for(*demand, reclaimer, out);
    }
  }
  if (group != nullptr) preempt_for(*group, reclaimer, out);
  trials_.clear();
  chosen_.clear();
}

void Preemptor::begin_round(Time now) {
  now_ = now;
  due_.reset();
  std::erase_if(queried_, [&](const auto& each) { return now - each.second >= settings_.again; });
  std::erase_if(questions_, [&](const auto& each) { return !queried_.contains(each.second); });
  lowest_ = std::numeric_limits<std::int32_t>::max();
  for (const auto& [id, job] : accounting_.jobs()) {
    if (!job.task_slots.empty()) lowest_ = std::min(lowest_, job.terms.priority);
  }
}

void Preemptor::answered(SlotId slot) {
  const auto at = questions_.find(slot);
  if (at == questions_.end()) return;
  const auto waiter = at->second;
  questions_.erase(at);
  if (std::ranges::any_of(questions_, [&](const auto& each) { return each.second == waiter; }))
    return;
  queried_.erase(waiter);
  due_ = Time();
}

// Waiting classes of jobs with lower-priority jobs below them, the highest priority first. Also
// sets the time of the next check.
std::vector<PendingClass*> Preemptor::waiting_longest() {
  std::vector<PendingClass*> waiting;
  pending_.for_each_by_age([&](Time since, PendingClass& of) {
    due_ = now_ + std::min(settings_.again, std::max<Duration>(*settings_.after, 100ms));
    if (now_ - since < *settings_.after) {
      due_ = std::max(*due_, since + *settings_.after);
      return false;
    }
    pending_.heed_quota(of);
    const bool in_turn = accounting_.terms(of.key.first).priority > lowest_ &&
                         of.row->shape.group.empty() && !of.is_parked();
    if (in_turn && pending_.feasible(*of.row) && !pending_.never_allowed(of))
      waiting.push_back(&of);
    return waiting.size() < settings_.demands_per_round;
  });
  std::ranges::stable_sort(waiting, std::greater<>(), [&](const PendingClass* of) {
    return accounting_.terms(of->key.first).priority;
  });
  return waiting;
}

const Groups::Row* Preemptor::group_due() {
  const auto* group = groups_.first_waiting();
  if (group == nullptr) return nullptr;
  const auto from = group->waits_since + *settings_.after;
  const auto next_try = std::max(from, now_ + settings_.again);
  due_ = due_ ? std::min(*due_, next_try) : next_try;
  const bool in_turn =
      now_ >= from && group->job_priority > lowest_ && !queried_.contains(waiter_of(*group));
  return in_turn ? group : nullptr;
}

void Preemptor::preempt_for(Demand& demand, Reclaimer& reclaimer, std::vector<Recall>& out) {
  const auto reserved = reclaimer.reserved().find(demand.of->key);
  const bool has_node = reserved != reclaimer.reserved().end() && &demand == &demand.of->first();
  const auto priority = accounting_.terms(demand.key->job).priority;
  const auto allowed = accounting_.slots_within_quota(demand.key->job, demand.of->row->most_held);
  auto lacking = std::min(demand.wanted - demand.rank.held, allowed);
  if (has_node && lacking > 0) {
    if (const auto victims = capacity_for(demand.of->row->shape, reserved->second, priority)) {
      --lacking;
      end(*victims, *demand.key, out);
    }
  }
  const auto candidates = lacking > 0 ? victims_below(priority) : Victims();
  for (; lacking > 0; --lacking) {
    const auto* held = capacity_anywhere(demand, candidates);
    if (held == nullptr) break;
    reclaimer.reserve_if_none(*demand.of, held->slot.node);
    end({held}, *demand.key, out);
  }
}

void Preemptor::preempt_for(const Groups::Row& group, Reclaimer& reclaimer,
                            std::vector<Recall>& out) {
  queried_[waiter_of(group)] = now_;
  const auto& held = reclaimer.for_group().held();
  std::optional<Victims> victims;
  if (held && held->group == group.spec.id) victims = capacity_for(group, held->bundles);
  if (!victims) {
    const auto choice = choice_for(group);
    if (!choice || !reclaimer.reserve_for(group, *choice, now_)) return;
    victims = capacity_for(group, *choice);
  }
  if (!victims || victims->empty()) return;
  mark_preempt_group.hit();
  end(*victims, waiter_of(group), out);
}

void Preemptor::end(const Victims& together, const HolderKey& for_whom, std::vector<Recall>& out) {
  if (together.empty()) return;
  queried_[for_whom] = now_;
  if (together.size() > 1) mark_preempt_set.hit();
  const bool may = together.size() == 1 || std::ranges::all_of(together, [](const HeldSlot* held) {
                     return held->ending == Ending::allowed;
                   });
  for (const auto* held : together) {
    const auto& slot = held->slot;
    if (!may && held->ending == Ending::allowed) continue;
    out.push_back({slot.id, slot.node, slot.lessee, RecallCause::preemption, for_whom.job,
                   for_whom.class_id, !may});
    accounting_.mark_ending(slot.id, may ? Ending::ordered : Ending::requested, now_);
    if (may) {
      mark_preempt.hit();
    } else {
      mark_question.hit();
      questions_.insert_or_assign(slot.id, for_whom);
    }
  }
}

bool Preemptor::may_end(const HeldSlot& held, std::int32_t priority) const {
  const auto& slot = held.slot;
  if (tenant_of(slot) != Tenant::task || !slot.allocation.group.empty() || held.passed ||
      accounting_.terms(slot.job).priority >= priority || chosen_.contains(slot.id)) {
    return false;
  }
  return held.ending == Ending::unasked || held.ending == Ending::allowed ||
         now_ - held.recalled_at >= settings_.spared_for;
}

bool Preemptor::comes_back(const HeldSlot& held) const {
  return held.ending == Ending::ordered && now_ - held.recalled_at < settings_.spared_for &&
         !chosen_.contains(held.slot.id);
}

auto Preemptor::order() const {
  return [this](const HeldSlot* held) {
    return std::pair(accounting_.terms(held->slot.job).priority,
                     -static_cast<std::int64_t>(held->sequence));
  };
}

Preemptor::Victims Preemptor::victims_on(NodeId node, std::int32_t priority) const {
  Victims victims;
  for (const auto id : accounting_.slots_on(node)) {
    const auto* held = accounting_.find(id);
    if (may_end(*held, priority)) victims.push_back(held);
  }
  std::ranges::sort(victims, {}, order());
  return victims;
}

Preemptor::Victims Preemptor::victims_below(std::int32_t priority) const {
  Victims victims;
  for (const auto& [id, job] : accounting_.jobs()) {
    if (job.terms.priority >= priority) continue;
    for (const auto& [sequence, slot] : job.task_slots) {
      const auto* held = accounting_.find(slot);
      if (may_end(*held, priority)) victims.push_back(held);
    }
  }
  const auto few = std::min(victims.size(), settings_.slots_per_demand);
  std::ranges::partial_sort(victims, victims.begin() + static_cast<std::ptrdiff_t>(few), {},
                            order());
  victims.resize(few);
  return victims;
}

InstanceLedger& Preemptor::trial_of(NodeId node) {
  const auto at = trials_.find(node);
  if (at != trials_.end()) return at->second;
  return trials_.emplace(node, cluster_.nodes().at(node).ledger).first->second;
}

template <class Fits>
std::optional<Preemptor::Victims> Preemptor::victims_on(NodeId id, std::int32_t priority,
                                                        InstanceLedger& trial,
                                                        const Fits& fits) const {
  for (const auto slot : accounting_.slots_on(id)) {
    const auto& held = *accounting_.find(slot);
    if (comes_back(held)) trial.free(held.slot.allocation, occupancy_of(held.slot));
  }
  auto needed = fewest_slots(trial, victims_on(id, priority), fits);
  if (!fits(trial)) return std::nullopt;
  return needed;
}

std::optional<Preemptor::Victims> Preemptor::capacity_for(const RequestShape& shape, NodeId id,
                                                          std::int32_t priority) {
  const auto* node = cluster_.nodes().find(id);
  if (node == nullptr || node->state != NodeState::alive || !cluster_.can_ever(*node, shape))
    return std::nullopt;
  if (cluster_.unreached_by(*node, shape) != nullptr) return std::nullopt;
  auto trial = trial_of(id);
  const auto fits = [&](const InstanceLedger& ledger) { return ledger.fits(shape.need); };
  auto victims = victims_on(id, priority, trial, fits);
  if (!victims) return std::nullopt;
  trial.book(shape.need);
  trial_of(id) = std::move(trial);
  for (const auto* held : *victims) chosen_.insert(held->slot.id);
  return victims;
}

std::optional<Preemptor::Victims> Preemptor::capacity_for(const Groups::Row& group,
                                                          const BundleChoice& choice) {
  Victims all;
  std::map<NodeId, InstanceLedger> trials;
  for (const auto& [id, bundles] : choice) {
    const auto* node = cluster_.nodes().find(id);
    if (node == nullptr || node->state != NodeState::alive) return std::nullopt;
    auto& trial = trials.emplace(id, trial_of(id)).first->second;
    const auto fits = [&, &on_node = bundles](const InstanceLedger& ledger) {
      return fit_together(ledger, group, on_node);
    };
    const auto victims = victims_on(id, group.job_priority, trial, fits);
    if (!victims) return std::nullopt;
    for (const auto bundle : bundles)
      trial.book(group.sites[static_cast<std::size_t>(bundle)].shape.need);
    all.insert(all.end(), victims->begin(), victims->end());
  }
  for (auto& [id, trial] : trials) trial_of(id) = std::move(trial);
  for (const auto* held : all) chosen_.insert(held->slot.id);
  return all;
}

std::optional<BundleChoice> Preemptor::choice_for(const Groups::Row& group) const {
  auto view = view_without(cluster_, accounting_, [&](const HeldSlot& held) {
    return may_end(held, group.job_priority) || comes_back(held);
  });
  for (const auto& [id, node] : cluster_.nodes()) {
    const bool is_others = node.reservation && node.reservation->group != group.spec.id;
    if (is_others) view.set_state(id, NodeState::draining);
  }
  return choice_on(view, group);
}

const HeldSlot* Preemptor::capacity_anywhere(const Demand& demand, const Victims& candidates) {
  const auto& shape = demand.of->row->shape;
  const auto pinned = cluster_.pinned(shape);
  for (const auto* held : candidates) {
    const auto& slot = held->slot;
    if (chosen_.contains(slot.id) || (pinned && *pinned != slot.node)) continue;
    const auto& node = *held->node;
    const bool barred = node.reservation && node.reservation->owner != demand.of->key;
    if (node.state != NodeState::alive || barred || !cluster_.can_ever(node, shape)) continue;
    if (cluster_.unreached_by(node, shape) != nullptr) continue;
    auto& trial = trial_of(slot.node);
    if (trial.fits(shape.need)) continue;  // the next round of placement finds it
    trial.free(slot.allocation, occupancy_of(slot));
    if (trial.book(shape.need)) {
      chosen_.insert(slot.id);
      return held;
    }
    trial.restore(slot.allocation, occupancy_of(slot));
  }
  return nullptr;
}

}  // namespace mobula::internal::scheduler
