// Launches and terminations of the planner, by situation.
#include "scheduler/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/planner/draw.h"

namespace mobula::internal::planner {
namespace {

using scheduler::cpus;
using scheduler::gpus;
using scheduler::node_with;
using scheduler::request;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class PlannerTest : public ::testing::Test {
 protected:
  std::vector<std::pair<std::string, std::int64_t>> launches() {
    made_ = plan(state_, types_, limits_);
    std::vector<std::pair<std::string, std::int64_t>> all;
    for (const auto& each : made_.launch) all.emplace_back(each.type, each.count());
    return all;
  }
  ClusterNode& add(const NodeType& type) {
    state_.nodes.push_back(cluster_node(state_.nodes.size() + 1, type));
    return state_.nodes.back();
  }
  void occupy(ClusterNode& node, const Request& requested) {
    scheduler::InstanceLedger accounting(node.shape, 1000);
    node.held = accounting.book(scheduler::Need(requested, scheduler::Tenant::actor)).value();
    node.actor_slots = 1;
    node.idle.reset();
  }
  void want(const Request& requested, std::int64_t count) {
    state_.slots.push_back(wanted(100 + state_.slots.size(), requested, count));
  }
  void want_group(GroupStrategy strategy, std::vector<Request> bundles) {
    state_.groups.push_back(wanted_group(200 + state_.groups.size(), strategy, std::move(bundles)));
  }

  const NodeType cpu_ = node_type("cpu", node_with(16, 0), 10);
  const NodeType gpu_ = node_type("gpu", node_with(8, 4), 4);
  std::vector<NodeType> types_{cpu_, gpu_};
  ClusterState state_;
  Limits limits_;
  Plan made_;
};

TEST_F(PlannerTest, NoDemand_DoesNothing) {
  EXPECT_THAT(launches(), IsEmpty());
  EXPECT_THAT(made_.terminate, IsEmpty());
}

TEST_F(PlannerTest, LaunchesAsManyNodesAsSlotsNeed) {
  want(cpus(1), 20);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 2)));
  EXPECT_EQ(made_.launch.front().for_slots, 2);
}

// 4,000 tasks of 10 ms take 10 s on the four slots that the class holds.
TEST_F(PlannerTest, LaunchesNothingForShortBacklog) {
  limits_.max_workers = 50;
  occupy(add(node_type("other", node_with(4, 0), 1)), cpus(4));
  want(cpus(1), 4000);
  state_.slots[0].mean_run = 10ms;
  state_.slots[0].held = 4;
  EXPECT_THAT(launches(), IsEmpty());
  EXPECT_THAT(made_.waiting, IsEmpty());
  state_.slots[0].count = 800;  // 2 s before the end
  EXPECT_THAT(launches(), IsEmpty());
  state_.slots[0].count = 80'000;  // 27 slots drain it within 30 s
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 2)));
}

TEST_F(PlannerTest, LaunchesNothingBeyondQuota) {
  occupy(add(cpu_), cpus(16));
  want(cpus(1), 40);
  state_.slots[0].allowed = 0;
  EXPECT_THAT(launches(), IsEmpty());
  ASSERT_EQ(made_.waiting.size(), 1u);
  EXPECT_EQ(made_.waiting[0].count, 40);
  EXPECT_THAT(made_.waiting[0].why, HasSubstr("quota"));
  state_.slots[0].allowed = 17;
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 2)));
}

TEST_F(PlannerTest, InfeasibleWork_IsNamedDespiteQuota) {
  want(gpus(64), 7);
  state_.slots[0].allowed = 0;
  EXPECT_THAT(launches(), IsEmpty());
  ASSERT_EQ(made_.infeasible.size(), 1u);
  EXPECT_EQ(made_.infeasible[0].count, 7);
  EXPECT_THAT(made_.waiting, IsEmpty());
}

TEST_F(PlannerTest, CountsUnknownRunTimeAsOneSecond) {
  want(cpus(16), 60);
  state_.slots[0].mean_run.reset();
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 2)));
  state_.slots[0].count = 1;
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 1))) << "a class without a slot gets one";
  state_.slots[0].held = 1;
  EXPECT_THAT(launches(), IsEmpty()) << "its slot serves the task within the target";
}

// Six tasks wait behind four long ones that follow short ones of their class.
TEST_F(PlannerTest, StalledClass_GetsMoreSlots) {
  want(cpus(16), 6);
  state_.slots[0].mean_run = 10ms;
  state_.slots[0].held = 4;
  state_.slots[0].stalled = 10s;
  EXPECT_THAT(launches(), IsEmpty());
  state_.slots[0].stalled = 60s;
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 5)));
}

TEST_F(PlannerTest, Actors_NeedOneSlotEach) {
  want(cpus(16), 4);
  state_.slots[0].mean_run.reset();
  state_.slots[0].tenant = scheduler::Tenant::actor;
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 4)));
  state_.slots[0].tenant = scheduler::Tenant::task;
  state_.slots[0].mean_run = 1ms;
  limits_.target_wait = Duration(0);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 4))) << "without a target, each task counts";
}

