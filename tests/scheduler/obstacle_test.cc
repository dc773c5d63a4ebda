// What has to end before a request fits: which slots, on which node.
#include "scheduler/obstacle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;

Explanation explain(const Bench& bench, const Request& wanted) {
  return bench.scheduler.explain(wanted, ProgramId::of(1));
}

TEST(Obstacle, IsNothingWhereSomethingFitsOrNothingEverCould) {
  Bench bench;
  bench.add_node(1, node_with(4, 2));
  bench.want(1, 1, gpus(1), 1);
  bench.plan();
  EXPECT_FALSE(explain(bench, gpus(1)).obstacle);
  EXPECT_FALSE(explain(bench, gpus(3)).obstacle) << "no node has three";
  EXPECT_TRUE(explain(bench, gpus(2)).obstacle);
}

TEST(Obstacle, NamesTheFewestSlotsThatHaveToReturn) {
  Bench bench;
  bench.add_node(1, node_with(8, 2));
  bench.want(1, 1, gpus(0.5), 2);
  bench.want(1, 2, gpus(1), 1);
  bench.want(1, 3, cpus(2), 1);
  bench.plan();
  const auto obstacle = explain(bench, gpus(1)).obstacle;
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->node, Bench::node(1));
  ASSERT_EQ(obstacle->slots.size(), 1u) << "one whole device comes back with one slot";
  EXPECT_EQ(bench.scheduler.find_slot(obstacle->slots[0])->lessee, ProcessId::of(2));
}

TEST(Obstacle, IsOnTheNodeWhereLeastHasToReturn) {
  Bench bench;
  bench.add_node(1, node_with(8, 1));
  bench.add_node(2, node_with(8, 1));
  bench.want(1, 1, gpus(0.5), 2);
  bench.plan();
  bench.want(1, 2, gpus(0.6), 1);
  bench.plan();
  const auto obstacle = explain(bench, gpus(1)).obstacle;
  ASSERT_TRUE(obstacle);
  ASSERT_EQ(obstacle->slots.size(), 1u);
  EXPECT_EQ(bench.scheduler.find_slot(obstacle->slots[0])->lessee, ProcessId::of(2));
}

TEST(Obstacle, PrefersWhatWasRecalledAndLeavesActorsToTheLast) {
  Bench bench;
  bench.add_node(1, node_with(8, 1));
  bench.add_node(2, node_with(8, 1));
  DemandClass of_actor = bench.demand_class(1, gpus(1));
  bench.scheduler.add_actor_demand(ActorId::of(7), of_actor, bench.now);
  bench.plan();
  bench.want(1, 1, gpus(0.5), 2);
  bench.plan();
  const auto obstacle = explain(bench, gpus(1)).obstacle;
  ASSERT_TRUE(obstacle);
  ASSERT_EQ(obstacle->slots.size(), 2u) << "two tasks end sooner than one actor";
  EXPECT_TRUE(bench.scheduler.find_slot(obstacle->slots[0])->actor.empty());
}

TEST(Obstacle, InABundleIsWhatRunsThere) {
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
  const auto obstacle = explain(bench, inside).obstacle;
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->bundle, 1);
  EXPECT_THAT(obstacle->slots, ElementsAre(bench.granted.back().id));
  inside.placement.bundle_index = 0;
  EXPECT_FALSE(explain(bench, inside).obstacle);
}

}  // namespace
}  // namespace mobula::internal::scheduler
