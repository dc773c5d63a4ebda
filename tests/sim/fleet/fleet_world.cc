#include "sim/fleet/fleet_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "scheduler/planner/planner.h"

namespace mobula::internal::sim {
namespace {

constexpr Duration fault_time = std::chrono::minutes(25);   // of faults and new tasks
constexpr Duration settle_timeout = std::chrono::hours(2);  // until the fleet has settled

constexpr std::uint64_t max_fleet_steps = 400'000;
constexpr std::uint64_t max_head_steps = 4'000'000;  // with the heartbeats of all agents

ResourceShape cpus() {
  ResourceShape shape;
  shape.name = "CPU";
  shape.instances.push_back({Quantity::whole(4), {}, {}, 0});
  return shape;
}

NodeShape shape_of(const std::string& type) {
  NodeShape shape;
  shape.resources = {cpus()};
  shape.labels = {{planner::node_type_label, type}};
  shape.task_executors = 8;
  shape.actor_executors = 8;
  return shape;
}

}  // namespace

FleetWorld::FleetWorld(const HistoryOptions& options)
    : options_(options),
      faults_(options.scenario != "fleet"),
      random_(Random(options.seed).fork("fleet")),
      cloud_random_(Random(options.seed).fork("cloud")) {
  // Some histories have a large cloud, at which the core looks less often. With the head's core,
  // they take seconds.
  const bool large = options.seed % (options.scenario == "fleet_head" ? 128 : 64) == 0;
  const std::int64_t most = large ? 1000 : random_.between(4, 40);
  snapshot_interval_ = large ? Duration(120s) : Duration(5s);
  auto& fleet = fleet_options_;
  fleet.cluster = "sim";
  const auto types = large ? 1 : random_.between(1, 3);
  for (std::int64_t i = 0; i < types; ++i) {
    planner::NodeType type;
    type.name = std::string(1, static_cast<char>('a' + i));
    type.shape = shape_of(type.name);
    type.max_workers = large ? most : random_.between(2, most);
    type.min_workers = random_.between(0, 2);
    types_[type.name] = {type.max_workers, type.min_workers};
    fleet.types.push_back(std::move(type));
  }
  most_ = random_.between(3, most);
  if (large) most_ = 1000;
  quota_ = large ? 600 : std::max<std::int64_t>(2, most * 3 / 5);
  fleet.limits.max_workers = most_;
  fleet.limits.idle_timeout = 60s;
  fleet.limits.target_wait = Duration(0);
  if (large) fleet.limits.launch_at_least = 200;
  fleet.launch_timeout = 300s;
  calm_at_ = now_ + fault_time;
  // At one snapshot in 120 s, a large cloud grows in time only if many instances may start at once.
  if (random_.chance(300)) fleet.max_pending = random_.between(1, 6) * (large ? 50 : 1);
}

Outcome FleetWorld::run() {
  if (options_.scenario == "fleet_head") start_head();
  start_core();
  for (int i = 0; i < 3; ++i) foreign_.insert(fmt::format("mobula-other-{}", i));
  at(1s, [this] { take_snapshot(); });
  at(0s, [this] { work(); });
  if (faults_) draw_faults();
  // The owners of all objects end.
  at(fault_time, [this] {
    for (auto& [id, host] : hosts_) host.objects = 0;
  });
  at(fault_time + settle_timeout, [this] { check_settled(); });
  while (!queue_.empty() && !over()) {
    auto first = queue_.begin();
    now_ = first->first.first;
    const auto action = std::move(first->second);
    queue_.erase(first);
    action();
    if (++outcome_.steps > (head_ ? max_head_steps : max_fleet_steps))
      fail("livelock", "the history does not end");
    if (now_ > calm_at_ + 60s && is_settled()) break;
  }
  outcome_.end = now_;
  return outcome_;
}

// ---- kernel -------------------------------------------------------------------------------------

void FleetWorld::at(Duration delay, std::function<void()> action) {
  queue_.emplace(std::pair(now_ + delay, ++order_), std::move(action));
}

void FleetWorld::fail(const std::string& checker, const std::string& text) {
  if (over()) return;
  outcome_.ok = false;
  outcome_.checker = checker;
  outcome_.text = text;
}

void FleetWorld::note(const std::string& text) {
  outcome_.hash = fnv1a(fmt::format("{} {}", now_.ns(), text), outcome_.hash ^ fnv_origin);
  if (options_.trace != nullptr) {
    const double seconds = static_cast<double>(now_.ns() - 1'000'000'000) * 1e-9;
    std::fprintf(options_.trace, "%12.3f %s\n", seconds, text.c_str());
  }
}

// ---- the autoscaler's shell ---------------------------------------------------------------------

void FleetWorld::start_core() {
  ++core_life_;
  fleet_options_.first_number = names_ + 1'000'000 * core_life_;
  core_.emplace(fleet_options_);
  dead_shown_.clear();
  note("autoscaler starts");
  step(fleet::FleetTick{});
}

void FleetWorld::step(fleet::FleetEvent event) {
  for (auto& each : options_.hooks.fleet.taken(std::move(event))) deliver(std::move(each));
}

void FleetWorld::deliver(fleet::FleetEvent event) {
  if (over() || !core_) return;
  std::vector<fleet::FleetCommand> commands;
  core_->step(now_, std::move(event), commands);
  (void)options_.hooks.fleet.leave(commands);
  for (const auto& each : commands) {
    std::visit([this](const auto& command) { execute(command); }, each);
  }
  tick_later();
}

void FleetWorld::tick_later() {
  const auto next = core_->next_deadline();
  if (!next || (*next == tick_at_ && *next > now_)) return;
  tick_at_ = *next;
  const auto of_life = core_life_;
  at(std::max(*next - now_, Duration(0)), [this, of_life, when = *next] {
    if (of_life == core_life_ && tick_at_ == when) step(fleet::FleetTick{});
  });
}

void FleetWorld::take_snapshot() {
  at(snapshot_interval_, [this] { take_snapshot(); });
  if (!core_ || head_away_) return;
  if (head_) return query_head();
  const auto of_life = core_life_;
  const bool recovering = head_recovers_;
  auto seen = state();
  if (recovering) std::erase_if(seen.nodes, [this](const auto&) { return random_.chance(700); });
  at(random_.between(Duration(5ms), Duration(900ms)),
     [this, of_life, recovering, seen = std::move(seen), dead = dead_] {
       if (of_life == core_life_) pass_snapshot(seen, recovering, dead);
     });
}

void FleetWorld::pass_snapshot(planner::ClusterState state, bool recovering,
                               std::vector<std::string> dead) {
  dead_shown_.insert(dead.begin(), dead.end());
  step(fleet::SnapshotReceived{std::move(state), recovering, std::move(dead)});
}

void FleetWorld::answer_later(Duration delay, std::function<fleet::FleetEvent()> answer) {
  at(delay, [this, of_life = core_life_, answer = std::move(answer)] {
    if (of_life == core_life_) step(answer());
  });
}

void FleetWorld::execute(const fleet::MakePlan& command) {
  answer_later(random_.between(Duration(1ms), Duration(500ms)), [this, command] {
    return fleet::Planned{command.number,
                          planner::plan(command.state, command.types, fleet_options_.limits)};
  });
}

void FleetWorld::execute(const fleet::RecordEvent& command) {
  note(command.kind + " " + command.text);
  check_event(command);
  if (command.kind != "TYPE_PAUSED") return;
  // The operator looks after a while.
  at(60s, [this] {
    for (const auto& [type, limits] : types_) step(fleet::ResumeType{type});
  });
}

void FleetWorld::execute(const fleet::LaunchInstances& command) {
  note(fmt::format("launch {} of {}", command.names.size(), command.type));
  check_launch(command);
  for (const auto& name : command.names) tickets_.insert(name);
  // The call of a killed autoscaler dies with it, or the cloud has carried it out before.
  at(random_.between(Duration(50ms), Duration(3s)), [this, of_life = core_life_, command] {
    if (of_life != core_life_) return;
    fleet::LaunchAnswered answer{command.type, {}};
    for (const auto& name : command.names) {
      answer.answers.push_back(launch(command.type, name));
    }
    check_maximum();
    answer_later(random_.between(Duration(1ms), Duration(200ms)), [answer] { return answer; });
  });
}

void FleetWorld::execute(const fleet::EndInstances& command) {
  fleet::EndAnswered answer;
  for (const auto& each : command.instances) {
    note("end " + each.name);
    if (foreign_.contains(each.name)) fail("foreign", "ends " + each.name);
    const auto machine = machines_.find(each.name);
    const bool fails = faults_ && cloud_random_.chance(50) && now_ < calm_at_;
    answer.answers.push_back({each.name, each.ref});
    if (fails) {
      answer.answers.back().failure =
          fleet::ProviderFailure{fleet::FailureKind::transient, "the cloud is busy"};
    }
    if (machine == machines_.end() || machine->second.gone) continue;
    check_end(machine->second);
    if (fails) continue;
    machine->second.end_ordered = true;
    at(cloud_random_.between(Duration(500ms), Duration(30s)), [this, name = each.name] {
      if (!machines_.at(name).gone) terminate(machines_.at(name));
    });
  }
  answer_later(random_.between(Duration(50ms), Duration(2s)), [answer] { return answer; });
}

void FleetWorld::execute(const fleet::ListInstances&) {
  const auto delay = random_.between(Duration(50ms), Duration(2s));
  if (faults_ && now_ < calm_at_ && random_.chance(30)) {
    return answer_later(delay, [] {
      return fleet::ListFailed{{fleet::FailureKind::transient, "garbage"}};
    });
  }
  auto rows = list_rows();
  answer_later(delay, [rows] { return rows; });
}

fleet::Listed FleetWorld::list_rows() {
  fleet::Listed listed;
  listed.whole = true;
  for (const auto& [name, machine] : machines_) {
    if (machine.gone) continue;
    fleet::InstanceRow row{name, "ref-" + name, machine.type};
    row.state = machine.end_ordered ? fleet::ProviderState::ending : fleet::ProviderState::running;
    if (machine.expires) row.ends_in = std::max<Duration>(machine.gone_at - now_, Duration(0));
    listed.rows.push_back(std::move(row));
  }
  for (const auto& name : foreign_) {
    listed.rows.push_back({name, "x", "a", fleet::ProviderState::running});
  }
  const bool lies = faults_ && !lied_ && now_ < calm_at_ && !listed.rows.empty();
  lied_ = false;
  if (lies && random_.chance(100)) {
    lied_ = true;
    listed.rows.erase(listed.rows.begin() +
                      static_cast<std::ptrdiff_t>(random_.below(listed.rows.size())));
    listed.whole = random_.chance(300);  // one row is missing in a list that claims to be whole
  }
  return listed;
}

void FleetWorld::execute(const fleet::DrainNode& command) {
  if (head_) {
    const auto ms = std::to_string(std::max<std::int64_t>(1, command.timeout / 1ms));
    return head_->query("drain", ms, command.node.hex(), [](const ToolReply&) {});
  }
  at(random_.between(Duration(5ms), Duration(500ms)), [this, command] {
    const auto host = hosts_.find(command.node);
    if (host == hosts_.end() || head_away_) return;
    note("drain " + host->second.machine);
    host->second.draining = true;
    host->second.drain_deadline = now_ + command.timeout;
    at(command.timeout, [this, node = command.node] {
      const auto late = hosts_.find(node);
      if (late == hosts_.end() || !late->second.draining || !late->second.task) return;
      if (late->second.drain_deadline > now_) return;
      waiting_.push_back(*late->second.task);  // moves to another node
      late->second.task.reset();
      --running_;
      late->second.idle_since = now_;
      start_tasks();
    });
  });
}

void FleetWorld::execute(const fleet::UndrainNode& command) {
  if (head_) return head_->query("undrain", "", command.node.hex(), [](const ToolReply&) {});
  at(random_.between(Duration(5ms), Duration(500ms)), [this, command] {
    const auto host = hosts_.find(command.node);
    if (host == hosts_.end() || head_away_) return;
    note("undrain " + host->second.machine);
    host->second.draining = false;
    start_tasks();
  });
}

void FleetWorld::execute(const fleet::CountObjects& command) {
  if (head_) return count_objects_at_head(command);
  for (const auto node : command.nodes) {
    answer_later(random_.between(Duration(5ms), Duration(500ms)), [this, node] {
      if (!hosts_.contains(node)) return fleet::FleetEvent(fleet::FleetTick{});
      return fleet::FleetEvent(fleet::Drained{node, leaving_objects(node)});
    });
  }
}

// A draining node copies some objects between two questions, if another node takes them.
std::int64_t FleetWorld::leaving_objects(NodeId node) {
  const auto host = hosts_.find(node);
  if (host == hosts_.end() || (head_ && !host->second.draining)) return 0;
  const auto counted = host->second.objects;
  const bool taken = std::ranges::any_of(
      hosts_, [&](const auto& each) { return each.first != node && !each.second.draining; });
  if (taken) host->second.objects = std::max<std::int64_t>(0, counted - 2);
  return counted;
}

void FleetWorld::execute(const fleet::RevokeTicket& command) { tickets_.erase(command.name); }

}  // namespace mobula::internal::sim
