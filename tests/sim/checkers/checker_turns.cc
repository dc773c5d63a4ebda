// Fairness between jobs: quotas, priorities, and service of large requests. Based on the messages
// that the head receives and sends. Reports nothing if the head may have had other knowledge.
#include <algorithm>

#include "head/core/records/rows.h"
#include "protocol/codec/messages.h"
#include "sim/agent_role.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {
namespace {

// A reservation takes 2 s, small tasks end within 500 ms, and several large tasks may be queued.
constexpr Duration whole_timeout = 5s;

const std::string small_request = ResourceSet{{"CPU", Quantity::whole(1)}}.to_string();

ResourceSet amounts_of(const Allocation& allocation) {
  ResourceSet sums;
  for (const auto& resource : allocation.resources) {
    for (const auto& share : resource.shares) sums.add(resource.name, share.amount);
  }
  return sums;
}

bool is_within(const ResourceSet& amounts, const ResourceSet& others) {
  return std::ranges::all_of(
      amounts.amounts(), [&](const auto& each) { return each.second <= others.get(each.first); });
}

}  // namespace

const JobTerms* Checkers::terms_of(JobId job) const {
  const auto at = terms_.find(job);
  return at == terms_.end() ? nullptr : &at->second;
}

void Checkers::on_terms(const FromProcess& message) {
  if (const auto* start = std::get_if<StartJob>(&message.message)) {
    terms_.emplace(start->job, start->terms);
  } else if (const auto* demand = std::get_if<Demand>(&message.message)) {
    auto& known = demands_[{message.process, demand->demand_class.id}];
    if (demand->version >= known.version) known = *demand;
  } else if (const auto* group = std::get_if<CreateGroup>(&message.message)) {
    group_wanted(group->spec);
  } else if (const auto* end = std::get_if<EndActor>(&message.message);
             end != nullptr && !end->kill) {
    handle_gone_.emplace(end->actor, world_.now());
  }
}

// Counts slots that are not known to be gone, without released CPUs, and bundles as recorded on
// disk.
ResourceSet Checkers::held_by(JobId job) const {
  ResourceSet held;
  for (const auto& [slot, each] : granted_) {
    if (each.job != job || !each.allocation.group.empty()) continue;
    auto amounts = amounts_of(each.allocation);
    if (each.lent) amounts.set("CPU", Quantity());
    held.add(amounts);
  }
  for (const auto& [key, bytes] : world_.disk()) {
    if (key.first != "groups") continue;
    const auto row = decode<head::GroupRow>(bytes);
    if (!row || row->spec.job != job) continue;
    for (const auto& location : row->locations) {
      const Node* node = location.node.empty() ? nullptr : world_.node_of(location.node);
      if (node != nullptr && node->agent != nullptr) held.add(amounts_of(location.allocation));
    }
  }
  return held;
}

bool Checkers::may_hold(JobId job, const ResourceSet& more) const {
  const auto* terms = terms_of(job);
  if (terms == nullptr || terms->quota.empty()) return true;
  const auto held = held_by(job);
  return std::ranges::all_of(terms->quota, [&](const auto& each) {
    const auto& [name, quota] = each;
    return more.get(name) == Quantity() || held.get(name) + more.get(name) <= quota;
  });
}

// The granted slots already include the new one.
void Checkers::within_quota(const StartSlot& start) {
  const auto job = start.demand_class.job;
  const auto* terms = terms_of(job);
  if (terms == nullptr || terms->quota.empty() || !start.allocation.group.empty()) return;
  const auto held = held_by(job);
  const auto taken = amounts_of(start.allocation);
  for (const auto& [name, quota] : terms->quota) {
    if (taken.get(name) == Quantity() || held.get(name) <= quota) continue;
    world_.violation("quotas", "job " + job.brief() + " is granted " + held.get(name).to_string() +
                                   " " + name + ", beyond its quota of " + quota.to_string());
  }
}

// A request for a part of a device waits up to 500 ms for a slot of the node that ends.
bool Checkers::awaits_ending_device(const Request& request, NodeId node) const {
  const bool is_part = std::ranges::any_of(request.resources.amounts(), [](const auto& each) {
    return is_unit_instance(each.first) && each.second < Quantity::whole(1);
  });
  return is_part && std::ranges::any_of(granted_, [&](const auto& each) {
           return each.second.node == node && each.second.stops && not_gone_.contains(each.first);
         });
}

