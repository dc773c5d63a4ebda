#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "deploy/fleet/core/fleet_core.h"
#include "scheduler/planner/type_choice.h"

namespace mobula::internal::fleet {
namespace {

using planner::NodePhase;

constexpr std::size_t max_waits = 500;    // classes and groups with a reason in the report
constexpr std::size_t max_compared = 16;  // types that a reason compares with a request

planner::Unit unit_of(const planner::WantedSlots& wanted) {
  return {{scheduler::RequestShape(wanted.demand.request, wanted.demand.program, wanted.tenant)},
          1};
}

// The id of a node that exists in plans alone.
NodeId planned_node(const std::string& name) { return NodeId::derived(NodeId::of(0), name, 0); }

}  // namespace

const planner::NodeType* FleetCore::type_of(const std::string& name) const {
  const auto at = std::ranges::find(options_.types, name, &planner::NodeType::name);
  return at == options_.types.end() ? nullptr : &*at;
}

// Launching instances count with their full resources, and ending ones only for the maximum.
planner::ClusterState FleetCore::state_for_plan() const {
  auto state = snapshot_;
  state.standing = options_.standing;
  std::map<NodeId, const Instance*> by_node;
  std::set<NodeId> present;
  for (const auto& [name, each] : instances_) {
    if (each.has_joined) by_node[each.node] = &each;
  }
  for (auto& node : state.nodes) {
    present.insert(node.id);
    const auto at = by_node.find(node.id);
    if (at == by_node.end()) continue;
    const Instance& each = *at->second;
    const bool leaves = each.state >= InstanceState::draining || !each.end_why.empty();
    if (leaves) node.phase = NodePhase::leaving;
    if (!leaves && node.draining && now_ < each.undrain_until) node.phase = NodePhase::running;
  }
  for (const auto& [name, each] : instances_) {
    if (each.has_joined && present.contains(each.node)) continue;
    const auto* type = type_of(each.type);
    if (type == nullptr) continue;
    planner::ClusterNode node;
    node.id = planned_node(name);
    node.type = each.type;
    node.shape = type->shape;
    const bool leaves = each.state >= InstanceState::draining || !each.end_why.empty();
    node.phase = leaves ? NodePhase::leaving : NodePhase::launching;
    state.nodes.push_back(std::move(node));
  }
  return state;
}

std::vector<planner::NodeType> FleetCore::types_for_plan() const {
  auto types = options_.types;
  for (auto& type : types) {
    type.closed = gates_.at(type.name).reason(now_);
    if (type.closed.empty() && pending_of(type.name) >= options_.max_pending) {
      type.closed = fmt::format("{} launches wait at its provider", options_.max_pending);
    }
  }
  return types;
}

std::int64_t FleetCore::pending_of(const std::string& type) const {
  return std::ranges::count_if(instances_, [&](const auto& each) {
    return each.second.type == type && each.second.state <= InstanceState::accepted;
  });
}

// Launches that the maxima permit, counting every instance and every other node of the type.
std::int64_t FleetCore::free_capacity(const planner::NodeType& type) const {
  std::int64_t of_type = 0;
  auto all = static_cast<std::int64_t>(instances_.size());
  for (const auto& [name, each] : instances_) of_type += each.type == type.name ? 1 : 0;
  for (const auto& node : snapshot_.nodes) {
    const auto label = node.shape.labels.find(instance_label);
    const bool known = label != node.shape.labels.end() && instances_.contains(label->second);
    if (known || node.beside_head || type_of(node.type) == nullptr) continue;
    ++all;
    of_type += node.type == type.name ? 1 : 0;
  }
  const auto capacity = std::min(type.max_workers - of_type, options_.limits.max_workers - all);
  return std::max<std::int64_t>(0,
                                std::min(capacity, options_.max_pending - pending_of(type.name)));
}

void FleetCore::on(Planned event) {
  plan_running_ = event.number != plan_number_ && plan_running_;
  if (event.number != plan_number_) return;
  if (plan_is_stale_ || recovering_) {
    planned_snapshot_ = 0;
    return;
  }
  for (const auto& each : event.plan.launch) {
    const auto left = each.count() - undrain(each.type, each.count());
    launch(each.type, left, Time());
  }
  for (const auto& each : event.plan.terminate) {
    for (auto& [name, instance] : instances_) {
      const bool ours = instance.node == each.node && instance.state == InstanceState::joined;
      const bool kept = instance.absent_since || !instance.is_idle || now_ < instance.keep_until;
      if (ours && !kept && may_end()) drain(instance, options_.drain_timeout, true);
    }
  }
  replace_expiring();
  explain_waits(event.plan);
}

void FleetCore::launch(const std::string& type, std::int64_t count, Time keep_until) {
  const auto* known = type_of(type);
  if (known == nullptr || !gates_[type].is_open(now_)) return;
  count = std::min(count, free_capacity(*known));
  LaunchInstances order{type, {}};
  for (; count > 0; --count) {
    Instance each;
    each.name = instance_name(options_.cluster, next_number_++);
    each.type = type;
    each.requested_at = now_;
    each.starts_since = now_;
    each.in_flight = true;
    each.keep_until = keep_until;
    order.names.push_back(each.name);
    instances_.emplace(each.name, std::move(each));
  }
  if (!order.names.empty()) out_->push_back(std::move(order));
}

// Returns the number of nodes that stay instead of being given back.
std::int64_t FleetCore::undrain(const std::string& type, std::int64_t count) {
  std::int64_t kept = 0;
  for (auto& [name, each] : instances_) {
    const bool possible = each.type == type && each.state == InstanceState::draining &&
                          each.drained_by_us && each.undrainable && !each.absent_since &&
                          each.end_why.empty();
    if (kept >= count || !possible) continue;
    undrain(each);
    ++kept;
  }
  return kept;
}

// Instances of the type that have no work yet, are to stay, and outlast the launch of another one.
std::vector<FleetCore::Instance*> FleetCore::spares_of(const std::string& type) {
  std::vector<Instance*> spares;
  for (auto& [name, each] : instances_) {
    const bool is_coming = each.state < InstanceState::joined;
    const bool is_free = each.state == InstanceState::joined && each.is_idle && !each.absent_since;
    if (each.type != type || !(is_coming || is_free) || !each.end_why.empty() || ends_soon(each))
      continue;
    spares.push_back(&each);
  }
  return spares;
}

bool FleetCore::ends_soon(const Instance& each) const {
  return each.ends_at && now_ + options_.drain_timeout + options_.launch_timeout >= *each.ends_at;
}

// A node with work that its provider ends soon gets a replacement first: an instance without work,
// else a new one. An autoscaler that restarted finds the replacement that was launched before.
void FleetCore::replace_expiring() {
  std::map<std::string, std::vector<Instance*>> expiring;
  for (auto& [name, each] : instances_) {
    const bool works = each.state == InstanceState::joined && !each.is_idle && !each.absent_since;
    if (works && ends_soon(each)) expiring[each.type].push_back(&each);
  }
  std::vector<std::pair<std::string, Time>> wanted;
  for (auto& [type, all] : expiring) {
    auto spares = spares_of(type);
    std::stable_partition(all.begin(), all.end(),
                          [](const Instance* each) { return each->is_replaced; });
    for (Instance* each : all) {
      if (!spares.empty()) {
        spares.back()->keep_until = std::max(spares.back()->keep_until, *each->ends_at);
        spares.pop_back();
        each->is_replaced = true;
      }
      if (each->is_replaced) continue;
      const auto* known = type_of(type);
      if (known == nullptr || !gates_[type].is_open(now_) || free_capacity(*known) <= 0) continue;
      each->is_replaced = true;
      wanted.emplace_back(type, *each->ends_at);
    }
  }
  for (const auto& [type, until] : wanted) launch(type, 1, until);
}

// ---- reasons ------------------------------------------------------------------------------------

// The types whose nodes cannot hold the request, with the reason.
std::string FleetCore::lacks_of(const planner::Unit& unit) const {
  std::string text;
  for (std::size_t i = 0; i < std::min(options_.types.size(), max_compared); ++i) {
    const auto why = planner::why_not(options_.types[i], unit);
    if (!why.empty()) text += fmt::format("; not {}: {}", options_.types[i].name, why);
  }
  return text;
}

void FleetCore::explain_waits(const planner::Plan& plan) {
  waits_.clear();
  const auto take = [&](const planner::Unserved& each, bool never) {
    if (waits_.size() >= max_waits || (each.group.empty() && each.class_id.empty())) return;
    WaitStatus wait;
    wait.class_id = each.class_id;
    wait.group = each.group;
    wait.why = each.why;
    wait.never = never;
    const auto slots = std::ranges::find(planned_slots_, each.class_id,
                                         [](const auto& wanted) { return wanted.demand.id; });
    if (!never && each.group.empty() && slots != planned_slots_.end())
      wait.lacks = lacks_of(unit_of(*slots));
    waits_.push_back(std::move(wait));
  };
  for (const auto& each : plan.infeasible) take(each, true);
  for (const auto& wanted : planned_slots_) {
    if (waits_.size() >= max_waits) break;
    const auto unit = unit_of(wanted);
    for (const auto& type : options_.types) {
      const bool starts = std::ranges::any_of(instances_, [&](const auto& each) {
        return each.second.type == type.name && !each.second.has_joined &&
               each.second.end_why.empty();
      });
      if (!starts || !planner::why_not(type, unit).empty()) continue;
      WaitStatus wait;
      wait.class_id = wanted.demand.id;
      wait.starting = type.name;
      wait.lacks = lacks_of(unit);
      waits_.push_back(std::move(wait));
      break;
    }
  }
  for (const auto& each : plan.waiting) take(each, false);
}

FleetReport FleetCore::report(Time now) const {
  FleetReport report;
  std::map<std::string, Duration> oldest;
  for (const auto& type : options_.types) {
    TypeStatus status;
    status.type = type.name;
    Time oldest_at = now;
    for (const auto& [name, each] : instances_) {
      if (each.type != type.name) continue;
      ++status.instances.at(static_cast<std::size_t>(each.state));
      if (each.has_joined || each.state > InstanceState::starting) continue;
      if (each.requested_at <= oldest_at) status.pending_reason = each.reason;
      oldest_at = std::min(oldest_at, each.requested_at);
    }
    status.oldest_start = now - oldest_at;
    oldest[type.name] = status.oldest_start;
    const auto& gate = gates_.at(type.name);
    status.closed = gate.reason(now);
    if (const auto opens = gate.opens_at(now)) status.closed_for = *opens - now;
    status.failures = gate.failures();
    report.types.push_back(std::move(status));
  }
  report.waits = waits_;
  for (auto& wait : report.waits) {
    if (const auto at = oldest.find(wait.starting); at != oldest.end()) wait.since = at->second;
  }
  if (!list_failure_.empty()) report.waits_for = list_failure_;
  if (whole_lists_ < first_lists && list_failure_.empty()) {
    report.waits_for = "the first lists of instances";
  }
  if (recovering_) report.waits_for = "the head recovers";
  if (!has_snapshot_) report.waits_for = "the head does not reply";
  return report;
}

}  // namespace mobula::internal::fleet
