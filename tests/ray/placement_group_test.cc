// Ray's python/ray/tests/test_placement_group.py, _2 to _5, and _failover: nodes and instances,
// test by test. A test that is in several files has the name of the first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ray/scenario.h"

namespace mobula::internal::ray {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using enum GroupStrategy;

TEST(test_placement_group, test_placement_group_pack) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 4}});
  const auto group = cluster.group(pack, {{{"CPU", 2}, {"GPU", 0}}, {{"CPU", 2}}});
  const auto first = cluster.submit(Cluster::inside(group, {{"CPU", 2}}, 0), true);
  const auto second = cluster.submit(Cluster::inside(group, {{"CPU", 2}}, 1), true);
  EXPECT_TRUE(cluster.runs(first));
  EXPECT_EQ(cluster.got(first).node, cluster.got(second).node);
}

TEST(test_placement_group, test_placement_group_strict_pack) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 4}, {"memory", 1 << 28}});
  const auto group = cluster.group(strict_pack, {{{"CPU", 2}, {"memory", 50 << 20}}, {{"CPU", 2}}});
  const auto first = cluster.submit(Cluster::inside(group, {{"CPU", 2}}, 0), true);
  const auto second = cluster.submit(Cluster::inside(group, {{"CPU", 2}}, 1), true);
  EXPECT_TRUE(cluster.runs(first));
  EXPECT_EQ(cluster.got(first).node, cluster.got(second).node);
}

TEST(test_placement_group, test_placement_group_spread) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 4}});
  EXPECT_THAT(cluster.locations(cluster.group(spread, {{{"CPU", 2}}, {{"CPU", 2}}})),
              UnorderedElementsAre(1, 2));
}

TEST(test_placement_group, test_placement_group_strict_spread) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.add_node({{"CPU", 4}});
  EXPECT_THAT(
      cluster.locations(cluster.group(strict_spread, {{{"CPU", 2}}, {{"CPU", 2}}, {{"CPU", 2}}})),
      UnorderedElementsAre(1, 2, 3));
}

// A request that precedes its group runs as soon as the group is placed.
TEST(test_placement_group, test_placement_group_hang) {
  Cluster cluster;
  const auto group = cluster.group(pack, {{{"CPU", 2}}});
  const auto task = cluster.submit(Cluster::inside(group, {{"CPU", 1}}));
  EXPECT_FALSE(cluster.runs(task));
  cluster.add_node({{"CPU", 4}});
  EXPECT_TRUE(cluster.runs(task));
}

TEST(test_placement_group, test_remove_placement_group) {
  Cluster cluster;
  cluster.add_node({{"CPU", 4}});
  cluster.remove(GroupId::of(77));  // an unknown group
  auto group = cluster.group(pack, {{{"CPU", 2}}, {{"CPU", 2}}});
  EXPECT_TRUE(cluster.created(group));
  cluster.remove(group);
  EXPECT_EQ(cluster.available("CPU"), 4);
  group = cluster.group(pack, {{{"CPU", 2}}, {{"CPU", 2}}});
  const auto task = cluster.submit(Cluster::inside(group, {{"CPU", 2}}));
  const auto actor = cluster.submit(Cluster::inside(group, {{"CPU", 2}}), true);
  EXPECT_TRUE(cluster.runs(task) && cluster.runs(actor));
  for (int i = 0; i < 4; ++i) cluster.remove(group);
  EXPECT_TRUE(cluster.runs(cluster.task({{"CPU", 4}})));
  EXPECT_FALSE(cluster.runs(task) || cluster.runs(actor));
}

TEST(test_placement_group, test_remove_pending_placement_group) {
  Cluster cluster;
  cluster.add_node({{"CPU", 4}});
  const auto group = cluster.group(pack, {{{"GPU", 2}}, {{"CPU", 2}}});
  EXPECT_FALSE(cluster.created(group));
  cluster.remove(group);
  EXPECT_TRUE(cluster.runs(cluster.task({{"CPU", 4}})));
}

