#include "deploy/fleet/core/fleet_core.h"

#include "deploy/fleet/fleet_document.h"
#include "deploy/fleet/fleet_fixture.h"

namespace mobula::internal::fleet {
namespace {

TEST(FleetCore, LaunchesOnceForOneDemand) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(3);
  const auto order = f.only<LaunchInstances>(f.snapshot_and_plan());
  ASSERT_EQ(order.size(), 1u);
  EXPECT_EQ(order[0].names, (std::vector<std::string>{"mobula-c-1", "mobula-c-2", "mobula-c-3"}));
  f.now = f.now + 1s;
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
  f.step(LaunchAnswered{"cpu", {{"mobula-c-1", "a"}, {"mobula-c-2", "b"}, {"mobula-c-3", "c"}}});
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
  EXPECT_TRUE(f.recorded("NODE_LAUNCHED"));
  const auto report = f.core->report(f.now);
  ASSERT_FALSE(report.waits.empty());
  EXPECT_EQ(report.waits[0].starting, "cpu");
}

TEST(FleetCore, PlansNothingBeforeFirstWholeList) {
  Fixture f;
  f.want(1);
  EXPECT_TRUE(f.only<MakePlan>(f.snapshot_and_plan()).empty());
  f.list({}, false);
  EXPECT_TRUE(f.only<MakePlan>(f.snapshot_and_plan()).empty());
  f.recovering = true;
  EXPECT_TRUE(f.only<MakePlan>(f.snapshot_and_plan()).empty());
  f.list();
  EXPECT_TRUE(f.only<MakePlan>(f.snapshot_and_plan()).empty());
  f.recovering = false;
  EXPECT_EQ(f.only<LaunchInstances>(f.snapshot_and_plan()).size(), 1u);
}

TEST(FleetCore, AtRest_ListsOncePerMinute) {
  Fixture f;
  const auto name = f.joined();
  f.cluster.nodes[0].idle.reset();  // it works
  f.snapshot_and_plan();
  f.list({Fixture::row(name)});
  int lists = 0;
  const Time end = f.now + std::chrono::hours(1);
  for (auto next = f.core->next_deadline(); next && *next <= end; next = f.core->next_deadline()) {
    f.now = *next;
    for (const auto& each : f.step(FleetTick{})) {
      ASSERT_TRUE(std::holds_alternative<ListInstances>(each));
      ++lists;
      EXPECT_TRUE(f.step(Listed{{Fixture::row(name)}, true}).empty());
    }
  }
  EXPECT_EQ(lists, 60);
}

TEST(FleetCore, StaysWithinMaximum) {
  Fixture f({type_of("cpu", 4, 2)});
  f.step(FleetTick{});
  f.list();
  f.want(9);
  EXPECT_EQ(f.only<LaunchInstances>(f.snapshot_and_plan()).at(0).names.size(), 2u);
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
}

TEST(FleetCore, AdoptionMakesRunningPlanStale) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(1);
  const auto plan = f.only<MakePlan>(f.step(SnapshotReceived{f.cluster, false}));
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
  const auto order = f.only<LaunchInstances>(f.snapshot_and_plan());
  ASSERT_EQ(order.size(), 1u);
  EXPECT_EQ(order[0].names, std::vector<std::string>{"mobula-c-8"});
}

TEST(FleetCore, DrainsBeforeItEndsIdleNode) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  f.cluster.nodes[0].idle = 61s;
  const auto drain = f.only<DrainNode>(f.snapshot_and_plan());
  ASSERT_EQ(drain.size(), 1u);
  EXPECT_EQ(drain[0].timeout, 120s);
  EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
  f.cluster.nodes[0].draining = true;
  f.cluster.nodes[0].phase = NodePhase::leaving;
  f.cluster.nodes[0].task_slots = 1;
  EXPECT_TRUE(f.only<CountObjects>(f.snapshot_and_plan()).empty());
  f.cluster.nodes[0].task_slots = 0;
  EXPECT_EQ(f.only<CountObjects>(f.snapshot_and_plan()).size(), 1u);
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
  ASSERT_EQ(f.only<DrainNode>(f.snapshot_and_plan()).size(), 1u);
  node.draining = true;
  node.phase = NodePhase::leaving;
  f.want(1);
  const auto out = f.snapshot_and_plan();
  EXPECT_EQ(f.only<UndrainNode>(out).size(), 1u);
  EXPECT_TRUE(f.only<LaunchInstances>(out).empty());
  EXPECT_EQ(f.count(InstanceState::joined), 1);
}

