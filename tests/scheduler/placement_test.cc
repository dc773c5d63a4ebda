// Choice of the node: hybrid policy, locality, spreading, affinity, labels, accelerator nodes,
// programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Request affinity(std::uint64_t node, bool soft, double cpu = 1) {
  auto made = cpus(cpu);
  made.strategy = NodeAffinityStrategy{NodeId::of(node), soft};
  return made;
}

class Placement : public testing::Test {
 protected:
  void add_nodes(int count, double cpu) {
    for (int i = 1; i <= count; ++i) {
      bench.add_node(static_cast<std::uint64_t>(i), node_with(cpu, 0));
    }
  }
  ReasonCode refusal(const Request& request, std::uint64_t node) {
    for (const auto& each : bench.scheduler.explain(request, ProgramId::of(1)).nodes) {
      if (each.node == NodeId::of(node)) return each.reason.code;
    }
    return ReasonCode::fits;
  }
  Bench bench;
};

TEST_F(Placement, Hybrid_PacksUntilHalfUsedThenLevels) {
  add_nodes(2, 4);
  bench.want(1, 1, cpus(1), 8);
  EXPECT_THAT(bench.placed(), ElementsAre(1, 1, 2, 2, 1, 2, 1, 2));
}

TEST_F(Placement, LimitsGrantsPerPlan) {
  constexpr auto most = PlacementSettings().grants_per_plan;
  add_nodes(1, static_cast<double>(2 * most));
  bench.want(1, 1, cpus(1), static_cast<std::int64_t>(most + 1));
  std::uint64_t slots = 0;
  const auto plan = [&] {
    return bench.scheduler.plan(bench.now, [&] { return SlotId::of(++slots); });
  };
  EXPECT_THAT(plan().grants, SizeIs(most));
  EXPECT_LE(bench.scheduler.next_deadline(), bench.now) << "there is more to do";
  EXPECT_THAT(plan().grants, SizeIs(1));
  EXPECT_THAT(plan().grants, IsEmpty());
}

TEST_F(Placement, Locality_PrefersNodeWithMostBytes) {
  add_nodes(3, 1);
  bench.want(1, 1, cpus(1), 3, {{{NodeId::of(2), 10}, {NodeId::of(3), 99}}, {}});
  EXPECT_THAT(bench.placed(), ElementsAre(3, 2, 1));
}

TEST_F(Placement, EqualNodes_PrefersHome) {
  add_nodes(3, 4);
  bench.want(1, 1, cpus(1), 3, {{}, NodeId::of(3)});
  EXPECT_THAT(bench.placed(), ElementsAre(3, 3, 1)) << "home is half used before the third";
}

TEST_F(Placement, Locality_AppliesOnlyToDefaultStrategy) {
  add_nodes(3, 4);
  auto spread = cpus(1);
  spread.strategy = SpreadStrategy();
  bench.want(1, 1, spread, 1, {{{NodeId::of(3), 99}}, {}});
  EXPECT_THAT(bench.placed(), ElementsAre(1));
}

TEST_F(Placement, Spread_UsesNodesInTurn) {
  add_nodes(3, 4);
  auto spread = cpus(1);
  spread.strategy = SpreadStrategy();
  bench.want(1, 1, spread, 6);
  EXPECT_THAT(bench.placed(), ElementsAre(1, 2, 3, 1, 2, 3));
}

TEST_F(Placement, HardAffinity_WaitsForItsNode) {
  add_nodes(2, 1);
  bench.want(1, 1, affinity(2, false), 2);
  EXPECT_THAT(bench.placed(), ElementsAre(2));
  EXPECT_EQ(refusal(affinity(2, false), 1), ReasonCode::other_node_demanded);
  EXPECT_EQ(refusal(affinity(2, false), 2), ReasonCode::resource_busy);
  bench.scheduler.release(bench.granted.at(0).id);
  bench.want(1, 1, affinity(2, false), 1);
  EXPECT_THAT(bench.placed(), ElementsAre(2));
}

