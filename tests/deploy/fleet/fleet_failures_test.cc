// Tests reactions of FleetCore to failed launches and starts, and to lists that lack instances.
#include "deploy/fleet/core/type_shortfall.h"
#include "deploy/fleet/fleet_fixture.h"

namespace mobula::internal::fleet {
namespace {

TEST(FleetCore, ThreeFailedStartsPauseType) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(f.recorded("TYPE_PAUSED"));
    const auto order = f.only<LaunchInstances>(f.snapshot_and_plan());
    ASSERT_EQ(order.size(), 1u);
    f.step(LaunchAnswered{"cpu", {{order[0].names[0], "r"}}});
    f.list({f.row(order[0].names[0], ProviderState::failed)});
  }
  EXPECT_TRUE(f.recorded("TYPE_PAUSED"));
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
  f.step(ResumeType{"cpu"});
  EXPECT_EQ(f.only<LaunchInstances>(f.snapshot_and_plan()).size(), 1u);
}

// The provider would charge for the dead instance until the end of the launch timeout.
TEST(FleetCore, AgentDiesBetweenSnapshots_InstanceEnds) {
  Fixture f;
  const auto name = f.launched();
  f.dead = {name, "mobula-c-0"};
  std::string text;
  for (const auto& event : f.only<RecordEvent>(f.snapshot_and_plan())) text += event.text + '\n';
  EXPECT_EQ(text, "instance " + name + " of type cpu joined, and its agent died at once\n");
  f.snapshot_and_plan();
  f.list({f.row(name)});
  f.now = f.now + f.options.absent_timeout;
  const auto ends = f.only<EndInstances>(f.snapshot_and_plan());
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].instances[0].name, name);
  EXPECT_EQ(f.kinds, (std::vector<std::string>{"NODE_LAUNCHED", "LAUNCH_FAILED"}));
}

TEST(FleetCore, ThreeShortLivesPauseType) {
  Fixture f;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(f.recorded("TYPE_PAUSED"));
    const auto name = i == 0 ? f.launched() : [&] {
      const auto order = f.only<LaunchInstances>(f.snapshot_and_plan());
      EXPECT_EQ(order.size(), 1u);
      f.step(LaunchAnswered{"cpu", {{order.at(0).names.at(0), "r"}}});
      return order.at(0).names.at(0);
    }();
    f.dead.push_back(name);
    f.snapshot_and_plan();
    f.list({f.row(name, ProviderState::gone)});
  }
  EXPECT_TRUE(f.recorded("TYPE_PAUSED"));
  const auto closed = f.core->report(f.now).types.at(0).closed;
  EXPECT_NE(closed.find("3 starts in a row brought no node that lived"), std::string::npos)
      << closed;
}

TEST(FleetCore, AdoptedInstanceIsDead_TypeStaysOpen) {
  Fixture f;
  f.step(FleetTick{});
  f.list({f.row("mobula-c-7"), f.row("mobula-c-8"), f.row("mobula-c-9")});
  f.dead = {"mobula-c-7", "mobula-c-8", "mobula-c-9"};
  f.snapshot_and_plan();
  EXPECT_TRUE(f.kinds.empty()) << "they may have lived for long";
  EXPECT_EQ(f.count(InstanceState::joined), 3);
}

TEST(FleetCore, DeadNameHasNode_NodeCounts) {
  Fixture f;
  const auto name = f.launched();
  f.dead = {name};
  f.snapshot_and_plan();
  f.join(name);
  f.snapshot_and_plan();
  f.now = f.now + f.options.absent_timeout;
  EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty()) << "a new agent has joined";
}