// The snapshot was taken before the head carried out the undrain.
TEST(FleetCore, SnapshotOlderThanUndrain_NodeStillCounts) {
  Fixture f;
  const auto name = f.joined();
  f.cluster.nodes[0].idle = Duration(61s);
  ASSERT_EQ(f.only<DrainNode>(f.snapshot_and_plan()).size(), 1u);
  f.cluster.nodes[0].draining = true;
  f.cluster.nodes[0].phase = NodePhase::leaving;
  f.want(1);
  const auto out = f.snapshot_and_plan();
  ASSERT_EQ(f.only<UndrainNode>(out).size(), 1u);
  EXPECT_TRUE(f.only<LaunchInstances>(out).empty());
  f.now = f.now + 1s;
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty())
      << "the node still drains there";
  EXPECT_EQ(f.count(InstanceState::joined), 1);
}

TEST(FleetCore, ObjectsThatCannotLeaveKeepNode) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  auto& node = f.cluster.nodes[0];
  node.idle = 61s;
  f.snapshot_and_plan();
  node.draining = true;
  node.phase = NodePhase::leaving;
  f.snapshot_and_plan();
  f.step(Drained{node.id, 1});
  f.now = f.now + 131s;
  const auto out = f.snapshot_and_plan();
  EXPECT_EQ(f.only<UndrainNode>(out).size(), 1u);
  EXPECT_TRUE(f.only<EndInstances>(out).empty());
}

TEST(FleetCore, EndsInstanceThatNeverJoins) {
  Fixture f;
  const auto name = f.launched();
  f.cluster.slots.clear();
  f.list({f.row(name)});
  f.now = f.now + 599s;
  EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
  f.now = f.now + 2s;
  const auto late = f.step(FleetTick{});
  EXPECT_EQ(f.only<RevokeTicket>(late).size(), 1u);
  EXPECT_TRUE(f.only<EndInstances>(late).empty());  // a running look could show its node
  f.snapshot_and_plan();
  EXPECT_EQ(f.only<EndInstances>(f.snapshot_and_plan()).size(), 1u);
  EXPECT_TRUE(f.recorded("LAUNCH_FAILED"));
}

TEST(FleetCore, PendingInstanceWaitsForCapacity) {
  Fixture f;
  const auto name = f.launched();
  for (int i = 0; i < 5; ++i) {
    f.now = f.now + 300s;
    f.step(FleetTick{});
    f.list({f.row(name, ProviderState::pending)});
    EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
  }
  EXPECT_EQ(f.count(InstanceState::accepted), 1);
}

TEST(FleetCore, EndsInstanceWhoseAgentIsDead) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  f.cluster.nodes.clear();
  EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
  f.now = f.now + 29s;
  EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
  f.now = f.now + 2s;
  EXPECT_TRUE(f.only<EndInstances>(f.step(FleetTick{})).empty());  // no look since then
  EXPECT_EQ(f.only<EndInstances>(f.snapshot_and_plan()).size(), 1u);
}

TEST(FleetCore, EndsNothingWhileHeadRecovers) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  f.cluster.nodes.clear();
  f.recovering = true;
  for (int i = 0; i < 10; ++i) {
    f.now = f.now + 30s;
    EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
  }
  f.recovering = false;
  f.join(name);
  f.snapshot_and_plan();
  EXPECT_EQ(f.count(InstanceState::joined), 1);
}