TEST_F(Placement, HardAffinityToDeadNode_IsInfeasible) {
  add_nodes(2, 1);
  bench.want(1, 1, affinity(9, false), 1);
  EXPECT_THAT(bench.plan().infeasible, SizeIs(1));
  bench.scheduler.set_node_state(NodeId::of(2), NodeState::dead);
  bench.want(1, 2, affinity(2, false), 1);
  const auto plan = bench.plan();
  EXPECT_THAT(plan.grants, IsEmpty());
  EXPECT_EQ(refusal(affinity(2, false), 2), ReasonCode::node_dead);
  EXPECT_FALSE(bench.scheduler.explain(affinity(2, false), ProgramId::of(1)).feasible);
}

TEST_F(Placement, SoftAffinity_WaitsWhileNodeIsAlive) {
  add_nodes(2, 1);
  bench.want(1, 1, affinity(2, true), 2);
  EXPECT_THAT(bench.placed(), ElementsAre(2)) << "the second waits though node 1 is free";
  bench.scheduler.set_node_state(NodeId::of(2), NodeState::dead);
  EXPECT_THAT(bench.placed(), ElementsAre(1));
}

TEST_F(Placement, SoftAffinity_LeavesNodeThatIsTooSmall) {
  add_nodes(1, 1);
  bench.add_node(2, node_with(4, 0));
  bench.want(1, 1, affinity(1, true, 2), 1);
  EXPECT_THAT(bench.placed(), ElementsAre(2));
}

TEST_F(Placement, SelectsNodesByLabels) {
  auto east = node_with(1, 0);
  east.labels = {{"zone", "east"}};
  auto west = node_with(1, 0);
  west.labels = {{"zone", "west"}};
  bench.add_node(1, east);
  bench.add_node(2, west);
  auto only_west = cpus(1);
  only_west.label_selector = {{"zone", "!in(east,north)"}};
  bench.want(1, 1, only_west, 2);
  EXPECT_THAT(bench.placed(), ElementsAre(2));
  EXPECT_EQ(refusal(only_west, 1), ReasonCode::label_mismatch);
  auto nowhere = cpus(1);
  nowhere.label_selector = {{"zone", "south"}};
  bench.want(1, 1, nowhere, 1);
  EXPECT_THAT(bench.plan().infeasible, SizeIs(1));
}

class Fallbacks : public Placement {
 protected:
  Fallbacks() {
    for (std::uint64_t number = 1; number <= 3; ++number) {
      auto shape = node_with(2, 0);
      shape.labels = {{"zone", std::string(1, static_cast<char>('a' + number - 1))}};
      bench.add_node(number, shape);
    }
  }
  static Request zones(std::vector<std::string> names) {
    auto made = cpus(1);
    made.label_selector = {{"zone", names.front()}};
    for (std::size_t i = 1; i < names.size(); ++i)
      made.fallback_selectors.push_back({{"zone", names[i]}});
    return made;
  }
};

TEST_F(Fallbacks, UsesFirstSelectorWithCapacity) {
  bench.want(1, 1, zones({"c", "a"}), 5);
  EXPECT_THAT(bench.placed(), ElementsAre(3, 3, 1, 1)) << "and never zone b";
}

TEST_F(Fallbacks, UsesReturnedCapacityOfAnySelector) {
  bench.want(1, 1, zones({"c", "a"}), 6);
  bench.placed();
  bench.scheduler.release(bench.granted[2].id);
  EXPECT_THAT(bench.placed(), ElementsAre(1));
  bench.scheduler.release(bench.granted[3].id);
  bench.scheduler.release(bench.granted[0].id);
  EXPECT_THAT(bench.placed(), ElementsAre(3, 1)) << "the first of them before";
}

TEST_F(Fallbacks, AnyFallbackMet_IsFeasible) {
  bench.want(1, 1, zones({"nowhere", "b"}), 1);
  EXPECT_THAT(bench.placed(), ElementsAre(2));
  bench.want(1, 1, zones({"nowhere", "in(b"}), 1);
  EXPECT_THAT(bench.plan().infeasible, SizeIs(1)) << "a bad one is met by no node";
  bench.want(1, 1, zones({"nowhere", "nothere"}), 1);
  EXPECT_THAT(bench.plan().infeasible, SizeIs(1));
  EXPECT_EQ(to_string(bench.scheduler.explain(zones({"nowhere", "nothere"}), ProgramId::of(1))
                          .nodes.front()
                          .reason),
            "label zone: wants nowhere, the node has a; nor is a fallback selector met");
}

