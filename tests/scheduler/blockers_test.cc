// Blockers of a request: the slots that must end, and their node.
#include "scheduler/blockers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;

Explanation explain(const Bench& bench, const Request& wanted) {
  return bench.scheduler.explain(wanted, ProgramId::of(1));
}

TEST(Blockers, NoBlocker_WhenFitsOrInfeasible) {
  Bench bench;
  bench.add_node(1, node_with(4, 2));
  bench.want(1, 1, gpus(1), 1);
  bench.plan();
  EXPECT_FALSE(explain(bench, gpus(1)).blockers);
  EXPECT_FALSE(explain(bench, gpus(3)).blockers) << "no node has three";
  EXPECT_TRUE(explain(bench, gpus(2)).blockers);
}

TEST(Blockers, NamesFewestSlotsThatMustReturn) {
  Bench bench;
  bench.add_node(1, node_with(8, 2));
  bench.want(1, 1, gpus(0.5), 2);
  bench.want(1, 2, gpus(1), 1);
  bench.want(1, 3, cpus(2), 1);
  bench.plan();
  const auto blockers = explain(bench, gpus(1)).blockers;
  ASSERT_TRUE(blockers);
  EXPECT_EQ(blockers->node, Bench::node(1));
  ASSERT_EQ(blockers->slots.size(), 1u) << "one slot frees a whole device";
  EXPECT_EQ(bench.scheduler.find_slot(blockers->slots[0])->lessee, ProcessId::of(2));
}

TEST(Blockers, PicksNodeWithLeastToReturn) {
  Bench bench;
  bench.add_node(1, node_with(8, 1));
  bench.add_node(2, node_with(8, 1));
  bench.want(1, 1, gpus(0.5), 2);
  bench.plan();
  bench.want(1, 2, gpus(0.6), 1);
  bench.plan();
  const auto blockers = explain(bench, gpus(1)).blockers;
  ASSERT_TRUE(blockers);
  ASSERT_EQ(blockers->slots.size(), 1u);
  EXPECT_EQ(bench.scheduler.find_slot(blockers->slots[0])->lessee, ProcessId::of(2));
}

TEST(Blockers, PrefersRecalledSlotsAndTasksToActors) {
  Bench bench;
  bench.add_node(1, node_with(8, 1));
  bench.add_node(2, node_with(8, 1));
  DemandClass of_actor = bench.demand_class(1, gpus(1));
  bench.scheduler.add_actor_demand(ActorId::of(7), of_actor, bench.now);
  bench.plan();
  bench.want(1, 1, gpus(0.5), 2);
  bench.plan();
  const auto blockers = explain(bench, gpus(1)).blockers;
  ASSERT_TRUE(blockers);
  ASSERT_EQ(blockers->slots.size(), 2u) << "two tasks end sooner than one actor";
  EXPECT_TRUE(bench.scheduler.find_slot(blockers->slots[0])->actor.empty());
}

TEST(Blockers, InBundle_NamesSlotsInIt) {
  Bench bench;
  bench.add_node(1, node_with(8, 2));
  GroupSpec spec;
  spec.id = GroupId::of(1);
  spec.job = JobId::of(1);
  spec.program = ProgramId::of(1);
  spec.bundles = {gpus(1), gpus(1)};
  bench.scheduler.add_group(spec, {});
  bench.plan();
  bench.scheduler.open_group(spec.id);
  auto inside = gpus(1);
  inside.placement.group = spec.id;
  inside.placement.bundle_index = 1;
  bench.want(1, 1, inside, 1);
  ASSERT_EQ(bench.plan().grants.size(), 1u);
  const auto blockers = explain(bench, inside).blockers;
  ASSERT_TRUE(blockers);
  EXPECT_EQ(blockers->bundle, 1);
  EXPECT_THAT(blockers->slots, ElementsAre(bench.granted.back().id));
  inside.placement.bundle_index = 0;
  EXPECT_FALSE(explain(bench, inside).blockers);
}

