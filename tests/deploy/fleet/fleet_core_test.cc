#include "deploy/fleet/core/fleet_core.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "deploy/fleet/core/type_shortfall.h"
#include "scheduler/planner/planner.h"

namespace mobula::internal::fleet {
namespace {

using planner::ClusterNode;
using planner::NodePhase;

ResourceShape amount(const std::string& name, std::int64_t total) {
  ResourceShape shape;
  shape.name = name;
  shape.instances.push_back({Quantity::whole(total), {}, {}, 0});
  return shape;
}

planner::NodeType type_of(const std::string& name, std::int64_t cpus, std::int64_t most) {
  planner::NodeType type;
  type.name = name;
  type.shape.resources = {amount("CPU", cpus)};
  type.shape.labels = {{planner::node_type_label, name}};
  type.shape.task_executors = 100;
  type.shape.actor_executors = 100;
  type.max_workers = most;
  return type;
}

// A core with a provider and a head that the test plays.
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
  std::vector<FleetCommand> look_and_plan() {
    auto out = step(Looked{cluster, recovering});
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
    const auto order = only<LaunchInstances>(look_and_plan());
    EXPECT_EQ(order.size(), 1u);
    const auto name = order.at(0).names.at(0);
    step(LaunchAnswered{"cpu", {{name, "ref-" + name}}});
    return name;
  }
  std::string joined() {
    const auto name = launched();
    join(name);
    cluster.slots.clear();
    look_and_plan();
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
  bool listed = false;
  std::uint64_t nodes = 0;
  std::vector<std::string> kinds;
};

TEST(FleetCore, LaunchesOnceForOneDemand) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(3);
  const auto order = f.only<LaunchInstances>(f.look_and_plan());
  ASSERT_EQ(order.size(), 1u);
  EXPECT_EQ(order[0].names, (std::vector<std::string>{"mobula-c-1", "mobula-c-2", "mobula-c-3"}));
  f.now = f.now + 1s;
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  f.step(LaunchAnswered{"cpu", {{"mobula-c-1", "a"}, {"mobula-c-2", "b"}, {"mobula-c-3", "c"}}});
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  EXPECT_TRUE(f.recorded("NODE_LAUNCHED"));
  const auto report = f.core->report(f.now);
  ASSERT_FALSE(report.waits.empty());
  EXPECT_EQ(report.waits[0].starting, "cpu");
}

TEST(FleetCore, PlansNothingBeforeFirstWholeList) {
  Fixture f;
  f.want(1);
  EXPECT_TRUE(f.only<MakePlan>(f.look_and_plan()).empty());
  f.list({}, false);
  EXPECT_TRUE(f.only<MakePlan>(f.look_and_plan()).empty());
  f.recovering = true;
  EXPECT_TRUE(f.only<MakePlan>(f.look_and_plan()).empty());
  f.list();
  EXPECT_TRUE(f.only<MakePlan>(f.look_and_plan()).empty());
  f.recovering = false;
  EXPECT_EQ(f.only<LaunchInstances>(f.look_and_plan()).size(), 1u);
}

TEST(FleetCore, StaysWithinMaximum) {
  Fixture f({type_of("cpu", 4, 2)});
  f.step(FleetTick{});
  f.list();
  f.want(9);
  EXPECT_EQ(f.only<LaunchInstances>(f.look_and_plan()).at(0).names.size(), 2u);
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
}

TEST(FleetCore, AdoptionMakesRunningPlanStale) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(1);
  const auto plan = f.only<MakePlan>(f.step(Looked{f.cluster, false}));
  ASSERT_EQ(plan.size(), 1u);
  f.list({f.row("mobula-c-7")});
  const auto planned = planner::plan(plan[0].state, plan[0].types, f.options.limits);
  const auto out = f.step(Planned{plan[0].number, planned});
  EXPECT_TRUE(f.only<LaunchInstances>(out).empty());
  EXPECT_EQ(f.only<MakePlan>(out).size(), 1u);  // again, with the adopted instance
}

TEST(FleetCore, AdoptsOwnInstancesAlone) {
  Fixture f;
  f.step(FleetTick{});
  f.list({f.row("mobula-c-7"), f.row("mobula-other-8"), f.row("web-1"), f.row("mobula-c-7x")});
  EXPECT_EQ(f.count(InstanceState::starting), 1);
  f.want(2);
  const auto order = f.only<LaunchInstances>(f.look_and_plan());
  ASSERT_EQ(order.size(), 1u);
  EXPECT_EQ(order[0].names, std::vector<std::string>{"mobula-c-8"});
}