TEST(test_placement_group, test_placement_group_table) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 4}});
  const auto group = cluster.group(pack, {{{"CPU", 2}, {"GPU", 1}}, {{"CPU", 2}}});
  EXPECT_THAT(cluster.locations(group), ElementsAre(0, 0)) << "pending";
  const auto fresh = cluster.add_node({{"CPU", 5}, {"GPU", 1}});
  EXPECT_EQ(cluster.got(cluster.submit(Cluster::inside(group, {{"CPU", 2}}, 0), true)).node, fresh);
  EXPECT_THAT(cluster.locations(group), ElementsAre(fresh, fresh));
}

TEST(test_placement_group, test_cuda_visible_devices) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}, {"GPU", 1}});
  const auto group = cluster.group(pack, {{{"CPU", 1}, {"GPU", 1}}});
  EXPECT_THAT(cluster.got(cluster.submit(Cluster::inside(group, {{"CPU", 1}, {"GPU", 1}}))).gpus,
              ElementsAre(0));
}

TEST(test_placement_group, test_placement_group_reschedule_when_node_dead) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.add_node({{"CPU", 4}});
  const auto group = cluster.group(spread, {{{"CPU", 2}}, {{"CPU", 2}}, {{"CPU", 2}}});
  EXPECT_THAT(cluster.locations(group), UnorderedElementsAre(1, 2, 3));
  std::vector<std::size_t> actors;
  for (int i = 0; i < 3; ++i) {
    actors.push_back(cluster.submit(Cluster::inside(group, {{"CPU", 1}}, i), true));
    EXPECT_TRUE(cluster.runs(actors.back()));
  }
  cluster.kill_node(3);
  const auto locations = cluster.locations(group);
  EXPECT_EQ(std::ranges::count(locations, 0u), 0);
  EXPECT_EQ(std::ranges::count(locations, 3u), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(cluster.runs(cluster.submit(Cluster::inside(group, {{"CPU", 1}}, i), true)));
  }
}

TEST(test_placement_group_2, test_pending_placement_group_wait) {
  Cluster cluster;
  cluster.add_node({{"CPU", 2}});
  EXPECT_THAT(cluster.locations(cluster.group(spread, {{{"CPU", 2}}, {{"CPU", 2}}, {{"GPU", 2}}})),
              Each(0));
  EXPECT_EQ(cluster.available("CPU"), 2) << "all or nothing";
}

TEST(test_placement_group_2, test_placement_group_wait) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 2}});
  EXPECT_TRUE(cluster.created(cluster.group(spread, {{{"CPU", 2}}, {{"CPU", 2}}})));
}

TEST(test_placement_group_2, test_schedule_placement_group_when_node_add) {
  Cluster cluster;
  cluster.add_node({{"CPU", 4}});
  const auto group = cluster.group(pack, {{{"GPU", 2}}, {{"CPU", 2}}});
  EXPECT_FALSE(cluster.created(group));
  cluster.add_node({{"CPU", 4}, {"GPU", 4}});
  EXPECT_TRUE(cluster.created(group));
}

TEST(test_placement_group_2, test_atomic_creation) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 4}});
  const auto first = cluster.task({{"CPU", 3}});
  const auto second = cluster.task({{"CPU", 3}});
  ASSERT_TRUE(cluster.runs(first) && cluster.runs(second));
  const auto group = cluster.group(spread, std::vector<Amounts>(4, {{"CPU", 2}}));
  const auto actor = cluster.submit(Cluster::inside(group, {{"CPU", 1}}, 3), true);
  EXPECT_FALSE(cluster.created(group));
  EXPECT_FALSE(cluster.runs(actor));
  EXPECT_EQ(cluster.available("CPU"), 2) << "nothing of it is booked";
  cluster.end(first);
  EXPECT_FALSE(cluster.created(group));
  cluster.end(second);
  EXPECT_TRUE(cluster.created(group));
  EXPECT_TRUE(cluster.runs(actor));
  cluster.end(actor);
  std::vector<std::size_t> outside, within;
  for (int i = 0; i < 4; ++i) {
    outside.push_back(cluster.task({{"CPU", 2}}));
    within.push_back(cluster.submit(Cluster::inside(group, {{"CPU", 2}}, i)));
  }
  for (const auto each : outside) EXPECT_FALSE(cluster.runs(each));
  for (const auto each : within) EXPECT_TRUE(cluster.runs(each));
  cluster.remove(group);
  for (const auto each : outside) EXPECT_TRUE(cluster.runs(each));
}