TEST_F(Fallbacks, OtherFallbacks_AreOtherClasses) {
  bench.want(1, 1, zones({"nowhere", "a"}), 3);
  bench.want(1, 1, zones({"nowhere", "b"}), 3);
  EXPECT_THAT(bench.placed(), testing::UnorderedElementsAre(1, 1, 2, 2));
}

TEST_F(Fallbacks, Locality_StaysWithinSelector) {
  Preference preference;
  preference.locality = {{Bench::node(1), 100}, {Bench::node(2), 900}};
  bench.want(1, 1, zones({"in(a,c)", "b"}), 1, preference);
  EXPECT_THAT(bench.placed(), ElementsAre(1));
}

TEST_F(Placement, BadSelector_MatchesNoNode) {
  add_nodes(1, 1);
  auto bad = cpus(1);
  bad.label_selector = {{"zone", "in(a"}};
  EXPECT_FALSE(bench.scheduler.explain(bad, ProgramId::of(1)).feasible);
}

TEST_F(Placement, CpuWork_AvoidsNodesWithDevices) {
  bench.add_node(1, node_with(2, 4));
  bench.add_node(2, node_with(2, 0));
  bench.want(1, 1, cpus(1), 3);
  EXPECT_THAT(bench.placed(), ElementsAre(2, 2, 1));
}

TEST_F(Placement, SuspectDrainingAndDeadNodes_GetNothing) {
  add_nodes(3, 4);
  bench.scheduler.set_node_state(NodeId::of(1), NodeState::suspect);
  bench.scheduler.set_node_state(NodeId::of(2), NodeState::draining);
  bench.scheduler.set_node_state(NodeId::of(3), NodeState::dead);
  bench.want(1, 1, cpus(1), 1);
  const auto plan = bench.plan();
  EXPECT_THAT(plan.grants, IsEmpty());
  EXPECT_THAT(plan.infeasible, IsEmpty()) << "the suspect node may recover";
  EXPECT_EQ(refusal(cpus(1), 1), ReasonCode::node_suspect);
  EXPECT_EQ(refusal(cpus(1), 2), ReasonCode::node_draining);
  EXPECT_EQ(refusal(cpus(1), 3), ReasonCode::node_dead);
  bench.scheduler.set_node_state(NodeId::of(1), NodeState::alive);
  EXPECT_THAT(bench.placed(), ElementsAre(1));
}

TEST_F(Placement, PartOfDevice_WaitsForEndingSlots) {
  bench.add_node(1, node_with(8, 2));
  ASSERT_THAT(bench.devices(gpus(1)), ElementsAre(0));
  const auto idle = bench.granted.back().id;
  bench.want(1, 1, gpus(1), 0);
  ASSERT_TRUE(bench.scheduler.ends(idle, bench.now));
  const auto half = request({{"GPU", 0.5}});
  const auto demand = bench.demand_class(1, half);
  for (std::uint64_t actor = 1; actor <= 3; ++actor) {
    bench.scheduler.add_actor_demand(ActorId::of(actor), demand, bench.now);
  }
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  bench.scheduler.release(idle);
  std::vector<std::uint32_t> devices;
  for (const auto& each : bench.plan().grants)
    devices.push_back(each.allocation.find("GPU")->shares.front().index);
  EXPECT_THAT(devices, ElementsAre(0, 0, 1));
}

TEST_F(Placement, SlotEndsSlowly_PartOfDeviceIsPlaced) {
  bench.add_node(1, node_with(8, 2));
  ASSERT_THAT(bench.devices(gpus(1)), ElementsAre(0));
  bench.want(1, 1, gpus(1), 0);
  bench.scheduler.ends(bench.granted.back().id, bench.now);
  bench.scheduler.add_actor_demand(ActorId::of(1), bench.demand_class(1, request({{"GPU", 0.5}})),
                                   bench.now);
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  ASSERT_TRUE(bench.scheduler.next_deadline());
  EXPECT_LE(*bench.scheduler.next_deadline(), bench.now + PlacementSettings().settle_delay);
  EXPECT_THAT(bench.plan_after(PlacementSettings().settle_delay).grants, SizeIs(1));
}