// Skips jobs with quotas and nodes where programs cannot start: other causes may hold these jobs
// back.
void Checkers::in_its_turn(const StartSlot& start, const NodePlan& node) {
  not_gone_.emplace(start.slot, std::pair(start.lessee, start.demand_class.id));
  grants_of_[start.demand_class.request.resources.to_string()].push_back(world_.now());
  const auto* mine = terms_of(start.demand_class.job);
  if (mine == nullptr || !start.allocation.group.empty() || lossy_ || node.cannot_start) return;
  const auto taken = amounts_of(start.allocation);
  for (const auto& [who, demand] : demands_) {
    const auto& wanted = demand.demand_class;
    const auto* theirs = terms_of(wanted.job);
    const Process* lessee = world_.process_of(who.first);
    if (theirs == nullptr || theirs->priority <= mine->priority || !theirs->quota.empty() ||
        demand.wanted_slots <= 0 || lessee == nullptr || !lessee->alive() ||
        !wanted.request.placement.group.empty() ||
        std::holds_alternative<SpreadStrategy>(wanted.request.strategy) ||
        wanted.request.resources.empty() || !is_within(wanted.request.resources, taken) ||
        awaits_ending_device(wanted.request, granted_.at(start.slot).node) ||
        !meets_selectors(wanted.request, node.shape.labels)) {
      continue;
    }
    // If the lessee has a slot of this class, the demand may not be waiting.
    const bool has_some = std::ranges::any_of(
        not_gone_, [&who = who](const auto& each) { return each.second == who; });
    if (has_some) continue;
    world_.violation("turns", "a slot with " + taken.to_string() + " goes to job " +
                                  start.demand_class.job.brief() + " of priority " +
                                  std::to_string(mine->priority) + ", and job " +
                                  wanted.job.brief() + " of priority " +
                                  std::to_string(theirs->priority) + " waits for " +
                                  wanted.request.resources.to_string());
  }
}

void Checkers::whole_submitted(const CallRecord& call, JobId job) {
  if (call.form->name.starts_with(lengthy_name)) lengthy_jobs_.insert(job);
  some_run_once_ = some_run_once_ || call.form->name.starts_with(once_name);
  if (!call.form->name.starts_with(whole_name)) return;
  if (comes_first(job)) whole_waits_.emplace(call.task, world_.now());
}

// A job with a quota also waits for its own tasks. A job that starts later may precede it.
bool Checkers::comes_first(JobId job) const {
  const auto* mine = terms_of(job);
  return mine != nullptr && mine->quota.empty() &&
         std::ranges::all_of(
             terms_, [&](const auto& each) { return each.second.priority <= mine->priority; });
}

// Long tasks are preempted only for a higher priority, and only if they may run again.
bool Checkers::has_to_wait(JobId job) const {
  const auto* mine = terms_of(job);
  return some_run_once_ || std::ranges::any_of(lengthy_jobs_, [&](JobId other) {
           const auto* theirs = terms_of(other);
           return mine == nullptr || theirs == nullptr || theirs->priority >= mine->priority;
         });
}

void Checkers::group_wanted(const GroupSpec& spec) {
  groups_wanted_.emplace(spec.id, spec);
  if (comes_first(spec.job)) group_waits_.emplace(spec.id, GroupWait{spec.job, world_.now()});
}

// Every group placed and every large request served since then counts as one turn.
void Checkers::group_is_there(const GroupChanged& news) {
  if (news.state == GroupState::created || news.state == GroupState::removed) {
    groups_served_.insert(news.group);
  } else {
    groups_served_.erase(news.group);
  }
  const auto at = group_waits_.find(news.group);
  if (at == group_waits_.end() || news.state == GroupState::pending) return;
  const auto [job, since] = at->second;
  const auto waited = world_.now() - since;
  group_waits_.erase(at);
  const auto is_later = [begun = since](Time when) { return when > begun; };
  auto turns = 1 + std::ranges::count_if(groups_there_, is_later);
  for (const auto& [what, grants] : grants_of_) {
    if (what != small_request) turns += std::ranges::count_if(grants, is_later);
  }
  turns += turns_of_others(since);
  groups_there_.push_back(world_.now());
  if (world_.plan().uniform) return;  // groups keep their nodes for long in these histories
  if (news.state != GroupState::created || lossy_ || !comes_first(job) || has_to_wait(job)) return;
  if (waited <= whole_timeout * turns) return;
  world_.violation("turns", "group " + news.group.brief() +
                                ", of the highest priority, has its places after " +
                                std::to_string(waited / 1s) + " s");
}

// The head frees capacity for one purpose at a time. Small requests of the same priority also take
// turns.
std::int64_t Checkers::turns_of_others(Time since) const {
  return std::max<std::int64_t>(
      0, std::ranges::count_if(preemptions_, [&](Time when) { return when > since; }) - 1);
}

// Equal demands wait in order: each that received a slot since then counts as one turn.
void Checkers::whole_started(const CallRecord& call, const ResourceSet& resources) {
  const auto at = whole_waits_.find(call.task);
  if (at == whole_waits_.end()) return;
  if (has_to_wait(call.form->job) || !comes_first(call.form->job)) return;
  const auto since = at->second;
  const auto waited = world_.now() - since;
  whole_waits_.erase(at);
  const auto& grants = grants_of_[resources.to_string()];
  const auto alike = std::ranges::count_if(grants, [&](Time when) { return when > since; });
  const auto turns = std::max<std::int64_t>(1, alike) + turns_of_others(since);
  if (waited <= whole_timeout * turns || lossy_) return;
  world_.violation("turns", "task " + call.form->name + ", of the highest priority, starts after " +
                                std::to_string(waited / 1s) + " s");
}

}  // namespace mobula::internal::sim
