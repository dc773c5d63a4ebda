// The cloud, the cluster, the faults, and the checkers of a FleetWorld.
#include <fmt/format.h>

#include <algorithm>

#include "sim/fleet/fleet_world.h"

namespace mobula::internal::sim {
namespace {

constexpr Duration recent_demand = 45s;  // a plan may be based on the demand of this time

}  // namespace

// ---- the cloud ----------------------------------------------------------------------------------

// About log-normal: 16 factors of 5/4 or 4/5 around 20 s.
Duration FleetWorld::start_time() {
  Duration time = 20s;
  for (int i = 0; i < 16; ++i) time = cloud_random_.chance(500) ? time * 5 / 4 : time * 4 / 5;
  return time;
}

fleet::InstanceAnswer FleetWorld::launch(const std::string& type, const std::string& name) {
  using fleet::FailureKind;
  fleet::InstanceAnswer answer{name, "ref-" + name};
  const auto refuse = [&](FailureKind kind, const char* why) {
    answer.failure = fleet::ProviderFailure{kind, why};
    return answer;
  };
  if (machines_.contains(name)) return answer;
  std::int64_t used = 0;
  for (const auto& [each, machine] : machines_) used += machine.gone ? 0 : 1;
  if (used >= quota_) return refuse(FailureKind::quota, "the quota is used up");
  const bool troubled = faults_ && now_ < calm_at_;
  if (troubled && cloud_random_.chance(25)) return refuse(FailureKind::capacity, "sold out");
  const bool unclear = troubled && cloud_random_.chance(25);
  if (unclear && cloud_random_.chance(500)) return refuse(FailureKind::transient, "no answer");
  Machine& machine = machines_[name];
  machine.name = name;
  machine.type = type;
  machine.created = now_;
  machine.never_joins = troubled && cloud_random_.chance(10);
  if (troubled && cloud_random_.chance(60)) {
    machine.expires = true;
    machine.gone_at = now_ + cloud_random_.between(Duration(1200s), Duration(3600s));
    at(machine.gone_at - now_, [this, name] {
      if (!machines_.at(name).gone) terminate(machines_.at(name));
    });
  }
  if (!machine.never_joins) at(start_time(), [this, name] { join(name); });
  // The cloud has launched it, but the answer is lost.
  if (unclear) return refuse(FailureKind::transient, "timed out");
  return answer;
}

void FleetWorld::join(const std::string& name) {
  Machine& machine = machines_.at(name);
  if (machine.gone || !tickets_.contains(name)) return;
  machine.node = NodeId::of(++last_node_);
  note("joined " + name);
  Host host;
  host.machine = name;
  host.type = machine.type;
  host.idle_since = now_;
  hosts_.emplace(*machine.node, std::move(host));
  if (head_) {
    for (const auto& type : fleet_options_.types) {
      if (type.name != machine.type) continue;
      auto shape = type.shape;
      shape.labels[fleet::instance_label] = name;
      head_->agent_starts(*machine.node, std::move(shape));
    }
  }
  if (faults_ && now_ < calm_at_ && cloud_random_.chance(15)) {
    // Mostly before the core has a snapshot with the node.
    at(cloud_random_.between(Duration(50ms), 2 * snapshot_interval_), [this, node = *machine.node] {
      const auto host = hosts_.find(node);
      if (host != hosts_.end() && !host->second.dead) lose_agent(node);
    });
  }
  start_tasks();
}

void FleetWorld::lose_agent(NodeId node) {
  Host& host = hosts_.at(node);
  note("agent dies " + host.machine);
  host.dead = true;
  if (head_) return head_->agent_dies(node);
  dead_.push_back(host.machine);
  if (host.task) {
    waiting_.push_back(*host.task);
    host.task.reset();
    --running_;
  }
  start_tasks();
}

void FleetWorld::terminate(Machine& machine) {
  note("gone " + machine.name);
  count_scale_down(machine);
  machine.gone = true;
  tickets_.erase(machine.name);
  if (!machine.node) return;
  const auto host = hosts_.find(*machine.node);
  if (host == hosts_.end()) return;
  if (host->second.task && !head_) {
    waiting_.push_back(*host->second.task);
    --running_;
  }
  if (head_) head_->machine_gone(*machine.node);  // the driver learns of lost tasks from the head
  hosts_.erase(*machine.node);
  start_tasks();
}

// ---- the cluster --------------------------------------------------------------------------------

void FleetWorld::work() {
  if (now_ < calm_at_ - 120s) {
    const bool burst = random_.chance(200);
    const auto count = burst ? random_.between(1, most_) : random_.between(0, 2);
    for (std::int64_t i = 0; i < count; ++i) {
      waiting_.push_back({++last_task_, random_.between(Duration(2s), Duration(200s))});
    }
    at(random_.between(Duration(5s), Duration(180s)), [this] { work(); });
  }
  start_tasks();
}

void FleetWorld::start_tasks() {
  if (head_) {
    head_->set_waiting(static_cast<std::int64_t>(waiting_.size()));
    demands_.emplace_back(now_, demand());
    return;
  }
  for (auto& [id, host] : hosts_) {
    if (waiting_.empty()) break;
    if (host.task || host.draining || host.dead) continue;
    host.task = waiting_.back();
    waiting_.pop_back();
    ++running_;
    at(host.task->run, [this, node = id, turn = ++host.turn] { finish(node, turn); });
  }
  demands_.emplace_back(now_, demand());
}

void FleetWorld::finish(NodeId node, std::uint64_t turn) {
  const auto host = hosts_.find(node);
  if (host == hosts_.end() || host->second.turn != turn || !host->second.task) return;
  host->second.task.reset();
  --running_;
  host->second.idle_since = now_;
  leave_objects(host->second);
  start_tasks();
}

void FleetWorld::leave_objects(Host& host) {
  const auto objects = static_cast<std::int64_t>(random_.below(4));
  host.objects = now_ < calm_at_ ? objects : 0;
}

// Executors that start or end hold their node like a task.
std::int64_t FleetWorld::demand() const {
  const auto spare = head_ ? head_->spare_executors() : 0;
  return static_cast<std::int64_t>(waiting_.size()) + running_ + spare;
}

planner::ClusterState FleetWorld::state() const {
  planner::ClusterState state;
  for (const auto& [id, host] : hosts_) {
    if (host.dead) continue;
    planner::ClusterNode node;
    node.id = id;
    node.type = host.type;
    for (const auto& type : fleet_options_.types) {
      if (type.name == host.type) node.shape = type.shape;
    }
    node.shape.labels[fleet::instance_label] = host.machine;
    if (host.draining) {
      node.phase = planner::NodePhase::leaving;
      node.draining = true;
    }
    if (host.task) {
      node.held.resources.push_back({"CPU", {{0, Quantity::whole(4)}}});
      node.task_slots = 1;
    } else {
      node.idle = now_ - host.idle_since;
    }
    state.nodes.push_back(std::move(node));
  }
  if (!waiting_.empty()) {
    planner::WantedSlots slots;
    slots.demand.id = ClassId::of(1);
    slots.demand.request.resources.set("CPU", Quantity::whole(4));
    slots.count = static_cast<std::int64_t>(waiting_.size());
    state.slots.push_back(std::move(slots));
  }
  return state;
}

// ---- faults -------------------------------------------------------------------------------------

void FleetWorld::draw_faults() {
  const auto some_time = [this] { return random_.between(Duration(10s), calm_at_ - now_ - 60s); };
  const auto restarts = random_.between(0, 6);
  for (std::int64_t i = 0; i < restarts; ++i) {
    at(some_time(), [this] {
      core_.reset();
      ++core_life_;
      note("autoscaler killed");
      at(random_.between(Duration(10ms), Duration(60s)), [this] {
        if (!core_) start_core();
      });
    });
  }
  const auto heads = random_.between(0, 3);
  for (std::int64_t i = 0; i < heads; ++i) {
    at(some_time(), [this] {
      note("head killed");
      if (head_ && head_->is_away()) return;
      if (head_) head_->crash();
      head_away_ = true;
      at(random_.between(Duration(100ms), Duration(20s)), [this] {
        head_away_ = false;
        if (head_) return head_->start();
        head_recovers_ = true;
        dead_.clear();
        for (auto& [id, host] : hosts_) {
          if (!host.task) host.idle_since = now_;  // idle times restart with the head
        }
        at(random_.between(Duration(40s), Duration(90s)), [this] { head_recovers_ = false; });
      });
    });
  }
  const auto losses = random_.between(0, 8);
  for (std::int64_t i = 0; i < losses; ++i) {
    at(some_time(), [this] {
      if (hosts_.empty()) return;
      auto host =
          std::next(hosts_.begin(), static_cast<std::ptrdiff_t>(random_.below(hosts_.size())));
      auto& machine = machines_.at(host->second.machine);
      if (random_.chance(500)) return terminate(machine);  // spot termination
      if (!host->second.dead) lose_agent(host->first);
    });
  }
}

// ---- checkers -----------------------------------------------------------------------------------

// A machine that the core must count as present or future capacity.
bool FleetWorld::counts_for_demand(const Machine& machine) const {
  if (machine.gone || machine.end_ordered || !tickets_.contains(machine.name)) return false;
  if (machine.expires &&
      now_ + fleet_options_.drain_timeout + fleet_options_.launch_timeout + 5s >= machine.gone_at) {
    return false;  // it may be replaced
  }
  if (machine.node) {
    const auto host = hosts_.find(*machine.node);
    return host != hosts_.end() && !host->second.draining && !host->second.dead;
  }
  return now_ < machine.created + fleet_options_.launch_timeout - 5s && !machine.never_joins;
}

void FleetWorld::check_launch(const fleet::LaunchInstances& command) {
  // A recorded demand holds until the next one.
  const Time since = now_ - std::max(recent_demand, 2 * snapshot_interval_);
  while (demands_.size() > 1 && demands_[1].first < since) demands_.erase(demands_.begin());
  std::int64_t most = demand();
  for (const auto& [when, count] : demands_) most = std::max(most, count);
  if (most_at_once_ > 0) most = std::min(most, most_at_once_);
  std::int64_t least = 0;
  for (const auto& [type, limits] : types_) least += limits.least;
  std::int64_t present = 0;
  std::int64_t of_type = 0;
  std::int64_t fresh = 0;
  for (const auto& [name, machine] : machines_) {
    if (!counts_for_demand(machine)) continue;
    ++present;
    of_type += machine.type == command.type ? 1 : 0;
  }
  for (const auto& name : command.names) fresh += machines_.contains(name) ? 0 : 1;
  // A type reaches its minimum, even while idle nodes of another type serve all demand.
  fresh -= std::clamp<std::int64_t>(types_.at(command.type).least - of_type, 0, fresh);
  if (fresh > 0 && present + fresh > most + least) {
    fail("double", fmt::format("{} launches with {} nodes for {} tasks and a minimum of {}", fresh,
                               present, most, least));
  }
}

void FleetWorld::check_maximum() {
  std::map<std::string, std::int64_t> counts;
  std::int64_t all = 0;
  for (const auto& [name, machine] : machines_) {
    if (machine.gone) continue;
    ++counts[machine.type];
    ++all;
  }
  for (const auto& [type, count] : counts) {
    if (count <= types_.at(type).most) continue;
    fail("maximum",
         fmt::format("{} instances of {}, at most {}", count, type, types_.at(type).most));
  }
  if (all > most_) fail("maximum", fmt::format("{} instances, at most {}", all, most_));
}

void FleetWorld::check_end(const Machine& machine) {
  const auto host = machine.node ? hosts_.find(*machine.node) : hosts_.end();
  if (host == hosts_.end() || host->second.dead) return;
  if (host->second.task) fail("work", machine.name + " ends although it runs a task");
  if (!host->second.draining) fail("drain", machine.name + " ends without a drain");
  if (host->second.objects > 0) {
    fail("objects", fmt::format("{} ends with {} objects that other nodes hold", machine.name,
                                host->second.objects));
  }
}

// The core has a snapshot that names the instance among those whose agent has died.
void FleetWorld::check_event(const fleet::RecordEvent& event) {
  if (event.kind != "LAUNCH_FAILED" || event.text.find("never joined") == std::string::npos) return;
  for (const auto& name : dead_shown_) {
    if (event.text.find("instance " + name + " ") == std::string::npos) continue;
    fail("joined", event.text + ", but its agent had joined and died");
  }
}

// Counts an ended machine whose node had joined and did not fail.
void FleetWorld::count_scale_down(const Machine& machine) {
  const auto host = machine.node ? hosts_.find(*machine.node) : hosts_.end();
  if (!machine.end_ordered || host == hosts_.end() || host->second.dead) return;
  ++outcome_.scale_downs;
  if (host->second.task) fail("work", machine.name + " is gone although it runs a task");
}

bool FleetWorld::is_settled() const {
  if (demand() > 0) return false;
  std::map<std::string, std::int64_t> counts;
  for (const auto& [name, machine] : machines_) {
    if (machine.gone) continue;
    if (!machine.node || !hosts_.contains(*machine.node)) return false;
    if (hosts_.at(*machine.node).dead || hosts_.at(*machine.node).draining) return false;
    ++counts[machine.type];
  }
  std::int64_t all = 0;
  std::int64_t least = 0;
  for (const auto& [type, limits] : types_) {
    all += counts[type];
    least += limits.least;
    if (counts[type] > limits.least) return false;
  }
  return all == std::min({least, most_, quota_});
}

void FleetWorld::check_settled() {
  if (is_settled()) return;
  std::string text = fmt::format("{} tasks wait, {} run;", waiting_.size(), running_);
  for (const auto& [name, machine] : machines_) {
    if (machine.gone) continue;
    const auto host = machine.node ? hosts_.find(*machine.node) : hosts_.end();
    text += fmt::format(" {}({}{}{})", name, machine.type, machine.node ? " joined" : "",
                        host != hosts_.end() && host->second.dead       ? " dead"
                        : host != hosts_.end() && host->second.draining ? " draining"
                                                                        : "");
  }
  fail("settled", text);
}

}  // namespace mobula::internal::sim
