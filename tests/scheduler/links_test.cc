// Placement while the link between two nodes is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Links : public testing::Test {
 protected:
  // The driver's node has no CPU, so all work runs on others.
  Links() {
    bench.add_node(1, node_with(0, 0));
    bench.add_node(2, node_with(4, 0));
    bench.add_node(3, node_with(4, 0));
  }
  void cut(std::uint64_t one, std::uint64_t other) {
    bench.scheduler.set_link(Bench::node(one), Bench::node(other), true);
  }
  void heal(std::uint64_t one, std::uint64_t other) {
    bench.scheduler.set_link(Bench::node(one), Bench::node(other), false);
  }
  static Preference from(std::uint64_t caller) {
    return {{}, Bench::node(caller), {Bench::node(caller)}};
  }
  void want(std::uint64_t lessee, std::uint64_t caller, std::int64_t slots,
            const Request& request = cpus(1)) {
    bench.want(1, lessee, request, slots, from(caller));
  }
  Reason reason(std::uint64_t node, std::uint64_t caller) {
    for (const auto& each :
         bench.scheduler.explain(cpus(1), ProgramId::of(1), Tenant::task, {Bench::node(caller)})
             .nodes) {
      if (each.node == Bench::node(node)) return each.reason;
    }
    return {};
  }
  Bench bench;
};

TEST_F(Links, AvoidsNodeBehindCutLink) {
  cut(1, 2);
  want(7, 1, 3);
  EXPECT_THAT(bench.placed(), ElementsAre(3, 3, 3));
}

TEST_F(Links, VisitsOnlyDemandsOfCallersThere) {
  bench.add_node(4, node_with(0, 0));
  for (std::uint64_t lessee = 100; lessee < 150; ++lessee) want(lessee, 4, 1, cpus(8));
  want(7, 1, 1, cpus(8));
  want(8, 4, 1, cpus(8));
  want(8, 1, 1, cpus(8));  // its caller moved
  want(9, 1, 1, cpus(8));
  want(9, 1, 0, cpus(8));
  const auto before = bench.scheduler.demands_walked();
  cut(2, 3);
  EXPECT_EQ(bench.scheduler.demands_walked() - before, 0u);
  cut(1, 3);
  EXPECT_EQ(bench.scheduler.demands_walked() - before, 2u);
}

TEST_F(Links, IgnoresDirectionOfReport) {
  cut(2, 1);
  want(7, 1, 1);
  EXPECT_THAT(bench.placed(), ElementsAre(3));
}

TEST_F(Links, OtherCallers_UseNode) {
  cut(1, 2);
  bench.want(1, 8, cpus(4), 1, from(3));
  EXPECT_THAT(bench.placed(), ElementsAre(3)) << "the home of its caller";
  bench.want(1, 8, cpus(4), 2, from(3));
  EXPECT_THAT(bench.placed(), ElementsAre(2));
}

TEST_F(Links, UnaffectedCaller_PassesWaitingOne) {
  cut(1, 2);
  bench.want(1, 7, cpus(4), 2, from(1));
  EXPECT_THAT(bench.placed(), ElementsAre(3));
  bench.want(1, 8, cpus(4), 1, from(3));
  EXPECT_THAT(bench.placed(), ElementsAre(2)) << "a demand of one class";
}

TEST_F(Links, NoOtherNode_WaitsForLink) {
  cut(1, 2);
  cut(1, 3);
  want(7, 1, 2);
  const auto plan = bench.plan();
  EXPECT_THAT(plan.grants, IsEmpty());
  EXPECT_THAT(plan.infeasible, IsEmpty());
  EXPECT_EQ(reason(2, 1).code, ReasonCode::link_cut);
  EXPECT_NE(to_string(reason(2, 1)).find(Bench::node(1).hex()), std::string::npos)
      << to_string(reason(2, 1));
  EXPECT_EQ(reason(2, 3).code, ReasonCode::fits);
  heal(2, 1);
  EXPECT_THAT(bench.placed(), ElementsAre(2, 2));
}

TEST_F(Links, LinkFailsWhilePending_NodeIsAvoided) {
  bench.want(1, 9, cpus(4), 2, from(3));
  EXPECT_THAT(bench.placed(), ElementsAre(3, 2));
  want(7, 1, 1);
  EXPECT_THAT(bench.placed(), IsEmpty());
  cut(1, 2);
  ASSERT_TRUE(bench.scheduler.release(bench.granted[1].id));
  bench.want(1, 9, cpus(4), 1, from(3));
  EXPECT_THAT(bench.placed(), IsEmpty()) << "only the node behind the cut link is free";
  ASSERT_TRUE(bench.scheduler.release(bench.granted[0].id));
  bench.want(1, 9, cpus(4), 0, from(3));
  EXPECT_THAT(bench.placed(), ElementsAre(3));
}

TEST_F(Links, Actor_AvoidsNodesOfAllCallers) {
  cut(1, 2);
  cut(2, 3);
  auto spec = bench.demand_class(1, cpus(1));
  bench.scheduler.add_actor_demand(ActorId::of(5), spec, bench.now,
                                   {Bench::node(1), Bench::node(3)});
  EXPECT_THAT(bench.placed(), ElementsAre(3));
}

TEST_F(Links, SoftAffinity_YieldsToCutLink) {
  cut(1, 2);
  auto wanted = cpus(1);
  wanted.strategy = NodeAffinityStrategy{Bench::node(2), true};
  want(7, 1, 1, wanted);
  EXPECT_THAT(bench.placed(), ElementsAre(3));
}

TEST_F(Links, BundleBehindCutLink_Waits) {
  GroupSpec group;
  group.id = GroupId::of(1);
  group.job = JobId::of(1);
  group.strategy = GroupStrategy::strict_pack;
  group.bundles = {cpus(2)};
  bench.scheduler.add_group(group, {});
  const auto plan = bench.plan();
  ASSERT_EQ(plan.groups.size(), 1u);
  bench.scheduler.open_group(group.id);
  cut(1, 2);
  auto inside = cpus(1);
  inside.placement.group = group.id;
  want(7, 1, 1, inside);
  EXPECT_THAT(bench.placed(), IsEmpty());
  heal(1, 2);
  EXPECT_THAT(bench.placed(), ElementsAre(2));
}

}  // namespace
}  // namespace mobula::internal::scheduler