TEST(FleetCore, DrainsBeforeItEndsIdleNode) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  f.cluster.nodes[0].idle = 61s;
  const auto drain = f.only<DrainNode>(f.look_and_plan());
  ASSERT_EQ(drain.size(), 1u);
  EXPECT_EQ(drain[0].timeout, 120s);
  EXPECT_TRUE(f.only<EndInstances>(f.look_and_plan()).empty());
  f.cluster.nodes[0].draining = true;
  f.cluster.nodes[0].phase = NodePhase::leaving;
  f.cluster.nodes[0].task_slots = 1;
  EXPECT_TRUE(f.only<CountObjects>(f.look_and_plan()).empty());
  f.cluster.nodes[0].task_slots = 0;
  EXPECT_EQ(f.only<CountObjects>(f.look_and_plan()).size(), 1u);
  EXPECT_TRUE(f.only<EndInstances>(f.step(Drained{f.cluster.nodes[0].id, 2})).empty());
  const auto end = f.only<EndInstances>(f.step(Drained{f.cluster.nodes[0].id, 0}));
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0].instances.at(0).name, name);
  f.step(EndAnswered{{{name}}});
  f.cluster.nodes.clear();
  f.list_twice();
  EXPECT_FALSE(f.core->has_instances());
  EXPECT_TRUE(f.recorded("NODE_GIVEN_BACK"));
}

TEST(FleetCore, UndrainsWhenDemandReturns) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  auto& node = f.cluster.nodes[0];
  node.idle = 61s;
  ASSERT_EQ(f.only<DrainNode>(f.look_and_plan()).size(), 1u);
  node.draining = true;
  node.phase = NodePhase::leaving;
  f.want(1);
  const auto out = f.look_and_plan();
  EXPECT_EQ(f.only<UndrainNode>(out).size(), 1u);
  EXPECT_TRUE(f.only<LaunchInstances>(out).empty());
  EXPECT_EQ(f.count(InstanceState::joined), 1);
}

// The snapshot was taken before the head carried out the undrain.
TEST(FleetCore, SnapshotOlderThanUndrain_NodeStillCounts) {
  Fixture f;
  const auto name = f.joined();
  f.cluster.nodes[0].idle = Duration(61s);
  ASSERT_EQ(f.only<DrainNode>(f.look_and_plan()).size(), 1u);
  f.cluster.nodes[0].draining = true;
  f.cluster.nodes[0].phase = NodePhase::leaving;
  f.want(1);
  const auto out = f.look_and_plan();
  ASSERT_EQ(f.only<UndrainNode>(out).size(), 1u);
  EXPECT_TRUE(f.only<LaunchInstances>(out).empty());
  f.now = f.now + 1s;
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty()) << "the node still drains there";
  EXPECT_EQ(f.count(InstanceState::joined), 1);
}

TEST(FleetCore, ObjectsThatCannotLeaveKeepNode) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  auto& node = f.cluster.nodes[0];
  node.idle = 61s;
  f.look_and_plan();
  node.draining = true;
  node.phase = NodePhase::leaving;
  f.look_and_plan();
  f.step(Drained{node.id, 1});
  f.now = f.now + 131s;
  const auto out = f.look_and_plan();
  EXPECT_EQ(f.only<UndrainNode>(out).size(), 1u);
  EXPECT_TRUE(f.only<EndInstances>(out).empty());
}

TEST(FleetCore, EndsInstanceThatNeverJoins) {
  Fixture f;
  const auto name = f.launched();
  f.cluster.slots.clear();
  f.list({f.row(name)});
  f.now = f.now + 599s;
  EXPECT_TRUE(f.only<EndInstances>(f.look_and_plan()).empty());
  f.now = f.now + 2s;
  const auto late = f.step(FleetTick{});
  EXPECT_EQ(f.only<RevokeTicket>(late).size(), 1u);
  EXPECT_TRUE(f.only<EndInstances>(late).empty());  // a running look could show its node
  f.look_and_plan();
  EXPECT_EQ(f.only<EndInstances>(f.look_and_plan()).size(), 1u);
  EXPECT_TRUE(f.recorded("LAUNCH_FAILED"));
}

TEST(FleetCore, PendingInstanceWaitsForCapacity) {
  Fixture f;
  const auto name = f.launched();
  for (int i = 0; i < 5; ++i) {
    f.now = f.now + 300s;
    f.step(FleetTick{});
    f.list({f.row(name, ProviderState::pending)});
    EXPECT_TRUE(f.only<EndInstances>(f.look_and_plan()).empty());
  }
  EXPECT_EQ(f.count(InstanceState::accepted), 1);
}

