// Ray's python/ray/tests/test_advanced_2.py, test_memory_scheduling.py, and test_worker_capping.py:
// their resource semantics, test by test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "ray/scenario.h"

namespace mobula::internal::ray {
namespace {

using ::testing::ElementsAre;

TEST(test_advanced_2, test_zero_cpus) {
  Cluster cluster;
  cluster.add_node({{"CPU", 0}});
  EXPECT_TRUE(cluster.runs(cluster.task({})));
  EXPECT_TRUE(cluster.runs(cluster.actor({})));
}

// An actor without resources needs a node with a CPU, and allocates none of it.
TEST(test_advanced_2, test_zero_cpus_actor) {
  Cluster cluster;
  cluster.add_node({{"CPU", 0}});
  const auto valid = cluster.add_node({{"CPU", 2}});
  auto actor = request({});
  actor.required_totals.set("CPU", Quantity::whole(1));
  EXPECT_EQ(cluster.got(cluster.submit(actor, true)).node, valid);
  EXPECT_EQ(cluster.available("CPU"), 2);
}

TEST(test_advanced_2, test_fractional_resources) {
  Cluster cluster;
  cluster.add_node({{"CPU", 6}, {"GPU", 3}, {"Custom", 3}, {"Custom2", 3}, {"TPU", 3}});
  std::map<std::uint32_t, int> users;
  std::vector<std::size_t> foos;
  for (int i = 0; i < 6; ++i) {
    foos.push_back(cluster.actor({{"GPU", 0.5}}));
    const auto gpus = cluster.got(foos.back()).gpus;
    ASSERT_EQ(gpus.size(), 1u);
    ++users[gpus.front()];
  }
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(users[i], 2);
  for (const auto each : foos) cluster.end(each);

  EXPECT_TRUE(cluster.runs(cluster.actor({{"Custom", 2.7}})));
  EXPECT_FALSE(cluster.runs(cluster.actor({{"Custom", 0.7}})));
  EXPECT_TRUE(cluster.runs(cluster.actor({{"Custom", 0.3}})));
  EXPECT_TRUE(cluster.runs(cluster.task({{"CPU", 1.5}, {"Custom2", 2.5}})));
  EXPECT_FALSE(cluster.feasible(request({{"GPU", 1.5}})));
  EXPECT_FALSE(cluster.feasible(request({{"TPU", 2.5}})));
}

TEST(test_advanced_2, test_multiple_raylets) {
  Cluster cluster;
  const auto node_0 = cluster.add_node({{"CPU", 11}});
  const auto node_1 = cluster.add_node({{"CPU", 5}, {"GPU", 5}});
  const auto node_2 = cluster.add_node({{"CPU", 10}, {"GPU", 1}});
  const std::vector<std::pair<Amounts, std::set<std::uint64_t>>> kinds{
      {{{"CPU", 11}}, {node_0}},
      {{{"CPU", 1}, {"GPU", 2}}, {node_1}},
      {{{"CPU", 6}, {"GPU", 1}}, {node_2}},
      {{}, {node_0, node_1, node_2}},
      {{{"CPU", 1}, {"GPU", 1}}, {node_1, node_2}},
      {{{"CPU", 8}}, {node_0, node_2}}};
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    const auto& [amounts, allowed] = kinds[random.below(kinds.size())];
    const auto task = cluster.task(amounts);
    EXPECT_TRUE(allowed.contains(cluster.got(task).node));
    cluster.end(task);
  }
}

TEST(test_advanced_2, test_custom_resources) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}, {"CustomResource", 0}});
  const auto custom = cluster.add_node({{"CPU", 1}, {"CustomResource", 1}});
  for (int i = 0; i < 50; ++i) {
    const auto task = cluster.task({{"CPU", 1}, {"CustomResource", 1}});
    EXPECT_EQ(cluster.got(task).node, custom);
    cluster.end(task);
  }
  // A blocked task releases its CPU and keeps custom resources.
  const auto outer = cluster.task({{"CPU", 1}, {"CustomResource", 1}});
  cluster.block(outer);
  EXPECT_TRUE(cluster.runs(cluster.task({{"CPU", 1}})));
  EXPECT_TRUE(cluster.runs(cluster.task({{"CPU", 1}})));
  EXPECT_FALSE(cluster.runs(cluster.task({{"CustomResource", 1}})));
}