TEST(test_placement_group_2, test_mini_integration) {
  Cluster cluster;
  for (int i = 0; i < 5; ++i) cluster.add_node({{"CPU", 2}, {"GPU", 8}});
  std::vector<GroupId> groups;
  for (int i = 0; i < 10; ++i) groups.push_back(cluster.group(pack, {{{"GPU", 2}}, {{"GPU", 2}}}));
  for (const auto group : groups) {
    for (int bundle = 0; bundle < 2; ++bundle) {
      const auto task = cluster.submit(Cluster::inside(group, {{"GPU", 1}}, bundle));
      EXPECT_TRUE(cluster.runs(task));
      cluster.end(task);
    }
  }
  for (const auto which : {2, 3, 1, 7, 8, 9, 0, 6, 4, 5}) {
    cluster.remove(groups[static_cast<std::size_t>(which)]);
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(cluster.runs(cluster.actor({{"CPU", 2}, {"GPU", 8}})));
}

TEST(test_placement_group_3, test_schedule_placement_groups_at_the_same_time) {
  Cluster cluster;
  cluster.add_node({{"CPU", 4}});
  std::vector<GroupId> groups;
  for (int i = 0; i < 6; ++i) groups.push_back(cluster.group(pack, {{{"CPU", 2}}}));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_TRUE(cluster.created(groups[i])) << "in the order of the requests";
    cluster.remove(groups[i]);
  }
}

TEST(test_placement_group_3, test_placement_group_synchronous_registration) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}});
  const auto group = cluster.group(strict_pack, {{{"CPU", 1}}, {{"CPU", 1}}});
  EXPECT_FALSE(cluster.created(group));
  cluster.remove(group);
  EXPECT_EQ(cluster.scheduler().groups().find(group), nullptr);
}

TEST(test_placement_group_3, test_placement_group_gpu_set) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 1}, {"GPU", 1}});
  const auto group = cluster.group(pack, {{{"CPU", 1}, {"GPU", 1}}, {{"CPU", 1}, {"GPU", 1}}});
  std::set<std::uint64_t> nodes;
  for (int bundle = 0; bundle < 2; ++bundle) {
    const auto got = cluster.got(cluster.submit(Cluster::inside(group, {{"GPU", 1}}, bundle)));
    EXPECT_THAT(got.gpus, ElementsAre(0)) << "the first of its node";
    nodes.insert(got.node);
  }
  EXPECT_EQ(nodes.size(), 2u);
}

TEST(test_placement_group_3, test_placement_group_gpu_assigned) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}, {"GPU", 2}});
  const auto first = cluster.group(pack, {{{"GPU", 1}}});
  const auto second = cluster.group(pack, {{{"GPU", 1}}});
  EXPECT_NE(cluster.got(cluster.submit(Cluster::inside(first, {{"GPU", 1}}))).gpus,
            cluster.got(cluster.submit(Cluster::inside(second, {{"GPU", 1}}))).gpus);
}

TEST(test_placement_group_3, test_actor_scheduling_not_block_with_placement_group) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}});
  std::vector<GroupId> groups;
  std::vector<std::size_t> actors;
  for (int i = 0; i < 300; ++i) {
    groups.push_back(cluster.group(pack, {{{"CPU", 1}}}));
    actors.push_back(cluster.submit(Cluster::inside(groups.back(), {}), true));
  }
  for (int nodes = 1; nodes <= 20; ++nodes) {
    EXPECT_EQ(std::ranges::count_if(groups, [&](auto each) { return cluster.created(each); }),
              nodes);
    EXPECT_EQ(std::ranges::count_if(actors, [&](auto each) { return cluster.runs(each); }), nodes);
    cluster.add_node({{"CPU", 1}});
  }
}

// Reported as infeasible immediately; placed nevertheless when a node joins.
TEST(test_placement_group_4, test_infeasible_pg) {
  Cluster cluster;
  cluster.add_node({{"CPU", 2}});
  const auto group = cluster.group(strict_pack, {{{"CPU", 4}, {"GPU", 1}}});
  EXPECT_FALSE(cluster.created(group));
  const auto why = cluster.scheduler().explain(cluster.scheduler().groups().find(group)->spec);
  EXPECT_FALSE(why.feasible);
  EXPECT_EQ(why.shortage,
            "no node can ever hold bundle 0 (CPU 4, GPU 1); node 00000001: CPU: needs 4, the node "
            "has 2 in all");
  cluster.add_node({{"CPU", 4}, {"GPU", 1}});
  EXPECT_TRUE(cluster.created(group));
}