TEST(FleetCore, ThreeFailedStartsPauseType) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(f.recorded("TYPE_PAUSED"));
    const auto order = f.only<LaunchInstances>(f.look_and_plan());
    ASSERT_EQ(order.size(), 1u);
    f.step(LaunchAnswered{"cpu", {{order[0].names[0], "r"}}});
    f.list({f.row(order[0].names[0], ProviderState::failed)});
  }
  EXPECT_TRUE(f.recorded("TYPE_PAUSED"));
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  f.step(ResumeType{"cpu"});
  EXPECT_EQ(f.only<LaunchInstances>(f.look_and_plan()).size(), 1u);
}

// Without the pause, the demand would launch nodes that cannot serve it forever.
TEST(FleetCore, NodeLacksItsResources_TypePauses) {
  Fixture f;
  const auto name = f.launched();
  f.join(name).shape.resources = {amount("CPU", 2)};
  f.look_and_plan();
  EXPECT_TRUE(f.recorded("TYPE_PAUSED"));
  const auto type = f.core->report(f.now).types.at(0);
  EXPECT_NE(type.closed.find("joined with CPU: 2 instead of 4"), std::string::npos) << type.closed;
  f.want(5);
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
}

TEST(TypeShortfall, ComparesTypesAndAmounts) {
  NodeShape type, node;
  type.resources = {amount("CPU", 4), amount("GPU", 2), amount("memory", 100)};
  type.resources[1].instances[0].types = {"H100"};
  node.resources = {amount("CPU", 4), amount("GPU", 2), amount("memory", 90)};
  EXPECT_EQ(shortfall_of(node, type), "no accelerator_type:H100");
  node.resources[1].instances[0].types = {"H100", "H100-80G"};
  EXPECT_EQ(shortfall_of(node, type), "") << "memory differs between machines";
  node.resources[1].instances[0].total = Quantity::whole(1);
  EXPECT_EQ(shortfall_of(node, type), "GPU: 1 instead of 2");
  type.resources.pop_back();
  type.accelerator_types = {"TPU"};
  node.resources[1].instances[0].total = Quantity::whole(2);
  EXPECT_EQ(shortfall_of(node, type), "no accelerator_type:TPU");
}

TEST(FleetCore, NoCapacity_OtherTypeStarts) {
  Fixture f({type_of("a", 4, 5), type_of("b", 4, 5)});
  f.step(FleetTick{});
  f.list();
  f.want(1);
  auto order = f.only<LaunchInstances>(f.look_and_plan());
  ASSERT_EQ(order.at(0).type, "b");
  f.step(LaunchAnswered{
      "b", {{order[0].names[0], "", ProviderFailure{FailureKind::capacity, "sold out"}}}});
  order = f.only<LaunchInstances>(f.look_and_plan());
  ASSERT_EQ(order.size(), 1u);
  EXPECT_EQ(order[0].type, "a");
  const auto report = f.core->report(f.now);
  EXPECT_EQ(report.types[1].closed, "capacity (sold out)");
  EXPECT_EQ(report.types[1].closed_for, Duration(30s));
}

TEST(FleetCore, CapacityBackoffDoublesToItsMaximum) {
  TypeGate gate;
  const FleetOptions options;
  Time now = Time::from_ns(1);
  for (const auto expected : {30s, 60s, 120s, 240s, 480s, 960s, 1800s, 1800s}) {
    gate.fail(now, {FailureKind::capacity, "x"}, options);
    EXPECT_EQ(*gate.opens_at(now) - now, expected);
    now = now + expected;
    EXPECT_TRUE(gate.is_open(now));
  }
  gate.fail(now, {FailureKind::capacity, "x", Duration(3600s)}, options);
  EXPECT_EQ(*gate.opens_at(now) - now, Duration(3600s));
}

TEST(FleetCore, QuotaWaitsForEndOfAnInstance) {
  TypeGate gate;
  const Time now = Time::from_ns(1);
  gate.fail(now, {FailureKind::quota, "x"}, FleetOptions{});
  EXPECT_EQ(*gate.opens_at(now) - now, Duration(600s));
  gate.release();
  EXPECT_TRUE(gate.is_open(now));
}

TEST(FleetCore, InvalidRequestPausesTypeAtOnce) {
  for (const auto kind : {FailureKind::invalid, FailureKind::auth}) {
    Fixture f;
    f.step(FleetTick{});
    f.list();
    f.want(1);
    const auto order = f.only<LaunchInstances>(f.look_and_plan());
    f.step(LaunchAnswered{"cpu", {{order.at(0).names[0], "", ProviderFailure{kind, "no"}}}});
    EXPECT_TRUE(f.recorded("TYPE_PAUSED"));
    f.now = f.now + 3600s;
    EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  }
}

