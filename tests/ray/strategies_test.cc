// Ray's python/ray/tests/test_scheduling.py, test_scheduling_2.py, and
// test_node_label_scheduling_strategy.py: the node of each request, test by test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ray/scenario.h"

namespace mobula::internal::ray {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;

Request labelled(Labels selector, double cpus = 0) {
  auto made = request({{"CPU", cpus}});
  made.label_selector = std::move(selector);
  return made;
}
Request pinned(std::uint64_t node, bool soft, const Amounts& amounts = {{"CPU", 1}}) {
  auto made = request(amounts);
  made.strategy = NodeAffinityStrategy{NodeId::of(node), soft};
  return made;
}
Request spread_over(const Amounts& amounts) {
  auto made = request(amounts);
  made.strategy = SpreadStrategy{};
  return made;
}

std::map<std::uint64_t, int> counts(Cluster& cluster, const Amounts& amounts, int count) {
  std::map<std::uint64_t, int> on;
  std::vector<std::size_t> tasks;
  for (int i = 0; i < count; ++i) tasks.push_back(cluster.task(amounts));
  for (const auto each : tasks) ++on[cluster.got(each).node];
  for (const auto each : tasks) cluster.end(each);
  return on;
}

TEST(test_scheduling, test_load_balancing) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.add_node({{"CPU", 7}});
  const auto on = counts(cluster, {{"CPU", 1}}, 21);
  ASSERT_EQ(on.size(), 3u);
  for (const auto& [node, count] : on) EXPECT_EQ(count, 7);
}

TEST(test_scheduling, test_hybrid_policy_threshold) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 4}, {"memory", 4}});
  EXPECT_EQ(counts(cluster, {{"CPU", 1}, {"memory", 1}}, 2).size(), 1u);
  const auto on = counts(cluster, {{"CPU", 1}, {"memory", 1}}, 4);
  ASSERT_EQ(on.size(), 2u);
  for (const auto& [node, count] : on) EXPECT_EQ(count, 2);
}

// Above the threshold, the least used node is next, without randomness.
TEST(test_scheduling, test_legacy_spillback_distribution) {
  Cluster cluster;
  cluster.add_node({{"CPU", 0}});
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 8}});
  EXPECT_EQ(counts(cluster, {{"CPU", 1}}, 16), (std::map<std::uint64_t, int>{{2, 8}, {3, 8}}));
}

TEST(test_scheduling, test_local_scheduling_first) {
  Cluster cluster;
  for (int i = 0; i < 2; ++i) cluster.add_node({{"CPU", 8}});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(counts(cluster, {{"CPU", 1}}, 1).begin()->first, 1u);
}

TEST(test_scheduling_2, test_default_scheduling_strategy) {
  Cluster cluster;
  const auto head = cluster.add_node({{"CPU", 16}});
  const auto worker = cluster.add_node({{"CPU", 8}, {"GPU", 8}});
  const auto group =
      cluster.group(GroupStrategy::pack, {{{"CPU", 1}, {"GPU", 1}}, {{"CPU", 1}, {"GPU", 1}}});
  EXPECT_THAT(cluster.locations(group), ElementsAre(worker, worker));
  EXPECT_EQ(cluster.got(cluster.task({{"CPU", 1}})).node, head) << "away from GPUs";
  EXPECT_EQ(cluster.got(cluster.submit(Cluster::inside(group, {{"CPU", 1}}), true)).node, worker);
}

TEST(test_scheduling_2, test_placement_group_scheduling_strategy) {
  Cluster cluster;
  cluster.add_node({{"CPU", 8}});
  const auto worker = cluster.add_node({{"CPU", 8}, {"GPU", 8}});
  const auto group =
      cluster.group(GroupStrategy::pack, {{{"CPU", 1}, {"GPU", 1}}, {{"CPU", 1}, {"GPU", 1}}});
  for (const bool actor : {false, true}) {
    EXPECT_EQ(cluster.got(cluster.submit(Cluster::inside(group, {{"CPU", 1}}), actor)).node,
              worker);
  }
}