// By their sum, three times 0.6 would fit two devices; devices are not split.
TEST_F(PlannerTest, SplitsNoFractionsOverDevices) {
  types_ = {node_type("two", node_with(8, 2), 9)};
  want(gpus(0.6), 3);
  EXPECT_THAT(launches(), ElementsAre(Pair("two", 2)));
}

TEST_F(PlannerTest, UsesRunningAndLaunchingNodesFirst) {
  occupy(add(cpu_), cpus(12));
  add(cpu_).phase = NodePhase::launching;
  want(cpus(1), 20);
  EXPECT_THAT(launches(), IsEmpty());
  want(cpus(1), 1);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 1)));
}

TEST_F(PlannerTest, LeavingNodes_CountButServeNothing) {
  types_ = {node_type("cpu", node_with(16, 0), 2)};
  add(types_[0]).phase = NodePhase::leaving;
  want(cpus(16), 2);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 1)));
  ASSERT_EQ(made_.waiting.size(), 1u);
  EXPECT_EQ(made_.waiting[0].count, 1);
  EXPECT_THAT(made_.waiting[0].why, HasSubstr("cpu has its maximum of 2"));
}

TEST_F(PlannerTest, UsesGpuNodesForCpuWorkLast) {
  types_ = {node_type("cpu", node_with(16, 0), 1), gpu_};
  want(cpus(1), 18);
  EXPECT_THAT(launches(), UnorderedElementsAre(Pair("cpu", 1), Pair("gpu", 1)));
}

TEST_F(PlannerTest, ReachesMinimaWithoutDemand) {
  types_[0].min_workers = 3;
  add(cpu_);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 2)));
  EXPECT_EQ(made_.launch.front().for_minimum, 2);
  limits_.max_workers = 2;
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 1)));
}

TEST_F(PlannerTest, Minima_ServeDemand) {
  types_[0].min_workers = 2;
  want(cpus(1), 30);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 2)));
}

TEST_F(PlannerTest, StandingRequests_IgnoreRunningWork) {
  occupy(add(cpu_), cpus(16));
  state_.standing.push_back({cpus(4), 4});
  EXPECT_THAT(launches(), IsEmpty()) << "the busy node would hold it";
  state_.standing.push_back({cpus(4), 1});
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 1)));
  EXPECT_EQ(made_.launch.front().for_standing, 1);
  want(cpus(16), 1);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 1))) << "which serves demand as well";
}

TEST_F(PlannerTest, LimitsLaunchesForSlotsPerPlan) {
  types_[0].max_workers = 100;
  want(cpus(16), 50);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 5)));
  EXPECT_EQ(made_.launch.front().later, 45);
  for (int i = 0; i < 20; ++i) occupy(add(cpu_), cpus(16));
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 20)));
  limits_.upscaling_milli = 500;
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 10)));
  for (int i = 0; i < 4; ++i) add(cpu_).phase = NodePhase::launching;
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 6)));
  EXPECT_EQ(made_.launch.front().later, 40);
}

TEST_F(PlannerTest, GroupAndMinimumLaunches_AreUnlimited) {
  types_[0].max_workers = 100;
  types_[0].min_workers = 7;
  want_group(GroupStrategy::strict_spread, std::vector<Request>(12, cpus(16)));
  want(cpus(16), 3);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 12)));
  EXPECT_EQ(made_.launch.front().for_minimum, 7);
  EXPECT_EQ(made_.launch.front().for_groups, 5);
  EXPECT_EQ(made_.launch.front().later, 3);
}

TEST_F(PlannerTest, StrictPack_GetsOneNodeForAllBundles) {
  types_ = {node_type("four", node_with(4, 0), 9), node_type("eight", node_with(8, 0), 9)};
  want_group(GroupStrategy::strict_pack, {cpus(3), cpus(3)});
  EXPECT_THAT(launches(), ElementsAre(Pair("eight", 1)));
  want_group(GroupStrategy::strict_pack, {cpus(5), cpus(5)});
  EXPECT_THAT(launches(), ElementsAre(Pair("eight", 1)));
  ASSERT_EQ(made_.infeasible.size(), 1u);
  EXPECT_THAT(made_.infeasible[0].why, HasSubstr("no node type holds all its bundles together"));
}

TEST_F(PlannerTest, StrictSpread_ReusesSuitableNodes) {
  add(cpu_);
  want_group(GroupStrategy::strict_spread, {cpus(1), cpus(1), cpus(1)});
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 2)));
}

TEST_F(PlannerTest, PackedBundles_ShareNodes) {
  want_group(GroupStrategy::pack, {cpus(8), cpus(8), cpus(8)});
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 2)));
  state_.groups.front().spec.strategy = GroupStrategy::spread;
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 2)));
}