TEST(FleetCore, ListSaysUsedInstanceFailed_KeepsIt) {
  Fixture f;
  const auto name = f.joined();
  for (const auto state : {ProviderState::failed, ProviderState::gone}) {
    f.now = f.now + 60s;
    const auto out = f.step(Listed{{f.row(name, state)}, true});
    EXPECT_TRUE(f.only<EndInstances>(out).empty());
    EXPECT_EQ(f.count(InstanceState::joined), 1);
  }
  f.cluster.nodes.clear();
  f.snapshot_and_plan();
  f.list({f.row(name, ProviderState::failed)});
  EXPECT_EQ(f.count(InstanceState::joined), 0) << "its node is gone";
}

TEST(FleetCore, NodeJoinsAtItsDeadline_Stays) {
  Fixture f;
  const auto name = f.launched();
  f.now = f.now + f.options.launch_timeout;
  f.step(FleetTick{});
  f.join(name);
  f.cluster.slots.clear();
  for (int i = 0; i < 3; ++i) {
    f.now = f.now + 1s;
    EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
  }
  EXPECT_EQ(f.count(InstanceState::joined), 1);
}

TEST(FleetCore, EndsFailedInstanceWithoutNode) {
  Fixture f;
  const auto name = f.launched();
  f.cluster.slots.clear();
  const auto failed = f.row(name, ProviderState::failed);
  const auto other = f.row("mobula-other-7", ProviderState::failed);
  f.now = f.now + 10s;
  EXPECT_TRUE(f.only<EndInstances>(f.step(Listed{{failed, other}, false})).empty()) << "not whole";
  const auto order = f.only<EndInstances>(f.step(Listed{{failed, other}, true}));
  ASSERT_EQ(order.size(), 1u);
  ASSERT_EQ(order[0].instances.size(), 1u);
  EXPECT_EQ(order[0].instances[0].name, name);
  EXPECT_EQ(order[0].instances[0].ref, failed.ref);
  f.step(EndAnswered{{{name, failed.ref}}});
  EXPECT_FALSE(f.core->has_instances());
  f.join(name);
  f.snapshot_and_plan();
  f.now = f.now + 10s;
  EXPECT_TRUE(f.only<EndInstances>(f.step(Listed{{failed}, true})).empty()) << "its node is up";
}

TEST(FleetCore, OldNodesOfEndingInstanceCountForMaximum) {
  Fixture f({type_of("cpu", 4, 1)});
  const auto name = f.joined();
  f.list({f.row(name)});
  auto& node = f.cluster.nodes[0];
  node.idle = 61s;
  f.snapshot_and_plan();
  node.draining = true;
  node.phase = NodePhase::leaving;
  f.snapshot_and_plan();
  ASSERT_EQ(f.only<EndInstances>(f.step(Drained{node.id, 0})).size(), 1u);
  f.cluster.nodes.clear();
  f.want(1);
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
  f.step(EndAnswered{{{name}}});
  f.list_twice();
  EXPECT_EQ(f.only<LaunchInstances>(f.snapshot_and_plan()).size(), 1u);
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
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
  f.now = f.now + (3600s - 719s);
  EXPECT_EQ(f.only<LaunchInstances>(f.snapshot_and_plan()).size(), 1u);
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
  f.now = f.now + 600s;
  const auto drain = f.only<DrainNode>(f.step(FleetTick{}));
  ASSERT_EQ(drain.size(), 1u);
  EXPECT_LE(drain[0].timeout, Duration(120s));
}

TEST(FleetCore, ClockJump_NodeIsUndrained) {
  Fixture f;
  const auto name = f.joined();
  f.cluster.nodes[0].idle.reset();
  f.cluster.nodes[0].task_slots = 1;
  auto row = f.row(name);
  row.ends_in = Duration(0);
  f.now = f.now + 60s;
  const auto jumped = f.step(Listed{{row}, true});
  ASSERT_EQ(f.only<DrainNode>(jumped).size(), 1u);
  f.cluster.nodes[0].draining = true;
  f.snapshot_and_plan();
  row.ends_in = Duration(3600s);
  f.now = f.now + 10s;
  const auto right = f.step(Listed{{row}, true});
  EXPECT_EQ(f.only<UndrainNode>(right).size(), 1u);
  EXPECT_EQ(f.count(InstanceState::joined), 1);
  f.now = f.now + 1s;
  EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
}