// Ray has a resource per node id. Here, node affinity replaces it.
TEST(test_advanced_2, test_node_id_resource) {
  Cluster cluster;
  cluster.add_node({{"CPU", 3}});
  const auto second = cluster.add_node({{"CPU", 3}});
  auto pinned = request({{"CPU", 1}});
  pinned.strategy = NodeAffinityStrategy{NodeId::of(second), false};
  EXPECT_EQ(cluster.got(cluster.submit(pinned)).node, second);
}

TEST(test_advanced_2, test_two_custom_resources) {
  Cluster cluster;
  const auto first = cluster.add_node({{"CPU", 3}, {"CustomResource1", 1}, {"CustomResource2", 2}});
  const auto second =
      cluster.add_node({{"CPU", 3}, {"CustomResource1", 3}, {"CustomResource2", 4}});
  const auto nodes_of = [&](const Amounts& amounts, int count) {
    std::set<std::uint64_t> nodes;
    std::vector<std::size_t> running;
    for (int i = 0; i < count; ++i) running.push_back(cluster.task(amounts));
    for (const auto each : running) nodes.insert(cluster.got(each).node);
    for (const auto each : running) cluster.end(each);
    return nodes;
  };
  EXPECT_THAT(nodes_of({{"CPU", 1}, {"CustomResource1", 1}}, 4), ElementsAre(first, second));
  EXPECT_THAT(nodes_of({{"CPU", 1}, {"CustomResource2", 1}}, 5), ElementsAre(first, second));
  EXPECT_THAT(nodes_of({{"CPU", 1}, {"CustomResource1", 1}, {"CustomResource2", 3}}, 1),
              ElementsAre(second));
  EXPECT_FALSE(cluster.runs(cluster.task({{"CustomResource1", 4}})));
  EXPECT_FALSE(cluster.runs(cluster.task({{"CustomResource3", 1}})));
}

TEST(test_advanced_2, test_many_custom_resources) {
  Cluster cluster;
  Amounts totals{{"CPU", 5}};
  for (int i = 0; i < 2000; ++i) totals.emplace_back(std::to_string(i), i % 6 + 1);
  cluster.add_node(totals);
  EXPECT_TRUE(cluster.runs(cluster.task({{"CPU", 1}, {"7", 2}, {"1999", 1}})));
  totals.erase(totals.begin());
  EXPECT_FALSE(cluster.runs(cluster.task(totals))) << "a part of it is held";
}

TEST(test_memory_scheduling, testMemoryRequest) {
  constexpr double mib = 1024 * 1024;
  Cluster cluster;
  cluster.add_node({{"CPU", 2}, {"memory", 200 * mib}});
  EXPECT_TRUE(cluster.runs(cluster.actor({{"memory", 100 * mib}})));
  EXPECT_TRUE(cluster.runs(cluster.actor({{"memory", 100 * mib}})));
  EXPECT_FALSE(cluster.runs(cluster.actor({{"memory", 100 * mib}})));
}

TEST(test_worker_capping, test_limit_concurrency) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}});
  std::vector<std::size_t> tasks;
  for (int i = 0; i < 20; ++i) tasks.push_back(cluster.task({{"CPU", 1}}));
  int running = 0;
  for (const auto each : tasks) running += cluster.runs(each) ? 1 : 0;
  EXPECT_EQ(running, 1);
  // Each blocked or finished task lets the next one run.
  cluster.block(tasks[0]);
  EXPECT_TRUE(cluster.runs(tasks[1]));
  EXPECT_FALSE(cluster.runs(tasks[2]));
}

TEST(test_worker_capping, test_zero_cpu_scheduling) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}});
  EXPECT_TRUE(cluster.runs(cluster.task({})));
  EXPECT_TRUE(cluster.runs(cluster.task({})));
}

// Here no node has a queue of waiting tasks: a node that joins serves a task immediately.
TEST(test_worker_capping, test_spillback) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}});
  const auto first = cluster.task({{"CPU", 1}});
  const auto second = cluster.task({{"CPU", 1}});
  EXPECT_TRUE(cluster.runs(first));
  EXPECT_FALSE(cluster.runs(second));
  const auto fresh = cluster.add_node({{"CPU", 1}});
  EXPECT_EQ(cluster.got(second).node, fresh);
}

}  // namespace
}  // namespace mobula::internal::ray
