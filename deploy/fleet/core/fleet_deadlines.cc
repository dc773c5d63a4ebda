#include <algorithm>

#include "deploy/fleet/core/fleet_core.h"

namespace mobula::internal::fleet {
namespace {

constexpr Duration clock_margin = 60s;  // differences of clocks that change no decision

}  // namespace

bool FleetCore::is_busy() const {
  return std::ranges::any_of(instances_, [](const auto& each) {
    return each.second.state != InstanceState::joined || each.second.absent_since;
  });
}

// Time after which the failed launch of an instance is not repeated.
std::optional<Time> FleetCore::repeat_end(const Instance& each) {
  const bool repeats = each.state == InstanceState::requested && !each.in_flight && each.tries > 0;
  return repeats ? std::optional(each.failed_at + repeat_timeout) : std::nullopt;
}

void FleetCore::settle() {
  for (auto& [name, each] : instances_) check_deadlines(each);
  repeat_launches();
  send_ends();
  send_list();
  send_plan();
}

void FleetCore::check_deadlines(Instance& each) {
  if (each.state == InstanceState::ending || !each.end_why.empty()) return;
  if (const auto end = repeat_end(each); end && now_ >= *end) {
    each.end_why = "its launch failed";
    return;
  }
  if (!each.has_joined) {
    const bool late = !each.in_flight && now_ >= each.starts_since + options_.launch_timeout;
    if (!late) return;
    each.end_why = "its node did not join in time";
    // Without its ticket it cannot join while it ends. A running query may be older than that.
    out_->push_back(RevokeTicket{each.name});
    each.end_snapshot = snapshot_number_ + 2;
    return;
  }
  if (each.absent_since) {
    // Only a later snapshot shows that the node stays absent.
    if (snapshot_at_ >= *each.absent_since + options_.absent_timeout) {
      each.end_why = "its agent is dead";
    }
    return;
  }
  const bool expires = each.ends_at && now_ + options_.drain_timeout >= *each.ends_at;
  if (expires && each.state == InstanceState::joined) {
    drain(each, std::max<Duration>(*each.ends_at - now_ - 1s, 1ms), false);
  }
  // A clock that jumped showed an end that is not near.
  const bool far = each.ends_at && now_ + options_.drain_timeout + clock_margin < *each.ends_at;
  const bool drained_for_end = each.drained_by_us && !each.undrainable && each.end_why.empty();
  if (far && each.state == InstanceState::draining && drained_for_end) return undrain(each);
  if (each.state == InstanceState::draining) check_drain(each);
}

// Objects that cannot leave keep the node.
void FleetCore::check_drain(Instance& each) {
  const bool stuck = each.is_empty && each.undrainable && snapshot_at_ >= each.drain_deadline &&
                     now_ >= each.drain_deadline + options_.list_interval;
  if (!stuck) return;
  undrain(each);
  each.keep_until = now_ + options_.limits.idle_timeout;
}

void FleetCore::drain(Instance& each, Duration timeout, bool undrainable) {
  each.drained_by_us = true;
  each.undrainable = undrainable;
  each.is_empty = false;
  each.drain_deadline = now_ + timeout;
  each.undrain_until = Time();
  set_state(each, InstanceState::draining);
  out_->push_back(DrainNode{each.node, timeout});
}

void FleetCore::undrain(Instance& each) {
  out_->push_back(UndrainNode{each.node});
  stop_drain(each);
  each.undrain_until = now_ + undrain_timeout;
  plan_is_stale_ = plan_is_stale_ || plan_running_;
}

void FleetCore::stop_drain(Instance& each) {
  each.drained_by_us = false;
  each.undrainable = true;
  each.is_empty = false;
  each.end_why.clear();
  set_state(each, InstanceState::joined);
}

// Launches whose last call failed, when their type is open again.
void FleetCore::repeat_launches() {
  std::map<std::string, std::vector<std::string>> names;
  for (auto& [name, each] : instances_) {
    const bool waits = each.state == InstanceState::requested && !each.in_flight &&
                       each.tries > 0 && each.end_why.empty();
    const auto gate = gates_.find(each.type);
    if (!waits || gate == gates_.end() || !gate->second.is_open(now_)) continue;
    each.in_flight = true;
    names[each.type].push_back(name);
  }
  for (auto& [type, list] : names) out_->push_back(LaunchInstances{type, std::move(list)});
}

void FleetCore::send_ends() {
  if (!may_end()) return;
  EndInstances order;
  for (auto& [name, each] : instances_) {
    if (each.end_why.empty() || each.in_flight || now_ < each.end_retry_at) continue;
    if (snapshot_number_ < each.end_snapshot) continue;
    if (each.state != InstanceState::ending && !each.has_joined && each.tries == 0) {
      fail_start(each, each.end_why);
    }
    set_state(each, InstanceState::ending);
    each.in_flight = true;
    order.instances.push_back({name, each.ref});
  }
  if (!order.instances.empty()) out_->push_back(std::move(order));
}

void FleetCore::send_list() {
  if (list_running_ || now_ < list_at_) return;
  list_running_ = true;
  for (auto& [name, each] : instances_) {
    each.known_at_list = !each.in_flight && each.state != InstanceState::requested;
  }
  out_->push_back(ListInstances{});
}

void FleetCore::send_plan() {
  if (plan_running_ || !has_snapshot_ || recovering_ || whole_lists_ < first_lists) return;
  if (planned_snapshot_ == snapshot_number_) return;
  planned_snapshot_ = snapshot_number_;
  plan_running_ = true;
  plan_is_stale_ = false;
  auto state = state_for_plan();
  planned_slots_ = state.slots;
  out_->push_back(MakePlan{++plan_number_, std::move(state), types_for_plan()});
}

std::optional<Time> FleetCore::deadline_of(const Instance& each) const {
  if (each.state == InstanceState::ending || !each.end_why.empty()) {
    return each.in_flight || !may_end() ? std::nullopt : std::optional(each.end_retry_at);
  }
  if (!each.has_joined) {
    if (each.in_flight) return std::nullopt;
    const Time late = each.starts_since + options_.launch_timeout;
    return std::min(late, repeat_end(each).value_or(late));
  }
  if (each.state == InstanceState::draining && each.is_empty && each.undrainable) {
    return each.drain_deadline + options_.list_interval;
  }
  if (each.state == InstanceState::joined && each.ends_at) {
    return *each.ends_at - options_.drain_timeout;
  }
  return std::nullopt;
}

std::optional<Time> FleetCore::next_deadline() const {
  std::optional<Time> next;
  const auto take = [&](std::optional<Time> at) {
    // A deadline that passed without effect waits for another event.
    if (at && *at > now_ && (!next || *at < *next)) next = at;
  };
  if (!list_running_) take(list_at_);
  for (const auto& [name, each] : instances_) take(deadline_of(each));
  for (const auto& [type, gate] : gates_) take(gate.opens_at(now_));
  return next;
}

}  // namespace mobula::internal::fleet