TEST_F(Placement, DrainingNode_RequestIsFeasible) {
  add_nodes(1, 4);
  bench.scheduler.set_node_state(NodeId::of(1), NodeState::draining);
  bench.want(1, 1, cpus(1), 1);
  EXPECT_THAT(bench.plan().infeasible, IsEmpty());
  EXPECT_TRUE(bench.scheduler.explain(cpus(1), ProgramId::of(1)).feasible);
  EXPECT_FALSE(bench.scheduler.explain(cpus(5), ProgramId::of(1)).feasible);
  bench.scheduler.set_node_state(NodeId::of(1), NodeState::alive);
  EXPECT_THAT(bench.placed(), ElementsAre(1));
}

TEST_F(Placement, DrainingNode_SoftAffinityUsesAnother) {
  add_nodes(2, 4);
  bench.scheduler.set_node_state(NodeId::of(1), NodeState::draining);
  bench.want(1, 1, affinity(1, true), 1);
  EXPECT_THAT(bench.placed(), ElementsAre(2));
}

TEST_F(Placement, ProgramCannotStart_UsesAnotherNode) {
  add_nodes(2, 4);
  bench.scheduler.set_program_state(NodeId::of(1), ProgramId::of(1), "libfoo.so.1 not found");
  bench.want(1, 1, cpus(1), 1);
  EXPECT_THAT(bench.placed(), ElementsAre(2));
  const auto why = bench.scheduler.explain(cpus(1), ProgramId::of(1)).nodes.front().reason;
  EXPECT_EQ(why.code, ReasonCode::program_cannot_start);
  EXPECT_EQ(why.detail, "libfoo.so.1 not found");
  bench.scheduler.set_program_state(NodeId::of(2), ProgramId::of(1), "too");
  bench.want(1, 2, cpus(1), 1);
  EXPECT_THAT(bench.plan().infeasible, SizeIs(1));
  bench.scheduler.set_program_state(NodeId::of(1), ProgramId::of(1), "");
  EXPECT_THAT(bench.placed(), ElementsAre(1));
}

TEST_F(Placement, PacksFractionsOverPlans) {
  bench.add_node(1, node_with(8, 2));
  EXPECT_THAT(bench.devices(gpus(0.5)), ElementsAre(0));
  EXPECT_THAT(bench.devices(gpus(0.5)), ElementsAre(0));
  EXPECT_THAT(bench.devices(gpus(1)), ElementsAre(1));
  EXPECT_THAT(bench.devices(gpus(0.5)), ElementsAre());
}

TEST_F(Placement, ReportsOversizedRequestOnce) {
  bench.add_node(1, node_with(8, 8));
  bench.add_node(2, node_with(8, 8));
  bench.want(1, 1, gpus(16), 1);
  const auto plan = bench.plan();
  ASSERT_THAT(plan.infeasible, SizeIs(1));
  EXPECT_EQ(plan.infeasible.front().lessee, ProcessId::of(1));
  ASSERT_THAT(plan.infeasible.front().reasons, SizeIs(2));
  EXPECT_EQ(plan.infeasible.front().reasons.front().reason.code, ReasonCode::resource_too_small);
  bench.want(1, 1, gpus(16), 2);
  EXPECT_THAT(bench.plan().infeasible, IsEmpty()) << "said already";
  bench.add_node(3, node_with(8, 8));
  EXPECT_THAT(bench.plan().infeasible, SizeIs(1)) << "the nodes have changed";
  bench.add_node(4, node_with(8, 16));
  const auto last = bench.plan();
  EXPECT_THAT(last.infeasible, IsEmpty());
  EXPECT_THAT(last.grants, SizeIs(1));
}

TEST_F(Placement, RequestInPendingGroup_Waits) {
  add_nodes(1, 4);
  auto grouped = cpus(1);
  grouped.placement.group = GroupId::of(5);
  bench.want(1, 1, grouped, 1);
  const auto plan = bench.plan();
  EXPECT_TRUE(plan.empty());
  EXPECT_EQ(refusal(grouped, 1), ReasonCode::group_unplaced);
}

}  // namespace
}  // namespace mobula::internal::scheduler