TEST(test_scheduling_2, test_node_affinity_scheduling_strategy) {
  Cluster cluster;
  const auto head = cluster.add_node({{"CPU", 8}, {"head", 1}});
  const auto worker = cluster.add_node({{"CPU", 8}, {"worker", 1}});
  for (const bool actor : {false, true}) {
    EXPECT_EQ(cluster.got(cluster.submit(pinned(worker, false), actor)).node, worker);
    EXPECT_EQ(cluster.got(cluster.submit(pinned(head, false), actor)).node, head);
    EXPECT_TRUE(cluster.runs(cluster.submit(pinned(77, true), actor))) << "soft, and not there";
    const auto elsewhere = cluster.submit(pinned(head, true, {{"worker", 1}}), actor);
    EXPECT_EQ(cluster.got(elsewhere).node, worker) << "soft, and infeasible there";
    cluster.end(elsewhere);
  }
  EXPECT_FALSE(cluster.feasible(pinned(77, false)));
  EXPECT_FALSE(cluster.feasible(pinned(head, false, {{"not_exist", 1}})));
  // A soft affinity waits while its node is present but busy, and uses other nodes once it dies.
  const auto crashing = cluster.add_node({{"CPU", 1}});
  const auto holder = cluster.submit(pinned(crashing, true));
  EXPECT_EQ(cluster.got(holder).node, crashing);
  const auto waiting = cluster.submit(pinned(crashing, true));
  EXPECT_FALSE(cluster.runs(waiting));
  cluster.kill_node(crashing);
  EXPECT_THAT(cluster.got(waiting).node, AnyOf(head, worker));
}

TEST(test_scheduling_2, test_spread_scheduling_strategy) {
  Cluster cluster;
  cluster.add_node({{"CPU", 0}});
  const auto first = cluster.add_node({{"CPU", 8}});
  const auto second = cluster.add_node({{"CPU", 8}});
  std::set<std::uint64_t> nodes;
  for (int i = 0; i < 2; ++i)
    nodes.insert(cluster.got(cluster.submit(spread_over({{"CPU", 1}}))).node);
  EXPECT_THAT(nodes, ElementsAre(first, second));
  std::map<std::uint64_t, int> actors;
  for (int i = 0; i < 10; ++i) {
    ++actors[cluster.got(cluster.submit(spread_over({{"CPU", 0.1}}), true)).node];
  }
  EXPECT_EQ(actors[first], 5);
  EXPECT_EQ(actors[second], 5);
}

TEST(test_node_label_scheduling_strategy, test_node_label_scheduling_basic) {
  Cluster cluster;
  cluster.add_node({{"CPU", 2}}, {{"gpu_type", "A100"}, {"region", "us"}});
  EXPECT_TRUE(cluster.runs(
      cluster.submit(labelled({{"gpu_type", "in(A100,T100)"}, {"region", "us"}}), true)));
  EXPECT_FALSE(cluster.runs(cluster.submit(labelled({{"gpu_type", "!A100"}}), true)));
  EXPECT_FALSE(cluster.runs(cluster.submit(labelled({{"gpu_type", "T100"}}), true)));
}

// Ray's older strategy also has Exists and DoesNotExist, which selectors lack (in Ray, too).
TEST(test_node_label_scheduling_strategy, test_node_label_scheduling_in_cluster) {
  Cluster cluster;
  cluster.add_node({{"CPU", 3}}, {{"gpu_type", "A100"}, {"azone", "azone-1"}});
  cluster.add_node({{"CPU", 3}}, {{"gpu_type", "T100"}, {"azone", "azone-1"}});
  cluster.add_node({{"CPU", 3}}, {{"gpu_type", "T100"}, {"azone", "azone-2"}});
  cluster.add_node({{"CPU", 3}});
  const auto node_of = [&](Labels selector) {
    return cluster.got(cluster.submit(labelled(std::move(selector)), true)).node;
  };
  EXPECT_EQ(node_of({{"gpu_type", "A100"}}), 1u);
  EXPECT_THAT(node_of({{"gpu_type", "T100"}}), AnyOf(2u, 3u));
  EXPECT_THAT(node_of({{"azone", "in(azone-1,azone-2)"}}), AnyOf(1u, 2u, 3u));
  EXPECT_EQ(node_of({{"gpu_type", "T100"}, {"azone", "azone-1"}}), 2u);
  EXPECT_THAT(node_of({{"gpu_type", "!A100"}}), AnyOf(2u, 3u, 4u));
  EXPECT_EQ(node_of({{"gpu_type", "!in(A100,T100)"}}), 4u);
}

TEST(test_node_label_scheduling_strategy, test_node_not_available) {
  Cluster cluster;
  const auto first = cluster.add_node({{"CPU", 1}}, {{"gpu_type", "A100"}});
  cluster.add_node({{"CPU", 1}});
  EXPECT_FALSE(cluster.feasible(labelled({{"gpu_type", "A100"}}, 2)));
  const auto actor = cluster.submit(labelled({{"gpu_type", "A100"}}, 1), true);
  EXPECT_EQ(cluster.got(actor).node, first);
  const auto waiting = cluster.submit(labelled({{"gpu_type", "A100"}}, 1), true);
  EXPECT_FALSE(cluster.runs(waiting));
  cluster.end(actor);
  EXPECT_EQ(cluster.got(waiting).node, first);
}

}  // namespace
}  // namespace mobula::internal::ray