GroupSpec spec_of(std::vector<Request> bundles, GroupStrategy strategy) {
  GroupSpec spec;
  spec.bundles = std::move(bundles);
  spec.strategy = strategy;
  return spec;
}

TEST(Blockers, GroupBlockers_BlockAllItsBundles) {
  Bench bench;
  bench.add_node(1, node_with(8, 2));
  bench.add_node(2, node_with(8, 2));
  bench.want(1, 1, gpus(1), 3);
  bench.plan();
  const auto together =
      bench.scheduler.explain(spec_of({gpus(1), gpus(1)}, GroupStrategy::strict_pack));
  EXPECT_TRUE(together.feasible);
  EXPECT_FALSE(together.fits_now);
  ASSERT_TRUE(together.blockers);
  ASSERT_EQ(together.blocker_nodes.size(), 1u);
  for (const auto slot : *together.blockers) {
    EXPECT_EQ(bench.scheduler.find_slot(slot)->node, *together.blocker_nodes.begin());
  }
  const auto one = bench.scheduler.explain(spec_of({gpus(1)}, GroupStrategy::pack));
  EXPECT_TRUE(one.fits_now);
  EXPECT_FALSE(one.blockers);
  const auto never =
      bench.scheduler.explain(spec_of({gpus(2), gpus(1)}, GroupStrategy::strict_pack));
  EXPECT_FALSE(never.feasible);
  EXPECT_FALSE(never.blockers);
}

TEST(Blockers, GroupBlockers_PreferTasksToGroups) {
  Bench bench;
  bench.add_node(1, node_with(8, 1));
  bench.add_node(2, node_with(8, 1));
  auto other = spec_of({gpus(1)}, GroupStrategy::pack);
  other.id = GroupId::of(7);
  other.job = JobId::of(1);
  bench.scheduler.add_group(other, {});
  bench.plan();
  bench.want(1, 1, gpus(1), 1);
  bench.plan();
  const auto one = bench.scheduler.explain(spec_of({gpus(1)}, GroupStrategy::pack));
  ASSERT_TRUE(one.blockers);
  ASSERT_EQ(one.blockers->size(), 1u);
  EXPECT_TRUE(bench.scheduler.find_slot(one.blockers->front())->bundle_of.empty());
  const auto both =
      bench.scheduler.explain(spec_of({gpus(1), gpus(1)}, GroupStrategy::strict_spread));
  ASSERT_TRUE(both.blockers);
  EXPECT_EQ(both.blockers->size(), 2u);
}

TEST(Blockers, GroupBlockers_RespectReservations) {
  Bench bench;
  bench.add_node(1, node_with(8, 2));
  bench.want(1, 1, gpus(1), 1);
  bench.plan();
  bench.want(1, 2, gpus(2), 1);
  bench.plan();
  bench.plan_after(3s);
  EXPECT_FALSE(bench.scheduler.explain(spec_of({gpus(1)}, GroupStrategy::pack)).fits_now);
}

TEST(Totals, SaturatesTotalsOfManyNodes) {
  Bench bench;
  auto shape = node_with(8, 1);
  shape.resources.push_back(
      {"memory", {InstanceShape{Quantity::whole(Quantity::max_whole), "", {}, 0}}});
  for (std::uint64_t i = 1; i <= 40; ++i) bench.add_node(i, shape);
  const auto most = bench.scheduler.cluster_use().at("memory").total;
  EXPECT_GE(most, Quantity::whole(9 * Quantity::max_whole));
  EXPECT_GE(bench.scheduler.cluster().totals().get("memory"),
            Quantity::whole(9 * Quantity::max_whole));
  for (std::uint64_t i = 2; i <= 40; ++i) bench.scheduler.remove_node(Bench::node(i));
  EXPECT_EQ(bench.scheduler.cluster().totals().get("memory"), Quantity::whole(Quantity::max_whole));
  bench.scheduler.remove_node(Bench::node(1));
  EXPECT_EQ(bench.scheduler.cluster().totals().get("memory"), Quantity());
}

}  // namespace
}  // namespace mobula::internal::scheduler