TEST(FleetCore, Restarted_FindsReplacementOfExpiringNode) {
  Fixture f;
  const auto name = f.joined();
  f.cluster.nodes[0].idle.reset();
  f.cluster.nodes[0].task_slots = 1;
  auto row = f.row(name);
  row.ends_in = Duration(700s);
  f.list({row});
  const auto order = f.only<LaunchInstances>(f.snapshot_and_plan());
  ASSERT_EQ(order.size(), 1u);
  const auto replacement = order[0].names.at(0);
  f.restart();
  f.step(FleetTick{});
  f.list({row, f.row(replacement, ProviderState::starting)});
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty()) << "it starts";
  f.restart();
  f.join(replacement);
  f.step(FleetTick{});
  f.list({row, f.row(replacement)});
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty()) << "it has joined";
}

TEST(FleetCore, AdoptsDrainOfOperatorAndGivesNodeBack) {
  Fixture f;
  const auto name = f.joined();
  f.list({f.row(name)});
  auto& node = f.cluster.nodes[0];
  node.draining = true;
  node.phase = NodePhase::leaving;
  EXPECT_EQ(f.only<CountObjects>(f.snapshot_and_plan()).size(), 1u);
  f.want(1);
  EXPECT_TRUE(f.only<UndrainNode>(f.snapshot_and_plan()).empty());
  EXPECT_EQ(f.only<EndInstances>(f.step(Drained{node.id, 0})).size(), 1u);
}

TEST(FleetCore, LimitsLaunchesThatWaitAtProvider) {
  Fixture f;
  f.options.max_pending = 2;
  f.restart();
  f.step(FleetTick{});
  f.list();
  f.want(5);
  EXPECT_EQ(f.only<LaunchInstances>(f.snapshot_and_plan()).at(0).names.size(), 2u);
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
}

TEST(FleetCore, ReportsRequestThatNoTypeServes) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(1, 64);
  f.snapshot_and_plan();
  const auto report = f.core->report(f.now);
  ASSERT_EQ(report.waits.size(), 1u);
  EXPECT_TRUE(report.waits[0].never);
  EXPECT_NE(report.waits[0].why.find("no node type holds it; cpu:"), std::string::npos)
      << report.waits[0].why;
}

TEST(FleetCore, NamesTypesThatLackStartingRequest) {
  auto gpu = type_of("gpu", 4, 2);
  gpu.shape.resources.push_back(amount("GPU", 1));
  gpu.shape.resources.back().instances[0].types = {"H100"};
  auto old = gpu;
  old.name = "old";
  old.shape.resources.back().instances[0].types = {"A100"};
  Fixture f({type_of("cpu", 4, 10), gpu, old});
  f.step(FleetTick{});
  f.list();
  f.want(1, 1);
  f.cluster.slots[0].demand.request.accelerator_type = "H100";
  f.cluster.slots[0].demand.request.resources.set("GPU", Quantity::whole(1));
  const auto order = f.only<LaunchInstances>(f.snapshot_and_plan());
  ASSERT_EQ(order.size(), 1u);
  EXPECT_EQ(order[0].type, "gpu");
  const std::string lacks =
      "; not cpu: GPU: needs 1, the node has none; not old: no H100 here (has A100)";
  const auto reason = [&] { return document_of(f.core->report(f.now), {})["waits"][0]["reason"]; };
  EXPECT_EQ(reason(), "a node of gpu is starting for it, since 0 s" + lacks);
  const ProviderFailure sold_out{FailureKind::capacity, "sold out"};
  f.step(LaunchAnswered{"gpu", {{order[0].names[0], "", sold_out}}});
  f.snapshot_and_plan();
  EXPECT_EQ(reason(), "gpu is closed: capacity (sold out)" + lacks);
}

TEST(FleetCore, InstanceNameHasNumberOfItsCluster) {
  EXPECT_EQ(instance_number("c", instance_name("c", 42)), 42u);
  for (const char* other : {"mobula-c-", "mobula-c-4x", "mobula-d-4", "mobula-c4", ""}) {
    EXPECT_FALSE(instance_number("c", other)) << other;
  }
}

}  // namespace
}  // namespace mobula::internal::fleet
