#include "scheduler/pending_demands.h"

#include <algorithm>

namespace mobula::internal::scheduler {
namespace {

// Equal for requests that may run on the same nodes. `key` ends a part whatever the names contain.
std::string text_of(const Request& request, ProgramId program, Tenant tenant) {
  std::string text = program.hex() + (tenant == Tenant::actor ? "a" : "t");
  const auto part = [&](const std::string& each) {
    text += std::to_string(each.size()) + ":" + each;
  };
  const auto amounts = [&](const ResourceSet& set) {
    text += "|";
    for (const auto& [name, amount] : set.amounts()) {
      part(name);
      text += std::to_string(amount.units()) + ",";
    }
  };
  amounts(request.resources);
  amounts(request.required_totals);
  text += std::to_string(request.gpu_memory) + "|";
  part(request.accelerator_type);
  for (const auto& [key, value] : request.label_selector) {
    part(key);
    part(value);
  }
  text += "|" + std::to_string(request.strategy.index());
  if (const auto* affinity = std::get_if<NodeAffinityStrategy>(&request.strategy)) {
    text += affinity->node.hex() + (affinity->soft ? "s" : "h");
  }
  return text + "|" + request.placement.group.hex() +
         std::to_string(request.placement.bundle_index);
}

}  // namespace

Demand* PendingDemands::find(const HolderKey& key) {
  const auto at = demands_.find(key);
  return at == demands_.end() ? nullptr : &at->second;
}

bool PendingDemands::is_waiting(const ClassKey& key) const {
  const auto at = classes_.find(key);
  return at != classes_.end() && !at->second.waiting.empty();
}

AskNumber PendingDemands::ask_for(const ClassKey& key, const DemandClass& demand_class,
                                  Tenant tenant) {
  auto text = text_of(demand_class.request, demand_class.program, tenant);
  auto [number, added] = ask_by_text_.try_emplace(text, sequence_ + 1);
  if (added) {
    ++sequence_;
    AskRow row{.ask = Ask(demand_class.request, demand_class.program, tenant), .text = text};
    auto scarcest = cluster_.scarcest_of(row.ask.need);
    row.scarcest = std::move(scarcest.resource);
    row.scarcest_amount = scarcest.amount;
    asks_.emplace(number->second, std::move(row));
  }
  asks_.at(number->second).classes.insert(key);
  return number->second;
}

void PendingDemands::set(const Demand& demand, const DemandClass& demand_class) {
  if (demand.wanted <= 0) {
    erase(demand.key);
    return;
  }
  const ClassKey class_key = class_of(demand.key);
  auto [at, added] = demands_.try_emplace(demand.key);
  auto& row = at->second;
  if (added) {
    auto [of, first] = classes_.try_emplace(class_key);
    if (first) {
      const auto tenant = demand.key.actor.empty() ? Tenant::task : Tenant::actor;
      of->second.demand = demand_class;
      of->second.ask = ask_for(class_key, demand_class, tenant);
    }
    ++of->second.holders;
    row.key = demand.key;
    row.rank.sequence = ++sequence_;
  }
  row.preference = demand.preference;
  row.wanted = demand.wanted;
  row.oldest_waiting = demand.oldest_waiting;
  refresh(demand.key);
}

void PendingDemands::refresh(const HolderKey& key) {
  auto* demand = find(key);
  if (demand == nullptr) return;
  const auto held = books_.holder(key).slots;
  const DemandRank rank{held, std::max(demand->oldest_waiting, demand->last_served),
                        demand->rank.sequence};
  const bool waits = demand->wanted > held;
  if (waits == demand->waiting && (!waits || rank == demand->rank)) return;
  if (demand->waiting) stop_waiting(*demand);
  demand->rank = rank;
  if (!waits) {
    demand->reported = false;
    return;
  }
  demand->waiting = true;
  const ClassKey class_key = class_of(key);
  auto& of = classes_.at(class_key);
  auto& ask = asks_.at(of.ask);
  if (of.waiting.empty()) {
    if (ask.waiting.empty()) {
      index(of.ask, ask);
      open_.insert(of.ask);
    }
    ask.waiting.insert(class_key);
  }
  of.waiting.emplace(rank, key);
  by_age_.emplace(rank.since, key);
  if (!demand->reported) unchecked_.insert(of.ask);
}

void PendingDemands::gave_back(const HolderKey& key, Time now) {
  auto* demand = find(key);
  if (demand == nullptr) return;
  demand->last_served = now;
  refresh(key);
}

void PendingDemands::stop_waiting(Demand& demand) {
  demand.waiting = false;
  const ClassKey class_key = class_of(demand.key);
  auto& of = classes_.at(class_key);
  of.waiting.erase(demand.rank);
  by_age_.erase({demand.rank.since, demand.key});
  if (!of.waiting.empty()) return;
  auto& ask = asks_.at(of.ask);
  ask.waiting.erase(class_key);
  if (!ask.waiting.empty()) return;
  remove_from_index(of.ask, ask);
  open_.erase(of.ask);
}

void PendingDemands::index(AskNumber number, const AskRow& row) {
  if (!row.ask.group.empty()) {
    by_group_[row.ask.group].insert(number);
  } else if (row.ask.wanted_node && !row.ask.wanted_softly) {
    by_node_[*row.ask.wanted_node].insert(number);
  } else {
    by_scarcest_[row.scarcest].emplace(row.scarcest_amount, number);
  }
}

void PendingDemands::remove_from_index(AskNumber number, const AskRow& row) {
  if (!row.ask.group.empty()) {
    const auto at = by_group_.find(row.ask.group);
    at->second.erase(number);
    if (at->second.empty()) by_group_.erase(at);
  } else if (row.ask.wanted_node && !row.ask.wanted_softly) {
    const auto at = by_node_.find(*row.ask.wanted_node);
    at->second.erase(number);
    if (at->second.empty()) by_node_.erase(at);
  } else {
    const auto at = by_scarcest_.find(row.scarcest);
    at->second.erase({row.scarcest_amount, number});
    if (at->second.empty()) by_scarcest_.erase(at);
  }
}

void PendingDemands::leave_class(const ClassKey& key) {
  const auto of = classes_.find(key);
  if (--of->second.holders > 0) return;
  const auto ask = asks_.find(of->second.ask);
  ask->second.classes.erase(key);
  if (ask->second.classes.empty()) {
    ask_by_text_.erase(ask->second.text);
    unchecked_.erase(ask->first);
    asks_.erase(ask);
  }
  classes_.erase(of);
}

void PendingDemands::erase(const HolderKey& key) {
  const auto at = demands_.find(key);
  if (at == demands_.end()) return;
  if (at->second.waiting) stop_waiting(at->second);
  demands_.erase(at);
  leave_class(class_of(key));
}

void PendingDemands::erase_lessee(ProcessId lessee) {
  std::vector<HolderKey> keys;
  for (auto at = demands_.lower_bound({lessee, {}, {}, {}});
       at != demands_.end() && at->first.lessee == lessee; ++at) {
    if (at->first.actor.empty()) keys.push_back(at->first);
  }
  for (const auto& key : keys) erase(key);
}

void PendingDemands::erase_job(JobId job) {
  std::vector<HolderKey> keys;
  for (const auto& [key, demand] : demands_) {
    if (key.job == job) keys.push_back(key);
  }
  for (const auto& key : keys) erase(key);
}

void PendingDemands::open_in_freed_groups() {
  for (const auto group : cluster_.take_freed_groups()) {
    const auto at = by_group_.find(group);
    if (at == by_group_.end()) continue;
    open_.insert(at->second.begin(), at->second.end());
    unchecked_.insert(at->second.begin(), at->second.end());
  }
}

std::int64_t PendingDemands::open_freed() {
  open_in_freed_groups();
  std::int64_t freed = 0;
  std::map<std::string, Quantity> most;
  cluster_.for_each_freed_since(opened_through_, [&](const Node& node) {
    if (node.state != NodeState::alive) return;
    ++freed;
    if (const auto at = by_node_.find(node.id); at != by_node_.end()) {
      open_.insert(at->second.begin(), at->second.end());
    }
    for (const auto& [name, asks] : by_scarcest_) {
      auto& there = most[name];
      there = std::max(there, node.ledger.largest_share(name));
    }
  });
  for (const auto& [name, largest] : most) {
    for (const auto& [amount, ask] : by_scarcest_.at(name)) {
      if (amount > largest) break;
      open_.insert(ask);
    }
  }
  opened_through_ = cluster_.last_stamp();
  if (opened_version_ != cluster_.version()) {
    opened_version_ = cluster_.version();
    for (auto& [number, row] : asks_) {
      // Its node may have gone, and then every other one counts.
      if (!row.ask.wanted_softly || row.waiting.empty()) continue;
      row.examined_through = 0;
      open_.insert(number);
    }
  }
  return freed;
}

std::vector<AskNumber> PendingDemands::next_open(std::size_t limit) {
  std::vector<AskNumber> asks;
  auto at = open_.upper_bound(last_opened_);
  for (auto left = std::min(limit, open_.size()); left > 0; --left, ++at) {
    if (at == open_.end()) at = open_.begin();
    asks.push_back(*at);
  }
  if (!asks.empty()) last_opened_ = asks.back();
  return asks;
}

bool PendingDemands::still_open(AskNumber ask, std::uint64_t stamp) {
  if (!open_.contains(ask)) return false;
  const auto& row = asks_.at(ask);
  if (!row.ask.group.empty()) return true;
  if (row.examined_through == 0 || row.scarcest.empty()) return true;
  bool enough = false;
  cluster_.for_each_freed_since(row.examined_through, [&](const Node& node) {
    enough = enough || node.ledger.largest_share(row.scarcest) >= row.scarcest_amount;
  });
  if (!enough) close(ask, stamp);
  return enough;
}

Quantity PendingDemands::least_amount(const std::string& scarcest) const {
  const auto at = by_scarcest_.find(scarcest);
  return at == by_scarcest_.end() ? Quantity() : at->second.begin()->first;
}

void PendingDemands::close(AskNumber ask, std::uint64_t stamp) {
  asks_.at(ask).examined_through = stamp;
  open_.erase(ask);
}

bool PendingDemands::feasible(AskRow& row) const {
  if (!row.ask.group.empty()) return cluster_.room_can_ever(row.ask);
  if (row.checked_version == cluster_.version()) return row.feasible;
  row.checked_version = cluster_.version();
  const auto serves = [&](const Node& node) { return cluster_.can_ever(node, row.ask); };
  if (const auto* node = cluster_.nodes().find(row.feasible_on); node != nullptr && serves(*node)) {
    return row.feasible = true;
  }
  for (const auto& [id, node] : cluster_.nodes()) {
    if (!serves(node)) continue;
    row.feasible_on = id;
    return row.feasible = true;
  }
  return row.feasible = false;
}

std::vector<HolderKey> PendingDemands::take_infeasible() {
  const bool nodes_changed = checked_version_ != cluster_.version();
  if (nodes_changed) {
    checked_version_ = cluster_.version();
    for (const auto& [number, row] : asks_) unchecked_.insert(number);
  }
  std::vector<HolderKey> found;
  for (const auto number : std::exchange(unchecked_, {})) {
    auto& row = asks_.at(number);
    if (feasible(row)) continue;
    for (const auto& class_key : row.waiting) {
      for (const auto& [rank, key] : classes_.at(class_key).waiting) {
        auto& demand = demands_.at(key);
        if (demand.reported && !nodes_changed) continue;
        demand.reported = true;
        found.push_back(key);
      }
    }
  }
  return found;
}

}  // namespace mobula::internal::scheduler