// Members without resources also belong to the group.
TEST(test_placement_group_5, test_placement_group_no_resource) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 2}});
  for (int round = 0; round < 10; ++round) {
    const auto first = cluster.group(pack, {{{"CPU", 2}}});
    const auto second = cluster.group(pack, {{{"CPU", 2}}});
    std::set<std::uint64_t> of_first, of_second;
    for (const double cpus : {1.0, 1.0, 0.0}) {
      of_first.insert(
          cluster.got(cluster.submit(Cluster::inside(first, {{"CPU", cpus}}, 0), true)).node);
      of_second.insert(
          cluster.got(cluster.submit(Cluster::inside(second, {{"CPU", cpus}}, 0), true)).node);
    }
    EXPECT_EQ(of_first.size(), 1u);
    EXPECT_EQ(of_second.size(), 1u);
    EXPECT_NE(of_first, of_second);
    cluster.remove(first);
    cluster.remove(second);
    EXPECT_EQ(cluster.available("CPU"), 4);
  }
}

TEST(test_placement_group_5, test_pg_no_resource_bundle_index) {
  Cluster cluster;
  for (int i = 0; i < 4; ++i) cluster.add_node({{"CPU", 1}});
  const auto group = cluster.group(pack, std::vector<Amounts>(4, {{"CPU", 1}}));
  const auto home = cluster.locations(group).at(0);
  ASSERT_NE(home, 0u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(cluster.got(cluster.submit(Cluster::inside(group, {}, 0), true)).node, home);
  }
}

class BinPackingPriority : public ::testing::TestWithParam<GroupStrategy> {};

TEST_P(BinPackingPriority, test_placement_group_bin_packing_priority) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}});
  cluster.add_node({{"CPU", 2}});
  cluster.add_node({{"CPU", 1}, {"GPU", 1}});
  const auto group =
      cluster.group(GetParam(), {{{"CPU", 1}}, {{"CPU", 2}}, {{"CPU", 1}, {"GPU", 1}}});
  EXPECT_THAT(cluster.locations(group), ElementsAre(1, 2, 3));
}

INSTANTIATE_TEST_SUITE_P(test_placement_group_5, BinPackingPriority,
                         ::testing::Values(spread, strict_spread, pack));

class ParallelSubmission : public ::testing::TestWithParam<GroupStrategy> {};

TEST_P(ParallelSubmission, test_placement_group_parallel_submission) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}, {"custom_resource", 20}});
  std::vector<GroupId> groups;
  std::vector<std::size_t> tasks;
  for (int i = 0; i < 20; ++i) {
    groups.push_back(cluster.group(GetParam(), {{{"custom_resource", 1}, {"CPU", 1}}}));
    tasks.push_back(
        cluster.submit(Cluster::inside(groups.back(), {{"CPU", 1}, {"custom_resource", 1}})));
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_TRUE(cluster.runs(tasks[i]));
    cluster.end(tasks[i]);
    cluster.remove(groups[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(test_placement_group_5, ParallelSubmission,
                         ::testing::Values(spread, strict_spread, pack, strict_pack));

TEST(test_placement_group_failover, test_placement_group_failover_when_two_nodes_die) {
  Cluster cluster;
  for (int i = 0; i < 4; ++i) cluster.add_node({{"CPU", 1}, {"memory", 1 << 28}});
  const auto group =
      cluster.group(strict_spread, std::vector<Amounts>(4, {{"CPU", 1}, {"memory", 100 << 20}}));
  EXPECT_TRUE(cluster.created(group));
  for (int i = 0; i < 3; ++i) cluster.add_node({{"CPU", 1}, {"memory", 1 << 28}});
  for (const std::uint64_t node : {2, 3, 4}) cluster.kill_node(node);
  EXPECT_THAT(cluster.locations(group), UnorderedElementsAre(1, 5, 6, 7));
  for (int bundle = 0; bundle < 4; ++bundle) {
    EXPECT_TRUE(cluster.runs(cluster.submit(Cluster::inside(group, {{"CPU", 1}}, bundle), true)));
  }
}

}  // namespace
}  // namespace mobula::internal::ray
