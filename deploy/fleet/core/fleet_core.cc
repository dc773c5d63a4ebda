#include "deploy/fleet/core/fleet_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "deploy/fleet/core/type_shortfall.h"

namespace mobula::internal::fleet {
namespace {

bool holds_nothing(const planner::ClusterNode& node) {
  return node.task_slots + node.blocked_task_slots + node.actor_slots == 0 &&
         node.held.resources.empty();
}

bool is_up(ProviderState state) {
  return state == ProviderState::starting || state == ProviderState::running;
}

}  // namespace

FleetCore::FleetCore(FleetOptions options)
    : options_(std::move(options)), next_number_(options_.first_number) {
  for (const auto& type : options_.types) gates_[type.name];
}

void FleetCore::step(Time now, FleetEvent event, std::vector<FleetCommand>& out) {
  now_ = now;
  out_ = &out;
  std::visit([this](auto&& each) { on(std::forward<decltype(each)>(each)); }, std::move(event));
  settle();
  out_ = nullptr;
}

// ---- the head's view ----------------------------------------------------------------------------

void FleetCore::on(SnapshotReceived event) {
  has_snapshot_ = true;
  recovering_ = event.recovering;
  snapshot_at_ = now_;
  snapshot_ = std::move(event.state);
  ++snapshot_number_;
  std::map<std::string, const planner::ClusterNode*> nodes;
  for (const auto& node : snapshot_.nodes) {
    const auto label = node.shape.labels.find(instance_label);
    if (label != node.shape.labels.end()) nodes[label->second] = &node;
  }
  std::vector<NodeId> empty;
  for (auto& [name, each] : instances_) {
    const auto at = nodes.find(name);
    match(each, at == nodes.end() ? nullptr : at->second);
    if (each.state == InstanceState::draining && each.is_empty && !each.absent_since) {
      empty.push_back(each.node);
    }
  }
  for (const auto& name : event.dead_instances) {
    const auto at = instances_.find(name);
    if (at != instances_.end() && !nodes.contains(name)) lose(at->second);
  }
  if (!empty.empty()) out_->push_back(CountObjects{std::move(empty)});
}

void FleetCore::match(Instance& each, const planner::ClusterNode* node) {
  if (node == nullptr) {
    if (each.has_joined && !recovering_ && !each.absent_since) each.absent_since = now_;
    each.is_idle = false;
    return;
  }
  each.node = node->id;
  each.absent_since.reset();
  if (each.type.empty()) each.type = node->type;
  if (!each.has_joined || each.died_unseen) {
    each.has_joined = true;
    each.died_unseen = false;
    check_type(each, *node);
  }
  each.is_idle = node->idle.has_value();
  if (!node->draining) each.undrain_until = Time();
  const bool draining = node->draining && now_ >= each.undrain_until;
  if (each.state == InstanceState::ending) return;
  if (each.state != InstanceState::draining) {
    each.end_why.clear();  // the reason was a missing node
    set_state(each, InstanceState::joined);
  }
  if (each.state == InstanceState::draining) {
    // A head that restarted may have lost the order.
    if (!draining && each.drained_by_us) {
      out_->push_back(DrainNode{each.node, std::max(each.drain_deadline - now_, Duration(1ms))});
    }
    if (!draining && !each.drained_by_us) stop_drain(each);
  } else if (draining) {
    each.drained_by_us = false;
    each.undrainable = false;
    each.drain_deadline = now_ + options_.drain_timeout;
    set_state(each, InstanceState::draining);
  }
  each.is_empty = draining && holds_nothing(*node);
}

// The agent joined and died, and no snapshot had its node.
void FleetCore::lose(Instance& each) {
  if (each.has_joined || each.state == InstanceState::ending) return;
  each.has_joined = true;
  each.died_unseen = true;
  each.absent_since = now_;
  set_state(each, InstanceState::joined);
  if (each.is_adopted) return;  // its agent may have lived for long
  const auto gate = gates_.find(each.type);
  if (gate == gates_.end()) return;
  const bool was_paused = gate->second.paused();
  gate->second.fail_life("its agent died right after it had joined", options_);
  record("LAUNCH_FAILED", fmt::format("instance {} of type {} joined, and its agent died at once",
                                      each.name, each.type));
  record_pause(each.type, was_paused);
}

// A plan counts on the resources of the type. Without this check, demand for a resource that its
// nodes lack would launch and give back nodes forever.
void FleetCore::check_type(const Instance& each, const planner::ClusterNode& node) {
  const auto gate = gates_.find(each.type);
  if (gate == gates_.end()) return;
  gate->second.join();
  const auto* type = type_of(each.type);
  const std::string lacks = type == nullptr ? std::string() : shortfall_of(node.shape, type->shape);
  if (lacks.empty()) return;
  const bool was_paused = gate->second.paused();
  gate->second.pause(fmt::format("instance {} joined with {}; correct the type in the types file",
                                 each.name, lacks));
  record_pause(each.type, was_paused);
}

void FleetCore::on(const Drained& event) {
  for (auto& [name, each] : instances_) {
    if (each.node != event.node || each.state != InstanceState::draining) continue;
    if (each.is_empty && event.objects == 0) each.end_why = "it was idle";
  }
}

// ---- the provider -------------------------------------------------------------------------------

void FleetCore::on(const Listed& event) {
  list_running_ = false;
  list_backoff_ = Duration(0);
  list_failure_.clear();
  list_is_whole_ = event.whole;
  if (event.whole && whole_lists_ < first_lists) ++whole_lists_;
  std::map<std::string, const InstanceRow*> rows;
  for (const auto& row : event.rows) rows.emplace(row.name, &row);
  for (auto at = instances_.begin(); at != instances_.end();) {
    auto& each = at->second;
    const bool in_use =
        each.has_joined && !each.absent_since && each.state != InstanceState::ending;
    const auto row = rows.find(at->first);
    if (row != rows.end()) {
      const auto state = row->second->state;
      const bool over = state == ProviderState::gone || state == ProviderState::failed;
      if (!over) take_row(each, *row->second);
      // A reported end is older than an answer that is under way, and a present node disproves it.
      at = over && !each.in_flight && !in_use ? remove(at, row->second->reason) : std::next(at);
      continue;
    }
    if (!event.whole || !each.known_at_list || each.in_flight || in_use) {
      ++at;
      continue;
    }
    ++each.lists_without;
    // One list may lack the row of an instance that exists, and a launch instead of it would exceed
    // the maximum.
    const bool over = each.lists_without >= 2;
    at = over ? remove(at, "its provider no longer lists it") : std::next(at);
  }
  for (const auto& row : event.rows) {
    if (instances_.contains(row.name)) continue;
    const bool over = row.state == ProviderState::gone || row.state == ProviderState::failed;
    const auto number = instance_number(options_.cluster, row.name);
    if (number && !over) adopt(row, *number);
  }
  end_failed(event);
  const bool steady = !is_busy();
  list_at_ = now_ + (steady ? options_.quiet_list_interval : options_.list_interval);
  if (whole_lists_ < first_lists) list_at_ = now_ + options_.transient_backoff_initial;
}

// A failed instance has no process, but its provider keeps it, and may count it, until its end. A
// present node disproves the list.
void FleetCore::end_failed(const Listed& event) {
  if (!may_end()) return;
  EndInstances order;
  for (const auto& row : event.rows) {
    const bool has_node = std::ranges::any_of(snapshot_.nodes, [&](const auto& node) {
      const auto label = node.shape.labels.find(instance_label);
      return label != node.shape.labels.end() && label->second == row.name;
    });
    if (row.state != ProviderState::failed || has_node || instances_.contains(row.name)) continue;
    if (instance_number(options_.cluster, row.name)) order.instances.push_back({row.name, row.ref});
  }
  if (!order.instances.empty()) out_->push_back(std::move(order));
}

void FleetCore::on(const ListFailed& event) {
  list_running_ = false;
  list_is_whole_ = false;
  list_failure_ = fmt::format("the list of instances failed: {}", event.failure.text);
  list_backoff_ = list_backoff_ == Duration(0)
                      ? options_.transient_backoff_initial
                      : std::min<Duration>(2 * list_backoff_, options_.transient_backoff_max);
  list_at_ = now_ + std::max(list_backoff_, event.failure.retry_after.value_or(Duration(0)));
}

void FleetCore::adopt(const InstanceRow& row, std::uint64_t number) {
  Instance each;
  each.name = row.name;
  each.type = row.type;
  each.requested_at = now_;
  each.starts_since = now_;
  each.state = InstanceState::accepted;
  each.is_adopted = true;
  next_number_ = std::max(next_number_, number + 1);
  plan_is_stale_ = plan_running_;
  auto& made = instances_[row.name] = std::move(each);
  take_row(made, row);
  for (const auto& node : snapshot_.nodes) {
    const auto label = node.shape.labels.find(instance_label);
    if (label != node.shape.labels.end() && label->second == row.name) match(made, &node);
  }
}

void FleetCore::take_row(Instance& each, const InstanceRow& row) {
  each.lists_without = 0;
  each.ref = row.ref.empty() ? each.ref : row.ref;
  if (each.type.empty()) each.type = row.type;
  each.reason = row.reason;
  each.pending = row.state == ProviderState::pending;
  if (row.ends_in) each.ends_at = now_ + *row.ends_in;
  if (each.state == InstanceState::requested && !each.in_flight) {
    each.end_why.clear();
    set_state(each, InstanceState::accepted);
  }
  if (each.state == InstanceState::accepted) {
    if (each.pending) each.starts_since = now_;
    if (is_up(row.state)) set_state(each, InstanceState::starting);
  }
}

void FleetCore::on(const LaunchAnswered& event) {
  auto& gate = gates_[event.type];
  const ProviderFailure* worst = nullptr;
  for (const auto& answer : event.answers) {
    const auto at = instances_.find(answer.name);
    if (at == instances_.end() || !at->second.in_flight) continue;
    auto& each = at->second;
    each.in_flight = false;
    if (!answer.failure) {
      each.ref = answer.ref;
      if (each.state == InstanceState::requested) set_state(each, InstanceState::accepted);
      each.starts_since = now_;
      record("NODE_LAUNCHED",
             fmt::format("instance {} of type {} ({})", each.name, each.type, each.ref));
      continue;
    }
    if (worst == nullptr || answer.failure->kind > worst->kind ||
        worst->kind == FailureKind::transient) {
      worst = &*answer.failure;
    }
  }
  const bool was_paused = gate.paused();
  if (worst == nullptr) gate.accept();
  if (worst != nullptr) gate.fail(now_, *worst, options_);
  for (const auto& answer : event.answers) {
    const auto at = instances_.find(answer.name);
    if (at != instances_.end() && answer.failure) fail_launch(at->second, *answer.failure);
  }
  if (worst != nullptr) {
    record("LAUNCH_FAILED",
           fmt::format("type {}: {} ({})", event.type, to_string(worst->kind), worst->text));
  }
  record_pause(event.type, was_paused);
  list_at_ = std::min(list_at_, now_ + options_.list_interval);
}

// After a transient failure the instance may exist. Its name is used again, so that it cannot be
// launched twice.
void FleetCore::fail_launch(Instance& each, const ProviderFailure& failure) {
  if (each.state != InstanceState::requested) return;
  ++each.tries;
  each.failed_at = now_;
  each.reason = failure.text;
  if (failure.kind != FailureKind::transient) {
    const std::string name = each.name;
    out_->push_back(RevokeTicket{name});
    instances_.erase(name);
    return;
  }
  if (each.tries >= options_.max_launch_tries) each.end_why = "its launch failed";
}

void FleetCore::on(const EndAnswered& event) {
  for (const auto& answer : event.answers) {
    const auto at = instances_.find(answer.name);
    if (at == instances_.end() || !at->second.in_flight) continue;
    auto& each = at->second;
    each.in_flight = false;
    each.end_backoff = answer.failure ? std::clamp<Duration>(2 * each.end_backoff,
                                                             options_.transient_backoff_initial,
                                                             options_.transient_backoff_max)
                                      : Duration(0);
    each.end_retry_at = now_ + (answer.failure ? each.end_backoff : options_.end_timeout);
    if (!answer.failure) list_at_ = std::min(list_at_, now_ + 1s);
  }
}

void FleetCore::fail_start(const Instance& each, const std::string& why) {
  const auto gate = gates_.find(each.type);
  if (gate == gates_.end()) return;
  const bool was_paused = gate->second.paused();
  gate->second.fail_start(why, options_);
  record("LAUNCH_FAILED",
         fmt::format("instance {} of type {} never joined: {}", each.name, each.type, why));
  record_pause(each.type, was_paused);
}

FleetCore::Instances::iterator FleetCore::remove(Instances::iterator at, const std::string& why) {
  const auto& each = at->second;
  const std::string reason = each.end_why.empty() ? why : each.end_why;
  const bool counted = each.state == InstanceState::ending;
  if (each.has_joined) {
    record("NODE_GIVEN_BACK", fmt::format("instance {} of type {}: {}", each.name, each.type,
                                          reason.empty() ? "its provider ended it" : reason));
  } else if (!counted) {
    fail_start(each, reason.empty() ? "its provider ended it" : reason);
  }
  out_->push_back(RevokeTicket{each.name});
  if (const auto gate = gates_.find(each.type); gate != gates_.end()) gate->second.release();
  return instances_.erase(at);
}

// ---- orders of the operator ---------------------------------------------------------------------

void FleetCore::on(const PauseType& event) {
  const auto gate = gates_.find(event.type);
  if (gate == gates_.end()) return;
  const bool was_paused = gate->second.paused();
  gate->second.pause(event.why);
  record_pause(event.type, was_paused);
}

void FleetCore::on(const ResumeType& event) {
  const auto gate = gates_.find(event.type);
  if (gate != gates_.end()) gate->second.resume();
}

void FleetCore::record(const char* kind, std::string text) {
  out_->push_back(RecordEvent{kind, std::move(text)});
}

void FleetCore::record_pause(const std::string& type, bool was_paused) {
  const auto& gate = gates_[type];
  if (was_paused || !gate.paused()) return;
  record("TYPE_PAUSED", fmt::format("type {}: {}; `mobula autoscaler resume {}` opens it", type,
                                    gate.reason(now_), type));
}

}  // namespace mobula::internal::fleet
