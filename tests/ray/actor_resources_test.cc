// Ray's python/ray/tests/test_actor_resources.py, test by test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ray/scenario.h"

namespace mobula::internal::ray {
namespace {

using ::testing::ElementsAre;

TEST(test_actor_resources, test_actor_deletion_with_gpus) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}, {"GPU", 1}});
  for (int i = 0; i < 5; ++i) {
    const auto actor = cluster.actor({{"GPU", 1}});
    EXPECT_THAT(cluster.got(actor).gpus, ElementsAre(0));
    cluster.end(actor);
  }
}

TEST(test_actor_resources, test_actor_gpus) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.add_node({{"CPU", 40}, {"GPU", 4}});
  std::set<std::pair<std::uint64_t, std::uint32_t>> held;
  for (int i = 0; i < 12; ++i) {
    const auto got = cluster.got(cluster.actor({{"GPU", 1}}));
    ASSERT_EQ(got.gpus.size(), 1u);
    held.emplace(got.node, got.gpus.front());
  }
  EXPECT_EQ(held.size(), 12u);
  EXPECT_FALSE(cluster.runs(cluster.actor({{"GPU", 1}})));
}

TEST(test_actor_resources, test_actor_multiple_gpus) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.add_node({{"CPU", 50}, {"GPU", 5}});
  std::map<std::uint64_t, std::set<std::uint32_t>> held;
  const auto take = [&](double count) {
    const auto got = cluster.got(cluster.actor({{"GPU", count}}));
    held[got.node].insert(got.gpus.begin(), got.gpus.end());
    return got.node != 0;
  };
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(take(2));
  for (const auto& [node, ids] : held) EXPECT_EQ(ids.size(), 4u);
  EXPECT_FALSE(cluster.runs(cluster.actor({{"GPU", 2}})));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(take(1));
  for (const auto& [node, ids] : held) EXPECT_EQ(ids.size(), 5u);
  EXPECT_FALSE(cluster.runs(cluster.actor({{"GPU", 1}})));
}

TEST(test_actor_resources, test_actor_different_numbers_of_gpus) {
  Cluster cluster;
  cluster.add_node({{"CPU", 10}});
  cluster.add_node({{"CPU", 10}, {"GPU", 5}});
  cluster.add_node({{"CPU", 10}, {"GPU", 10}});
  std::map<std::uint64_t, std::set<std::uint32_t>> held;
  for (int i = 0; i < 15; ++i) {
    const auto got = cluster.got(cluster.actor({{"GPU", 1}}));
    held[got.node].insert(got.gpus.begin(), got.gpus.end());
  }
  EXPECT_EQ(held.size(), 2u);
  EXPECT_EQ(held[2].size(), 5u);
  EXPECT_EQ(held[3].size(), 10u);
  EXPECT_FALSE(cluster.runs(cluster.actor({{"GPU", 1}})));
}

TEST(test_actor_resources, test_actor_multiple_gpus_from_multiple_tasks) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.add_node({{"CPU", 8}, {"GPU", 2}});
  std::set<std::pair<std::uint64_t, std::uint32_t>> held;
  for (int creator = 0; creator < 3; ++creator) {
    const auto task = cluster.task({{"CPU", 1}});
    ASSERT_TRUE(cluster.runs(task));
    for (int i = 0; i < 2; ++i) {
      const auto got = cluster.got(cluster.actor({{"GPU", 1}}));
      held.emplace(got.node, got.gpus.at(0));
    }
    cluster.end(task);
  }
  EXPECT_EQ(held.size(), 6u);
  EXPECT_FALSE(cluster.runs(cluster.actor({{"GPU", 1}})));
}

