#include "scheduler/planner/rehearsal.h"

#include <algorithm>

namespace mobula::internal::planner {
namespace {

constexpr int most_rounds = 100'000;
constexpr JobId booked_for = JobId::of(1);
// Time does not advance, so nothing is recalled or reserved.
constexpr Time now = Time::from_ns(1'000'000'000);

scheduler::SchedulerSettings settings() {
  scheduler::SchedulerSettings made;
  made.reasons_per_report = 0;
  return made;
}

// One job per row, so that rows of one class stay separate.
JobId job_of(std::size_t which) { return JobId::of(which + 2); }
std::size_t row_of(JobId job) { return static_cast<std::size_t>(job.bits().low - 2); }

}  // namespace

Rehearsal::Rehearsal(const std::vector<ClusterNode>& nodes, Books accounting)
    : scheduler_(settings()) {
  for (const auto& node : nodes) {
    const bool usable = node.phase != NodePhase::leaving;
    scheduler_.add_node(node.id, node.shape,
                        usable ? scheduler::NodeState::alive : scheduler::NodeState::draining);
    for (const auto program : node.cannot_start) {
      scheduler_.set_program_state(node.id, program, "it cannot start there");
    }
    if (accounting == Books::as_they_are) restore(node);
  }
}

void Rehearsal::restore(const ClusterNode& node) {
  scheduler::Slot slot;
  slot.node = node.id;
  slot.job = booked_for;
  const auto book = [&](const Allocation& allocation, bool actor) {
    slot.id = SlotId::of(++next_slot_);
    slot.actor = actor ? ActorId::of(next_slot_) : ActorId();
    slot.lessee = actor ? ProcessId() : ProcessId::of(next_slot_);
    slot.allocation = allocation;
    scheduler_.restore(slot);
    return slot.id;
  };
  // The first slot has all amounts; the others only hold executor places.
  if (node.actor_slots > 0 || !node.held.resources.empty()) book(node.held, true);
  for (std::int64_t i = 1; i < node.actor_slots; ++i) book({}, true);
  for (std::int64_t i = 0; i < node.task_slots; ++i) book({}, false);
  for (std::int64_t i = 0; i < node.blocked_task_slots; ++i)
    scheduler_.release_cpu(book({}, false));
}

NodeId Rehearsal::add(const NodeShape& shape, std::uint64_t number) {
  const NodeId id = NodeId::derived(booked_for, "launched", number);
  scheduler_.add_node(id, shape);
  return id;
}

void Rehearsal::add_group(const WantedGroup& group) {
  scheduler_.add_group(group.spec, group.locations);
  groups_.insert(group.spec.id);
  nodes_of_groups_.reset();
}

void Rehearsal::drop_group(GroupId group) {
  scheduler_.remove_group(group);
  scheduler_.forget_group(group);
  groups_.erase(group);
  nodes_of_groups_.reset();
}

void Rehearsal::want(std::size_t which, const WantedSlots& slots) {
  wanted_[which] = {slots.count, 0};
  auto demand = slots.demand;
  demand.job = job_of(which);
  if (slots.tenant != scheduler::Tenant::actor) {
    scheduler_.set_demand({ProcessId::of(which + 1), demand, slots.count, now, {}});
    return;
  }
  for (std::int64_t i = 0; i < slots.count; ++i) {
    const auto actor = ActorId::derived(demand.job, "actor", static_cast<std::uint64_t>(i));
    scheduler_.add_actor_demand(actor, demand, now);
  }
}

void Rehearsal::settle() {
  for (int round = 0; round < most_rounds; ++round) {
    const auto due = scheduler_.next_deadline();
    if (!due || *due > now) return;
    const auto plan = scheduler_.plan(now, [this] { return SlotId::of(++next_slot_); });
    if (!plan.groups.empty()) nodes_of_groups_.reset();
    for (const auto& grant : plan.grants) {
      ++wanted_[row_of(grant.job)].granted;
      served_.insert(row_of(grant.job));
      ++granted_on_[grant.node];
    }
  }
}

bool Rehearsal::placed(GroupId group) const {
  const auto* row = scheduler_.groups().find(group);
  return row != nullptr && row->complete();
}

std::set<NodeId> Rehearsal::nodes_of(GroupId group) const {
  std::set<NodeId> nodes;
  if (const auto* row = scheduler_.groups().find(group)) {
    for (const auto& location : row->locations) {
      if (!location.node.empty()) nodes.insert(location.node);
    }
  }
  return nodes;
}

std::int64_t Rehearsal::unserved(std::size_t which) const {
  const auto at = wanted_.find(which);
  return at == wanted_.end() ? 0 : at->second.count - at->second.granted;
}

bool Rehearsal::used(NodeId node) const {
  return granted_on_.contains(node) || nodes_of_groups().contains(node);
}

const std::set<NodeId>& Rehearsal::nodes_of_groups() const {
  if (!nodes_of_groups_) {
    nodes_of_groups_.emplace();
    for (const auto group : groups_) nodes_of_groups_->merge(nodes_of(group));
  }
  return *nodes_of_groups_;
}

}  // namespace mobula::internal::planner
