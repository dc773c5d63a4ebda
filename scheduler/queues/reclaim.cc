#include "scheduler/queues/reclaim.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "base/coverage_mark.h"
#include "scheduler/fewest_slots.h"

namespace mobula::internal::scheduler {
namespace {

const CoverageMark mark_recall("scheduler.recall");
const CoverageMark mark_reserve("scheduler.reserve");
const CoverageMark mark_open("scheduler.withheld_opens");

// Any number of slots that return soon is better than one overdue slot, which is better than one
// whose lessee refused.
constexpr std::array<std::size_t, 3> cost_by_outlook{1, 1'000'000, 1'000'000'000};

}  // namespace

std::string_view to_string(RecallCause cause) {
  switch (cause) {
    case RecallCause::fair_share: return "another demand waits for its share";
    case RecallCause::reservation: return "the node is reserved for an older demand";
    case RecallCause::oversubscription:
      return "a blocked task continues and needs the CPU that it had released";
    case RecallCause::quota: return "another demand of the job waits for its quota";
    case RecallCause::preemption: return "work of a higher priority waits";
    case RecallCause::residence: return "another demand waits for the capacity of resident results";
  }
  return "unknown";
}

void Reclaimer::lift(const ClassKey& key) {
  const auto at = reserved_.find(key);
  if (at == reserved_.end()) return;
  if (auto* node = cluster_.nodes().find(at->second);
      node != nullptr && node->reservation && node->reservation->owner == key) {
    cluster_.lift_reservation(*node);
  }
  reserved_.erase(at);
}

bool Reclaimer::is_outranked(const Groups::Row& group) const {
  return std::ranges::any_of(group.sites, [&](const BundleSite& site) {
    return is_outranked(group.spec.job, site.shape.need);
  });
}

bool Reclaimer::is_outranked(JobId job, const Need& need) const {
  const auto wants_some = [&](const Need::Amount& each) {
    return std::ranges::any_of(need.amounts,
                               [&](const auto& held) { return held.name == each.name; });
  };
  const auto* group = groups_.first_waiting();
  if (group != nullptr && group->job_priority > accounting_.terms(job).priority) {
    const bool rivals = std::ranges::any_of(group->sites, [&](const BundleSite& site) {
      return std::ranges::any_of(site.shape.need.amounts, wants_some);
    });
    if (rivals) return true;
  }
  return pending_.queues().any_of_higher(accounting_.terms(job).priority, [&](PendingClass& of) {
    return std::ranges::any_of(of.row->shape.need.amounts, wants_some) &&
           of.row->shape.group.empty() && pending_.feasible(*of.row);
  });
}

void Reclaimer::lift_unneeded(Time now) {
  std::vector<ClassKey> unneeded;
  for (const auto& [key, id] : reserved_) {
    const auto* node = cluster_.nodes().find(id);
    const auto* of = pending_.waiting_class(key);
    const bool holds = node != nullptr && node->reservation && node->reservation->owner == key &&
                       of != nullptr && !of->is_parked();
    if (!holds || is_outranked(key.first, node->reservation->need)) unneeded.push_back(key);
  }
  for (const auto& key : unneeded) lift(key);
  for_group_.lift_unneeded(now);
  if (for_group_.held() && is_outranked(*groups_.find(for_group_.held()->group))) for_group_.lift();
}

Reclaimer::Search Reclaimer::search_for(const Demand& demand, Time now, bool patient) const {
  Search search;
  search.now = now;
  search.demand = &demand;
  search.shape = &demand.of->row->shape;
  search.patient = patient;
  search.priority = accounting_.terms(demand.key->job).priority;
  search.slots = accounting_.holder(*demand.key).slots;
  const auto* job = accounting_.jobs().find(demand.key->job);
  search.job_has_none = job == nullptr || job->slots == 0;
  search.promised = amounts_of(search.shape->need);
  search.share = accounting_.lasting_share(demand.key->job, search.promised);
  return search;
}

void Reclaimer::search_further(Search& search) const {
  ++search.slots;
  search.job_has_none = false;
  search.promised.add(amounts_of(search.shape->need));
  search.share = accounting_.lasting_share(search.demand->key->job, search.promised);
}

// `taken` is what this search would already take from the job of the victim.
bool Reclaimer::may_take(const Search& search, const HeldSlot& victim,
                         const ResourceSet& taken) const {
  const auto& slot = victim.slot;
  const auto& mine = *search.demand->key;
  const auto theirs = holder_of(slot);
  // A slot in a bundle frees capacity only in its bundle.
  if (tenant_of(slot) != Tenant::task || !slot.allocation.group.empty() || theirs == mine)
    return false;
  // A resident slot runs nothing, and its results are kept: shares and priorities protect only
  // running work.
  if (victim.resident) return true;
  if (!search.patient && search.now - victim.granted_at < settings_.recall_delay) return false;
  if (slot.job == mine.job) {
    const auto holder = accounting_.holder(theirs);
    return search.slots == 0 || holder.slots - holder.recalled - 1 >= search.slots + 1;
  }
  // Priority precedes shares; nothing is taken from a higher priority.
  const auto their_priority = accounting_.terms(slot.job).priority;
  if (their_priority != search.priority) return their_priority < search.priority;
  if ((search.patient && search.slots == 0) || search.job_has_none) return true;
  return accounting_.share_without(slot.job, taken, slot.allocation) >= search.share;
}

// Slots of a node in the order of their expected return. A recalled slot returns anyway, but only a
// reservation ensures that its capacity is still free. Overdue slots are last.
std::vector<Reclaimer::Victim> Reclaimer::victims_on(const Search& search, NodeId node) const {
  std::vector<Victim> victims;
  std::map<JobId, std::int64_t> shares;
  for (const auto id : accounting_.slots_on(node)) {
    const auto* held = accounting_.find(id);
    const auto job = held->slot.job;
    if ((held->recalled && !search.patient) || !may_take(search, *held, {})) continue;
    const bool overdue = held->recalled && search.now - held->recalled_at >= settings_.recall_again;
    const auto outlook = held->ending == Ending::refused ? Outlook::refused
                         : overdue                       ? Outlook::overdue
                                                         : Outlook::good;
    const auto [share, added] = shares.try_emplace(job, 0);
    if (added) share->second = accounting_.lasting_share(job);
    victims.push_back({outlook, !held->recalled, !held->resident, accounting_.terms(job).priority,
                       -share->second, held->sequence, held});
  }
  std::ranges::sort(victims, {}, [](const Victim& each) {
    return std::tuple(each.outlook, each.fresh, each.works, each.priority, each.minus_share,
                      each.sequence);
  });
  return victims;
}

// The fewest slots of `id` that must return before the shape fits there.
std::optional<Reclaimer::Returns> Reclaimer::returns_on(const Search& search, NodeId id) {
  if (nodes_left_ > 0) --nodes_left_;
  const auto& node = cluster_.nodes().at(id);
  const ClassKey class_key = search.demand->of->key;
  if (node.state != NodeState::alive || !cluster_.can_ever(node, *search.shape) ||
      cluster_.unreached_by(node, *search.shape) != nullptr ||
      (node.reservation && node.reservation->owner != class_key)) {
    return std::nullopt;
  }
  const auto victims = victims_on(search, id);
  if (victims.empty()) return std::nullopt;
  const auto& need = search.shape->need;
  auto trial = node.ledger;
  std::map<JobId, ResourceSet> taken;
  const auto slot_of = [](const Victim& victim) -> const Slot& { return victim.held->slot; };
  const auto admit = [&](const Victim& victim) {
    auto& of_job = taken[victim.held->slot.job];
    if (!may_take(search, *victim.held, of_job)) return false;
    of_job.add(amounts_of(victim.held->slot.allocation));
    return true;
  };
  const auto fits = [&](const InstanceLedger& ledger) { return ledger.fits(need); };
  const auto needed = fewest_slots(trial, victims, slot_of, admit, fits);
  if (taken.empty() || !fits(trial)) return std::nullopt;
  Returns returns{id, 0, {}};
  for (const auto& victim : needed) {
    if (victim.fresh && !victim.held->passed) returns.recall.push_back(victim.held->slot.id);
    returns.cost += cost_by_outlook.at(static_cast<std::size_t>(victim.outlook));
  }
  return returns;
}

std::optional<Reclaimer::Returns> Reclaimer::cheapest(const Search& search) {
  if (const auto pinned = cluster_.pinned(*search.shape)) {
    return cluster_.nodes().contains(*pinned) ? returns_on(search, *pinned) : std::nullopt;
  }
  std::optional<Returns> best;
  std::set<NodeId> tried;
  for (const auto* job : victims_) {
    for (const auto& [sequence, slot_id] : job->task_slots) {
      const auto& held = *accounting_.find(slot_id);
      if (held.recalled && !search.patient) continue;
      if (tried.size() >= settings_.nodes_per_demand || nodes_left_ == 0) return best;
      if (!tried.insert(held.slot.node).second) continue;
      auto returns = returns_on(search, held.slot.node);
      if (!returns || (best && best->cost <= returns->cost)) continue;
      best = std::move(returns);
      if (best->cost == 1) return best;
    }
  }
  return best;
}

void Reclaimer::recall(const Search& search, const Returns& returns, RecallCause cause,
                       std::vector<Recall>& out) {
  for (const auto id : returns.recall) {
    const auto slot = accounting_.find(id)->slot;
    const auto why = accounting_.find(id)->resident ? RecallCause::residence : cause;
    accounting_.mark_recalled(id, search.now);
    out.push_back(
        {id, slot.node, slot.lessee, why, search.demand->key->job, search.demand->key->class_id});
    mark_recall.hit();
  }
}

void Reclaimer::recall_for(Demand& demand, Time now, std::vector<Recall>& out) {
  auto search = search_for(demand, now, false);
  demand.recall_from = now + settings_.recall_delay;
  const auto allowed = accounting_.slots_within_quota(demand.key->job, demand.of->row->most_held);
  for (auto lacking = std::min(demand.wanted - demand.rank.held, allowed); lacking > 0; --lacking) {
    const auto returns = cheapest(search);
    if (!returns) break;
    recall(search, *returns, RecallCause::fair_share, out);
    demand.recall_from = now + settings_.recall_again;
    search_further(search);
  }
}

// Reserves the node with the fewest slots to wait for. A reservation moves only to a node with
// fewer.
void Reclaimer::reserve_for(PendingClass& of, Time now, std::vector<Recall>& out) {
  auto& demand = of.first();
  const auto search = search_for(demand, now, true);
  auto chosen = cheapest(search);
  ReservationGate withheld;
  if (const auto at = reserved_.find(of.key); at != reserved_.end()) {
    withheld = cluster_.nodes().at(at->second).reservation->withheld;
    auto here = returns_on(search, at->second);
    if (here && (!chosen || here->cost <= chosen->cost)) chosen = std::move(here);
    if (!chosen || chosen->node != at->second) lift(of.key);
  }
  if (!chosen) return;
  demand.recall_from = now + settings_.recall_again;
  recall(search, *chosen, RecallCause::reservation, out);
  if (!reserved_.emplace(of.key, chosen->node).second) return;
  cluster_.reserve(cluster_.nodes().at(chosen->node), {of.key, search.shape->need, {}, withheld});
  mark_reserve.hit();
}

bool Reclaimer::reserve_for(const Groups::Row& group, const BundleChoice& choice, Time now) {
  if (is_outranked(group)) return false;
  for_group_.move_to(group, choice, now);
  return true;
}

void Reclaimer::reserve_if_none(const PendingClass& of, NodeId id) {
  auto& node = cluster_.nodes().at(id);
  if (node.reservation || !reserved_.emplace(of.key, id).second) return;
  cluster_.reserve(node, {of.key, of.row->shape.need});
  mark_reserve.hit();
}

std::vector<const SlotAccounting::Job*> Reclaimer::jobs_by_share() const {
  struct Row {
    std::tuple<std::int32_t, std::int64_t, std::uint64_t> order;
    const SlotAccounting::Job* job;
  };
  std::vector<Row> rows;
  for (const auto& [id, job] : accounting_.jobs()) {
    if (job.task_slots.empty()) continue;
    rows.push_back({{job.terms.priority, -accounting_.lasting_share(id), job.sequence}, &job});
  }
  std::ranges::sort(rows, {}, &Row::order);
  std::vector<const SlotAccounting::Job*> sorted;
  for (const auto& each : rows) sorted.push_back(each.job);
  return sorted;
}

void Reclaimer::recall_for_quota(Demand& demand, Time now, std::vector<Recall>& out) {
  const auto job_id = demand.key->job;
  const auto& most = demand.of->row->most_held;
  const auto search = search_for(demand, now, true);
  demand.recall_from = now + settings_.recall_delay;
  const auto& job = accounting_.job_row(job_id);
  AmountSums back = job.returning;
  Returns returns;
  const auto suffices = [&] {
    return std::ranges::all_of(job.terms.quota, [&](const auto& each) {
      const auto& [name, quota] = each;
      const auto wanted = most.get(name);
      return wanted == Quantity() ||
             sum_or_most(job.held.get(name) - back.get(name), wanted) <= quota;
    });
  };
  for (const auto& [sequence, id] : job.task_slots) {
    if (suffices()) break;
    const auto& held = *accounting_.find(id);
    const auto amounts = amounts_of(held.slot.allocation);
    const bool helps = std::ranges::any_of(job.terms.quota, [&](const auto& each) {
      return amounts.get(each.first) > Quantity() && most.get(each.first) > Quantity();
    });
    const bool fresh = now - held.granted_at < settings_.recall_delay;
    if (!helps || fresh || held.recalled || held.slot.lent || !may_take(search, held, {})) continue;
    back.add(amounts);
    if (!held.passed) returns.recall.push_back(id);
  }
  if (returns.recall.empty() || !suffices()) return;
  demand.recall_from = now + settings_.recall_again;
  recall(search, returns, RecallCause::quota, out);
}

void Reclaimer::check_again_at(Time now, const ReservationGate::GateCheck& check) {
  // Tasks may block in between.
  wake_at(std::min(check.again, now + settings_.reservation_gate.open_delay_blocked));
}

void Reclaimer::check_withheld(NodeId id, Time now) {
  auto* node = cluster_.nodes().find(id);
  if (node == nullptr || !node->reservation) return;
  const bool blocked = std::ranges::any_of(
      node->slots, [&](SlotId slot) { return accounting_.find(slot)->slot.lent; });
  const auto check = node->reservation->withheld.check(now, blocked, settings_.reservation_gate);
  check_again_at(now, check);
  if (!check.opened) return;
  mark_open.hit();
  cluster_.withheld_changed(*node);
}

void Reclaimer::check_withheld_quota(const PendingClass& of, Time now) {
  auto& job = accounting_.job_row(of.key.first);
  const auto since = of.rank.rank.since;
  if (!job.withheld || job.withheld->owner != of.key || job.withheld->waiting_since != since) {
    job.withheld = WithheldQuota{of.key, since, of.row->most_held, {}};
  }
  const auto check =
      job.withheld->withheld.check(now, job.lent_slots > 0, settings_.reservation_gate);
  check_again_at(now, check);
  if (!check.opened) return;
  mark_open.hit();
  accounting_.quota_opened(of.key.first);
}

std::size_t Reclaimer::recall_for_class(PendingClass& of, Time now, std::size_t limit,
                                        std::vector<Recall>& out) {
  std::size_t examined = 0;
  for (const auto& [rank, demand] : of.waiting) {
    if (now - rank.since < settings_.recall_delay) {
      wake_at(std::max(rank.since + settings_.recall_delay, now + settings_.pause));
      continue;
    }
    if (now >= demand->recall_from) {
      if (examined == limit || nodes_left_ == 0) return limit;
      ++examined;
      recall_for(*demand, now, out);
    }
    wake_at(std::max(demand->recall_from, now + settings_.pause));
  }
  return examined;
}

void Reclaimer::serve_group(Round& round) {
  const auto& row = *std::exchange(round.group, nullptr);
  if (is_outranked(row)) return;
  std::set<NodeId> kept_for_older;
  for (const auto& [key, node] : reserved_) {
    if (pending_.waiting_class(key)->rank.rank.since < row.waits_since) kept_for_older.insert(node);
  }
  for_group_.reserve_for(row, kept_for_older, round.now, round.out);
  std::erase_if(reserved_, [&](const auto& each) {
    return cluster_.nodes().at(each.second).reservation->owner != each.first;
  });
}

void Reclaimer::serve_parked(PendingClass& of, Time since, Round& round) {
  auto& first = of.first();
  const auto is_first = [&] { return pending_.queues().first_for_quota(of.key.first) == &of; };
  if (round.now - since >= settings_.reserve_after && is_first())
    check_withheld_quota(of, round.now);
  if (round.now >= first.recall_from && is_first()) {
    ++round.examined;
    recall_for_quota(first, round.now, round.out);
  }
  wake_at(std::max(first.recall_from, round.next));
}

bool Reclaimer::serve_class(PendingClass& of, Time since, Round& round) {
  auto& row = *of.row;
  if (!row.shape.group.empty() || !pending_.feasible(row) || pending_.never_allowed(of))
    return true;
  if (round.examined >= settings_.demands_per_round || nodes_left_ == 0) {
    goes_on_at_.emplace(since, of.sequence);
    wake_at(round.next);
    return false;
  }
  auto& first = of.first();
  pending_.heed_quota(of);
  if (of.is_parked()) {
    serve_parked(of, since, round);
    return true;
  }
  const auto& resource = row.scarcest.resource;
  if (round.now >= first.recall_from && round.now - since >= settings_.reserve_after &&
      (reserved_.contains(of.key) || !round.reserved_resources.contains(resource)) &&
      !is_outranked(of.key.first, row.shape.need)) {
    ++round.examined;
    reserve_for(of, round.now, round.out);
  }
  if (reserved_.contains(of.key)) {
    round.reserved_resources.insert(resource);
    first.recall_from = std::max(first.recall_from, round.next);
    wake_at(first.recall_from);
  } else if (round.examined < settings_.demands_per_round) {
    round.examined +=
        recall_for_class(of, round.now, settings_.demands_per_round - round.examined, round.out);
  } else {
    wake_at(round.next);
  }
  return true;
}

void Reclaimer::run(Time now, std::vector<Recall>& out) {
  if (const auto oldest = pending_.take_oldest_new()) wake_at(*oldest + settings_.recall_delay);
  // Infeasible demands may be feasible now.
  if (std::exchange(seen_version_, cluster_.version()) != cluster_.version()) wake_at(now);
  if (const auto at = for_group_.next_due()) wake_at(*at);
  if (!due_ || now < *due_) return;
  due_.reset();
  Round round{.now = now, .next = now + settings_.pause, .group = for_group_.due(now), .out = out};
  for (const auto& [key, node] : reserved_) {
    round.reserved_resources.insert(pending_.waiting_class(key)->row->scarcest.resource);
  }
  bool knows_victims = false;
  nodes_left_ = settings_.nodes_per_round;
  // The next round continues after the limit of this one; otherwise only the oldest demands would
  // be searched.
  const auto begin = std::exchange(goes_on_at_, std::nullopt);
  if (begin) wake_at(round.next);
  pending_.for_each_by_age([&](Time since, PendingClass& of) {
    if (round.group != nullptr && round.group->waits_since <= since) serve_group(round);
    if (begin && std::pair(since, of.sequence) < *begin) return true;
    if (now - since < settings_.recall_delay) {
      wake_at(std::max(since + settings_.recall_delay, round.next));
      return false;
    }
    if (!std::exchange(knows_victims, true)) victims_ = jobs_by_share();
    return serve_class(of, since, round);
  });
  if (round.group != nullptr) serve_group(round);
  for (const auto& [key, node] : reserved_) check_withheld(node, now);
  if (const auto& held = for_group_.held()) {
    for (const auto& [node, bundles] : held->bundles) check_withheld(node, now);
  }
  if (const auto at = for_group_.next_due()) wake_at(std::max(*at, round.next));
}

}  // namespace mobula::internal::scheduler