// Without the pause, the demand would launch nodes that cannot serve it forever.
TEST(FleetCore, NodeLacksItsResources_TypePauses) {
  Fixture f;
  const auto name = f.launched();
  f.join(name).shape.resources = {amount("CPU", 2)};
  f.snapshot_and_plan();
  EXPECT_TRUE(f.recorded("TYPE_PAUSED"));
  const auto type = f.core->report(f.now).types.at(0);
  EXPECT_NE(type.closed.find("joined with CPU: 2 instead of 4"), std::string::npos) << type.closed;
  f.want(5);
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
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
  auto order = f.only<LaunchInstances>(f.snapshot_and_plan());
  ASSERT_EQ(order.at(0).type, "b");
  f.step(LaunchAnswered{
      "b", {{order[0].names[0], "", ProviderFailure{FailureKind::capacity, "sold out"}}}});
  order = f.only<LaunchInstances>(f.snapshot_and_plan());
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
    const auto order = f.only<LaunchInstances>(f.snapshot_and_plan());
    f.step(LaunchAnswered{"cpu", {{order.at(0).names[0], "", ProviderFailure{kind, "no"}}}});
    EXPECT_TRUE(f.recorded("TYPE_PAUSED"));
    f.now = f.now + 3600s;
    EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
  }
}

TEST(FleetCore, RepeatsTransientFailureWithSameName) {
  Fixture f;
  f.step(FleetTick{});
  f.list();
  f.want(1);
  const auto order = f.only<LaunchInstances>(f.snapshot_and_plan());
  const auto name = order.at(0).names.at(0);
  f.step(LaunchAnswered{"cpu", {{name, "", ProviderFailure{FailureKind::transient, "hang"}}}});
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
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
  const auto names = f.only<LaunchInstances>(f.snapshot_and_plan()).at(0).names;
  f.step(LaunchAnswered{"cpu",
                        {{names[0], "", ProviderFailure{FailureKind::transient, "hang"}},
                         {names[1], "", ProviderFailure{FailureKind::quota, "full"}}}});
  f.cluster.slots.clear();  // the demand ends while the quota is used up
  f.now = f.now + 29s;
  EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
  f.now = f.now + 1s;
  const auto end = f.only<EndInstances>(f.step(FleetTick{}));  // it may exist
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0].instances.at(0).name, names[0]);
  f.list();  // the answer to a list from before the end
  f.step(EndAnswered{{{names[0]}}});
  f.list_twice();
  EXPECT_FALSE(f.core->has_instances());
  f.now = f.now + f.options.quota_backoff;
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
}

TEST(FleetCore, FirstListLacksInstance_LaunchesNothing) {
  Fixture f({type_of("cpu", 4, 1)});
  f.step(FleetTick{});
  f.want(1);
  f.step(Listed{{}, true});  // lacks an instance of an earlier run
  EXPECT_TRUE(f.only<MakePlan>(f.snapshot_and_plan()).empty());
  EXPECT_EQ(*f.core->next_deadline(), f.now + 2s);
  f.step(Listed{{f.row("mobula-c-1")}, true});
  EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
  EXPECT_EQ(f.count(InstanceState::starting), 1);
}

TEST(FleetCore, EndsNothingAfterIncompleteList) {
  Fixture f;
  const auto name = f.joined();
  f.list({}, false);
  f.cluster.nodes.clear();
  for (int i = 0; i < 3; ++i) {
    f.now = f.now + 31s;
    EXPECT_TRUE(f.only<EndInstances>(f.snapshot_and_plan()).empty());
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
    f.snapshot_and_plan();
  }
  EXPECT_EQ(f.count(InstanceState::joined), 1);
}

TEST(FleetCore, ListLacksEndingInstanceOnce_StillCounts) {
  Fixture f({type_of("cpu", 4, 1)});
  const auto name = f.joined();
  f.list({f.row(name)});
  f.cluster.nodes.clear();  // its agent is dead
  f.snapshot_and_plan();
  f.now = f.now + 31s;
  ASSERT_EQ(f.only<EndInstances>(f.snapshot_and_plan()).size(), 1u);
  f.step(EndAnswered{{{name}}});
  f.want(1);
  for (const auto& rows : {std::vector<InstanceRow>(), {f.row(name, ProviderState::ending)}}) {
    f.now = f.now + 11s;
    f.step(FleetTick{});
    f.list(rows);
    EXPECT_TRUE(f.only<LaunchInstances>(f.snapshot_and_plan()).empty());
  }
  f.list_twice();
  EXPECT_EQ(f.only<LaunchInstances>(f.snapshot_and_plan()).size(), 1u);
}

}  // namespace
}  // namespace mobula::internal::fleet