TEST(test_actor_resources, test_actors_and_tasks_with_gpus) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.add_node({{"CPU", 2}, {"GPU", 2}});
  const auto actor = cluster.got(cluster.actor({{"GPU", 1}}));
  // Free devices serve tasks of one and of two devices, never the device of the actor.
  for (int round = 0; round < 30; ++round) {
    std::vector<std::size_t> running;
    std::set<std::pair<std::uint64_t, std::uint32_t>> held{{actor.node, actor.gpus.at(0)}};
    for (int i = 0; i < 8; ++i) {
      const auto task = cluster.task({{"GPU", i % 3 == 0 ? 2 : 1}});
      const auto got = cluster.got(task);
      for (const auto id : got.gpus) EXPECT_TRUE(held.emplace(got.node, id).second);
      running.push_back(task);
    }
    EXPECT_LE(held.size(), 6u);
    for (const auto each : running) cluster.end(each);
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(cluster.runs(cluster.actor({{"GPU", 1}})));
  EXPECT_FALSE(cluster.runs(cluster.task({{"GPU", 1}})));
}

TEST(test_actor_resources, test_actors_and_tasks_with_gpus_version_two) {
  Cluster cluster;
  cluster.add_node({{"CPU", 5}, {"GPU", 4}});
  std::set<std::uint32_t> held;
  for (int i = 0; i < 2; ++i) {
    held.insert(cluster.got(cluster.task({{"CPU", 1}, {"GPU", 1}})).gpus.at(0));
    held.insert(cluster.got(cluster.actor({{"CPU", 1}, {"GPU", 1}})).gpus.at(0));
  }
  EXPECT_THAT(held, ElementsAre(0, 1, 2, 3));
}

// In Ray, an actor keeps its CPU while it blocks. Here it releases the CPU as a task does, so that
// the awaited work can run. GPUs stay allocated in both.
TEST(test_actor_resources, test_blocking_actor_task) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}, {"GPU", 1}});
  const auto actor = cluster.actor({{"CPU", 1}});
  ASSERT_TRUE(cluster.runs(actor));
  const auto inner = cluster.task({{"CPU", 1}, {"GPU", 1}});
  EXPECT_FALSE(cluster.runs(inner));
  cluster.block(actor);
  EXPECT_TRUE(cluster.runs(inner)) << "intended difference";
  cluster.end(inner);
  EXPECT_TRUE(cluster.reacquire_cpu(actor));
  cluster.end(actor);

  const auto holder = cluster.actor({{"GPU", 1}});
  ASSERT_TRUE(cluster.runs(holder));
  cluster.block(holder);
  EXPECT_FALSE(cluster.runs(cluster.task({{"CPU", 1}, {"GPU", 1}})));
}

TEST(test_actor_resources, test_lifetime_and_transient_resources) {
  Cluster cluster;
  cluster.add_node({{"CPU", 1}});
  auto placed_alone = request({});
  placed_alone.required_totals.set("CPU", Quantity::whole(1));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(cluster.runs(cluster.submit(placed_alone, true)));
  EXPECT_TRUE(cluster.runs(cluster.actor({{"CPU", 1}})));
  EXPECT_FALSE(cluster.runs(cluster.actor({{"CPU", 1}})));
}

TEST(test_actor_resources, test_custom_label_placement) {
  Cluster cluster;
  const auto first = cluster.add_node({{"CPU", 2}, {"CustomResource1", 2}});
  const auto second = cluster.add_node({{"CPU", 2}, {"CustomResource2", 2}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cluster.got(cluster.actor({{"CPU", 1}, {"CustomResource1", 1}})).node, first);
    EXPECT_EQ(cluster.got(cluster.actor({{"CPU", 1}, {"CustomResource2", 1}})).node, second);
  }
}

TEST(test_actor_resources, test_creating_more_actors_than_resources) {
  Cluster cluster;
  cluster.add_node({{"CPU", 10}, {"GPU", 2}, {"CustomResource1", 1}});
  const auto first = cluster.actor({{"GPU", 1}});
  const auto second = cluster.actor({{"GPU", 1}});
  const auto third = cluster.actor({{"GPU", 1}});
  const auto of_first = cluster.got(first).gpus;
  EXPECT_NE(of_first, cluster.got(second).gpus);
  EXPECT_FALSE(cluster.runs(third));
  cluster.end(first);
  EXPECT_EQ(cluster.got(third).gpus, of_first);
  for (int i = 0; i < 3; ++i) {
    const auto each = cluster.actor({{"CustomResource1", 1}});
    EXPECT_TRUE(cluster.runs(each));
    cluster.end(each);
  }
}

}  // namespace
}  // namespace mobula::internal::ray