TEST_F(PlannerTest, LaunchesNothingForPartOfGroup) {
  types_ = {node_type("cpu", node_with(16, 0), 2)};
  want_group(GroupStrategy::strict_spread, std::vector<Request>(3, cpus(1)));
  EXPECT_THAT(launches(), IsEmpty());
  ASSERT_EQ(made_.waiting.size(), 1u);
  EXPECT_THAT(made_.waiting[0].why, HasSubstr("maxima"));
}

TEST_F(PlannerTest, BundleLost_GetsOneNode) {
  auto& node = add(cpu_);
  node.idle.reset();
  want_group(GroupStrategy::strict_spread, {cpus(4), cpus(4)});
  BundleLocation kept;
  kept.node = node.id;
  kept.allocation.resources = {{"CPU", {{0, Quantity::whole(4), 0}}}};
  state_.groups.front().locations = {kept, {}};
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 1)));
  state_.groups.front().spec.strategy = GroupStrategy::strict_pack;
  EXPECT_THAT(launches(), IsEmpty()) << "the node of the placed bundle has capacity";
  occupy(node, cpus(12));
  EXPECT_THAT(launches(), IsEmpty()) << "no other node would do";
  ASSERT_EQ(made_.waiting.size(), 1u);
}

TEST_F(PlannerTest, NoTypeFits_IsInfeasibleWithReasonPerType) {
  want(gpus(5), 2);
  auto labelled = cpus(1);
  labelled.label_selector["zone"] = "a";
  want(labelled, 1);
  EXPECT_THAT(launches(), IsEmpty());
  ASSERT_EQ(made_.infeasible.size(), 2u);
  EXPECT_THAT(made_.infeasible[0].why, HasSubstr("gpu: GPU: needs 5"));
  EXPECT_THAT(made_.infeasible[1].why, HasSubstr("cpu: its label zone is not a"));
}

TEST_F(PlannerTest, InfeasibleRequest_DoesNotAffectLaunches) {
  want(gpus(5), 1);
  want(cpus(8), 2);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 1)));
}

TEST_F(PlannerTest, OnlyBusyNodeFits_Waits) {
  const auto own = node_type("", node_with(64, 0), 0);
  occupy(add(own), cpus(64));
  want(cpus(32), 1);
  EXPECT_THAT(launches(), IsEmpty());
  EXPECT_THAT(made_.infeasible, IsEmpty());
  ASSERT_EQ(made_.waiting.size(), 1u);
  EXPECT_THAT(made_.waiting[0].why, HasSubstr("when running work has ended"));
}

TEST_F(PlannerTest, SlotsInGroup_RequireNoNodes) {
  auto inside = cpus(1);
  inside.placement.group = GroupId::of(1);
  want(inside, 50);
  EXPECT_THAT(launches(), IsEmpty());
  EXPECT_THAT(made_.waiting, IsEmpty());
}

TEST_F(PlannerTest, CountsExecutorLimits) {
  types_ = {cpu_};
  types_[0].shape.task_executors = 10;
  want(cpus(0), 25);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 3)));
}

TEST_F(PlannerTest, IgnoresNodeThatCannotStartProgram) {
  add(cpu_).cannot_start = {ProgramId::of(1)};
  want(cpus(1), 1);
  EXPECT_THAT(launches(), ElementsAre(Pair("cpu", 1)));
}

TEST_F(PlannerTest, TerminatesLongestIdleDownToMinimum) {
  types_[0].min_workers = 1;
  add(cpu_).idle = 400s;
  add(cpu_).idle = 500s;
  add(cpu_).idle = 299s;
  EXPECT_THAT(launches(), IsEmpty());
  ASSERT_EQ(made_.terminate.size(), 2u);
  EXPECT_EQ(made_.terminate[0].node, NodeId::of(2));
  types_[0].min_workers = 2;
  launches();
  EXPECT_EQ(made_.terminate.size(), 1u);
}

TEST_F(PlannerTest, KeepsNodesThatAreNeeded) {
  for (int i = 0; i < 5; ++i) add(cpu_).idle = 3600s;
  state_.nodes[0].has_objects = true;
  state_.nodes[1].beside_head = true;
  state_.nodes[2].type = "by hand";
  occupy(state_.nodes[3], cpus(1));
  launches();
  ASSERT_EQ(made_.terminate.size(), 1u);
  EXPECT_EQ(made_.terminate[0].node, NodeId::of(5));
  want(cpus(16), 4);
  launches();
  EXPECT_THAT(made_.terminate, IsEmpty()) << "waiting demands use the node";
  state_.slots.clear();
  state_.standing.push_back({cpus(16), 5});
  launches();
  EXPECT_THAT(made_.terminate, IsEmpty()) << "it stands for a standing request";
}

}  // namespace
}  // namespace mobula::internal::planner
