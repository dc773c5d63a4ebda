// Fixture of the tests of FleetCore: a core with a provider and a head that the test plays.
// Thread: owner.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deploy/fleet/core/fleet_core.h"
#include "scheduler/planner/planner.h"

namespace mobula::internal::fleet {

using planner::ClusterNode;
using planner::NodePhase;

inline ResourceShape amount(const std::string& name, std::int64_t total) {
  ResourceShape shape;
  shape.name = name;
  shape.instances.push_back({Quantity::whole(total), {}, {}, 0});
  return shape;
}

inline planner::NodeType type_of(const std::string& name, std::int64_t cpus, std::int64_t most) {
  planner::NodeType type;
  type.name = name;
  type.shape.resources = {amount("CPU", cpus)};
  type.shape.labels = {{planner::node_type_label, name}};
  type.shape.task_executors = 100;
  type.shape.actor_executors = 100;
  type.max_workers = most;
  return type;
}

struct Fixture {
  explicit Fixture(std::vector<planner::NodeType> types = {type_of("cpu", 4, 10)}) {
    options.cluster = "c";
    options.types = std::move(types);
    options.limits.idle_timeout = 60s;
    options.limits.target_wait = Duration(0);
    core.emplace(options);
  }

  std::vector<FleetCommand> step(FleetEvent event) {
    std::vector<FleetCommand> out;
    core->step(now, std::move(event), out);
    for (const auto& each : out) {
      if (const auto* event_row = std::get_if<RecordEvent>(&each)) kinds.push_back(event_row->kind);
    }
    return out;
  }
  template <class Command>
  static std::vector<Command> only(const std::vector<FleetCommand>& out) {
    std::vector<Command> found;
    for (const auto& each : out) {
      if (const auto* one = std::get_if<Command>(&each)) found.push_back(*one);
    }
    return found;
  }
  void restart() {
    core.emplace(options);
    listed = false;
  }
  // Reports these rows as the list of the provider, first in two lists.
  void list(std::vector<InstanceRow> rows = {}, bool whole = true) {
    if (whole && !std::exchange(listed, true)) step(Listed{rows, true});
    step(Listed{std::move(rows), whole});
  }
  // Two lists without a row show that an instance is gone.
  void list_twice(const std::vector<InstanceRow>& rows = {}) {
    for (int i = 0; i < 2; ++i) {
      now = now + options.list_interval;
      step(FleetTick{});
      list(rows);
    }
  }
  std::vector<FleetCommand> snapshot_and_plan() {
    auto out = step(SnapshotReceived{cluster, recovering, dead});
    const auto plans = only<MakePlan>(out);
    if (plans.empty()) return out;
    for (auto& each : step(Planned{
             plans[0].number, planner::plan(plans[0].state, plans[0].types, options.limits)})) {
      out.push_back(std::move(each));
    }
    return out;
  }
  void want(std::int64_t count, std::int64_t cpus = 4) {
    planner::WantedSlots slots;
    slots.demand.id = ClassId::of(1);
    slots.demand.request.resources.set("CPU", Quantity::whole(cpus));
    slots.count = count;
    cluster.slots = {slots};
  }
  ClusterNode& join(const std::string& name, const std::string& type = "cpu") {
    ClusterNode node;
    node.id = NodeId::of(++nodes);
    node.type = type;
    node.shape = type_of(type, 4, 1).shape;
    node.shape.labels[instance_label] = name;
    node.idle = Duration(0);
    cluster.nodes.push_back(node);
    return cluster.nodes.back();
  }
  static InstanceRow row(const std::string& name, ProviderState state = ProviderState::running) {
    return {name, "ref-" + name, "cpu", state};
  }
  // Launches one instance and returns its name.
  std::string launched() {
    step(FleetTick{});
    list();
    want(1);
    const auto order = only<LaunchInstances>(snapshot_and_plan());
    EXPECT_EQ(order.size(), 1u);
    const auto name = order.at(0).names.at(0);
    step(LaunchAnswered{"cpu", {{name, "ref-" + name}}});
    return name;
  }
  std::string joined() {
    const auto name = launched();
    join(name);
    cluster.slots.clear();
    snapshot_and_plan();
    return name;
  }
  std::int64_t count(InstanceState state) {
    std::int64_t sum = 0;
    for (const auto& type : core->report(now).types) {
      sum += type.instances.at(static_cast<std::size_t>(state));
    }
    return sum;
  }
  bool recorded(const std::string& kind) const { return std::ranges::count(kinds, kind) > 0; }

  FleetOptions options;
  std::optional<FleetCore> core;
  Time now = Time::from_ns(1'000'000'000);
  planner::ClusterState cluster;
  bool recovering = false;
  std::vector<std::string> dead;  // instances whose node has died
  bool listed = false;
  std::uint64_t nodes = 0;
  std::vector<std::string> kinds;
};

}  // namespace mobula::internal::fleet