TEST(FleetCore, RepeatsTransientFailureWithSameName) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(1);
  const auto order = f.only<LaunchInstances>(f.look_and_plan());
  const auto name = order.at(0).names.at(0);
  f.step(LaunchAnswered{"cpu", {{name, "", ProviderFailure{FailureKind::transient, "hang"}}}});
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  EXPECT_EQ(*f.core->next_deadline() - f.now, Duration(2s));
  f.now = f.now + 2s;
  const auto again = f.only<LaunchInstances>(f.step(FleetTick{}));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].names, std::vector<std::string>{name});
}

TEST(FleetCore, TypeStaysClosed_FailedLaunchIsDropped) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(2);
  const auto names = f.only<LaunchInstances>(f.look_and_plan()).at(0).names;
  f.step(LaunchAnswered{"cpu",
                        {{names[0], "", ProviderFailure{FailureKind::transient, "hang"}},
                         {names[1], "", ProviderFailure{FailureKind::quota, "full"}}}});
  f.cluster.slots.clear();  // the demand ends while the quota is used up
  f.now = f.now + 29s;
  EXPECT_TRUE(f.only<EndInstances>(f.look_and_plan()).empty());
  f.now = f.now + 1s;
  const auto end = f.only<EndInstances>(f.step(FleetTick{}));  // it may exist
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0].instances.at(0).name, names[0]);
  f.list();  // the answer to a list from before the end
  f.step(EndAnswered{{{names[0]}}});
  f.list_twice();
  EXPECT_FALSE(f.core->has_instances());
  f.now = f.now + f.options.quota_backoff;
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
}

TEST(FleetCore, FirstListLacksInstance_LaunchesNothing) {
  Fixture f({type_of("cpu", 4, 1)});
  f.step(FleetTick{});
  f.want(1);
  f.step(Listed{{}, true});  // lacks an instance of an earlier run
  EXPECT_TRUE(f.only<MakePlan>(f.look_and_plan()).empty());
  EXPECT_EQ(*f.core->next_deadline(), f.now + 2s);
  f.step(Listed{{f.row("mobula-c-1")}, true});
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  EXPECT_EQ(f.count(InstanceState::starting), 1);
}

TEST(FleetCore, EndsInstanceWhoseAgentIsDead) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  f.cluster.nodes.clear();
  EXPECT_TRUE(f.only<EndInstances>(f.look_and_plan()).empty());
  f.now = f.now + 29s;
  EXPECT_TRUE(f.only<EndInstances>(f.look_and_plan()).empty());
  f.now = f.now + 2s;
  EXPECT_TRUE(f.only<EndInstances>(f.step(FleetTick{})).empty());  // no look since then
  EXPECT_EQ(f.only<EndInstances>(f.look_and_plan()).size(), 1u);
}

TEST(FleetCore, EndsNothingWhileHeadRecovers) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  f.cluster.nodes.clear();
  f.recovering = true;
  for (int i = 0; i < 10; ++i) {
    f.now = f.now + 30s;
    EXPECT_TRUE(f.only<EndInstances>(f.look_and_plan()).empty());
  }
  f.recovering = false;
  f.join(name);
  f.look_and_plan();
  EXPECT_EQ(f.count(InstanceState::joined), 1);
}

TEST(FleetCore, EndsNothingAfterIncompleteList) {
  Fixture f;
  const auto name = f.joined();
  f.list({}, false);
  f.cluster.nodes.clear();
  for (int i = 0; i < 3; ++i) {
    f.now = f.now + 31s;
    EXPECT_TRUE(f.only<EndInstances>(f.look_and_plan()).empty());
  }
  EXPECT_EQ(f.only<EndInstances>(f.step(Listed{{f.row(name)}, true})).size(), 1u);
}

TEST(FleetCore, ListWithoutUsedInstanceKeepsIt) {
  Fixture f;
  const auto name = f.joined();
  for (int i = 0; i < 4; ++i) {
    f.now = f.now + 61s;
    f.step(FleetTick{});
    f.list();
    f.look_and_plan();
  }
  EXPECT_EQ(f.count(InstanceState::joined), 1);
}

TEST(FleetCore, OldNodesOfEndingInstanceCountForMaximum) {
  Fixture f({type_of("cpu", 4, 1)});
  const auto name = f.joined();
  f.list({f.row(name)});
  auto& node = f.cluster.nodes[0];
  node.idle = 61s;
  f.look_and_plan();
  node.draining = true;
  node.phase = NodePhase::leaving;
  f.look_and_plan();
  ASSERT_EQ(f.only<EndInstances>(f.step(Drained{node.id, 0})).size(), 1u);
  f.cluster.nodes.clear();
  f.want(1);
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  f.step(EndAnswered{{{name}}});
  f.list_twice();
  EXPECT_EQ(f.only<LaunchInstances>(f.look_and_plan()).size(), 1u);
}

TEST(FleetCore, ListLacksEndingInstanceOnce_StillCounts) {
  Fixture f({type_of("cpu", 4, 1)});
  const auto name = f.joined();
  f.list({f.row(name)});
  f.cluster.nodes.clear();  // its agent is dead
  f.look_and_plan();
  f.now = f.now + 31s;
  ASSERT_EQ(f.only<EndInstances>(f.look_and_plan()).size(), 1u);
  f.step(EndAnswered{{{name}}});
  f.want(1);
  for (const auto& rows : {std::vector<InstanceRow>(), {f.row(name, ProviderState::ending)}}) {
    f.now = f.now + 11s;
    f.step(FleetTick{});
    f.list(rows);
    EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  }
  f.list_twice();
  EXPECT_EQ(f.only<LaunchInstances>(f.look_and_plan()).size(), 1u);
}

TEST(FleetCore, ReplacesNodeBeforeItsWallTime) {
  Fixture f;
  const auto name = f.joined();
  auto row = f.row(name);
  row.ends_in = Duration(3600s);
  f.list({row});
  auto& node = f.cluster.nodes[0];
  node.idle.reset();
  node.task_slots = 1;
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  f.now = f.now + (3600s - 719s);
  EXPECT_EQ(f.only<LaunchInstances>(f.look_and_plan()).size(), 1u);
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
  f.now = f.now + 600s;
  const auto drain = f.only<DrainNode>(f.step(FleetTick{}));
  ASSERT_EQ(drain.size(), 1u);
  EXPECT_LE(drain[0].timeout, Duration(120s));
}

TEST(FleetCore, Restarted_FindsReplacementOfExpiringNode) {
  Fixture f;
  const auto name = f.joined();
  f.cluster.nodes[0].idle.reset();
  f.cluster.nodes[0].task_slots = 1;
  auto row = f.row(name);
  row.ends_in = Duration(700s);
  f.list({row});
  const auto order = f.only<LaunchInstances>(f.look_and_plan());
  ASSERT_EQ(order.size(), 1u);
  const auto replacement = order[0].names.at(0);
  f.restart();
  f.step(FleetTick{});
  f.list({row, f.row(replacement, ProviderState::starting)});
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty()) << "it starts";
  f.restart();
  f.join(replacement);
  f.step(FleetTick{});
  f.list({row, f.row(replacement)});
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty()) << "it has joined";
}

TEST(FleetCore, AdoptsDrainOfOperatorAndGivesNodeBack) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  auto& node = f.cluster.nodes[0];
  node.draining = true;
  node.phase = NodePhase::leaving;
  EXPECT_EQ(f.only<CountObjects>(f.look_and_plan()).size(), 1u);
  f.want(1);
  EXPECT_TRUE(f.only<UndrainNode>(f.look_and_plan()).empty());
  EXPECT_EQ(f.only<EndInstances>(f.step(Drained{node.id, 0})).size(), 1u);
}

TEST(FleetCore, LimitsLaunchesThatWaitAtProvider) {
  Fixture f;
  f.options.max_pending = 2;
  f.restart();
  f.step(FleetTick{});
  f.list();
  f.want(5);
  EXPECT_EQ(f.only<LaunchInstances>(f.look_and_plan()).at(0).names.size(), 2u);
  EXPECT_TRUE(f.only<LaunchInstances>(f.look_and_plan()).empty());
}

TEST(FleetCore, ReportsRequestThatNoTypeServes) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(1, 64);
  f.look_and_plan();
  const auto report = f.core->report(f.now);
  ASSERT_EQ(report.waits.size(), 1u);
  EXPECT_TRUE(report.waits[0].never);
  EXPECT_NE(report.waits[0].why.find("no node type holds it; cpu:"), std::string::npos)
      << report.waits[0].why;
}

TEST(FleetCore, InstanceNameHasNumberOfItsCluster) {
  EXPECT_EQ(instance_number("c", instance_name("c", 42)), 42u);
  for (const char* other : {"mobula-c-", "mobula-c-4x", "mobula-d-4", "mobula-c4", ""}) {
    EXPECT_FALSE(instance_number("c", other)) << other;
  }
}

}  // namespace
}  // namespace mobula::internal::fleet
