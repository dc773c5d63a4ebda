#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Bundles = std::vector<Request>;

Request device_memory(double count, std::int64_t gibibytes) {
  auto made = request({{"GPU", count}});
  made.gpu_memory = gibibytes * gib;
  return made;
}

class GroupTest : public ::testing::Test {
 protected:
  GroupId add(std::uint64_t number, GroupStrategy strategy, Bundles bundles,
              std::int32_t priority = 0) {
    GroupSpec spec;
    spec.id = GroupId::of(number);
    spec.job = JobId::of(1);
    spec.strategy = strategy;
    spec.program = ProgramId::of(1);
    spec.bundles = std::move(bundles);
    spec.priority = priority;
    bench_.scheduler.add_group(spec, {});
    return spec.id;
  }
  // The nodes of its bundles after a plan; 0: not placed. Empty: the group is removed.
  std::vector<std::uint64_t> locations(GroupId id) {
    news_ = bench_.plan().groups;
    const auto* row = bench_.scheduler.groups().find(id);
    std::vector<std::uint64_t> nodes;
    if (row == nullptr) return nodes;
    for (const auto& location : row->locations) nodes.push_back(number_of(location.node));
    return nodes;
  }
  std::vector<std::uint64_t> opened(GroupId id) {
    auto nodes = locations(id);
    bench_.scheduler.open_group(id);
    return nodes;
  }
  void remove(GroupId id) {
    bench_.scheduler.remove_group(id);
    bench_.scheduler.forget_group(id);
  }
  static Request inside(GroupId group, Request request, std::int32_t bundle = -1) {
    request.placement = {group, bundle, false};
    return request;
  }
  const Allocation& share(GroupId id, std::size_t bundle) {
    return bench_.scheduler.groups().find(id)->locations[bundle].allocation;
  }
  double available(const std::string& name) {
    const auto use = bench_.scheduler.cluster_use();
    return use.contains(name) ? use.at(name).available.to_double() : -1;
  }

  Bench bench_;
  std::vector<GroupNews> news_;
};

TEST_F(GroupTest, StrictPack_TakesTightestNode) {
  bench_.add_node(1, node_with(8, 8));
  bench_.add_node(2, node_with(8, 4));
  bench_.add_node(3, node_with(8, 2));
  EXPECT_THAT(locations(add(1, GroupStrategy::strict_pack, {gpus(2), gpus(2)})), ElementsAre(2, 2));
  EXPECT_THAT(locations(add(2, GroupStrategy::strict_pack, {gpus(4), gpus(4)})), ElementsAre(1, 1));
  EXPECT_THAT(locations(add(3, GroupStrategy::strict_pack, {gpus(2), gpus(1)})), ElementsAre(0, 0));
  EXPECT_EQ(available("GPU"), 2);
}

TEST_F(GroupTest, PackAndSpread_FallBack) {
  bench_.add_node(1, node_with(2, 0));
  bench_.add_node(2, node_with(2, 0));
  const auto packed = locations(add(1, GroupStrategy::pack, {cpus(1), cpus(1), cpus(1)}));
  EXPECT_EQ(std::set(packed.begin(), packed.end()).size(), 2u);
  remove(GroupId::of(1));
  const auto spread =
      locations(add(2, GroupStrategy::spread, {cpus(1), cpus(1), cpus(1), cpus(1)}));
  EXPECT_EQ(std::ranges::count(spread, 1u), 2);
  EXPECT_EQ(std::ranges::count(spread, 2u), 2);
}

TEST_F(GroupTest, PlacesAllBundlesOrNone) {
  bench_.add_node(1, node_with(3, 0));
  const auto first = add(1, GroupStrategy::pack, {cpus(2)});
  EXPECT_THAT(locations(first), ElementsAre(1));
  const auto second = add(2, GroupStrategy::pack, {cpus(1), cpus(1)});
  EXPECT_THAT(locations(second), ElementsAre(0, 0));
  EXPECT_EQ(available("CPU"), 1) << "nothing of it is booked";
  EXPECT_THAT(news_, IsEmpty()) << "it would fit the empty node";
  remove(first);
  EXPECT_THAT(locations(second), ElementsAre(1, 1));
  ASSERT_EQ(news_.size(), 1u);
  EXPECT_EQ(news_.front().kind, GroupNews::Kind::placed);
}

// A greedy choice would put the unrestricted bundle on the only node with a GPU.
TEST_F(GroupTest, StrictSpread_FindsMatching) {
  bench_.add_node(1, node_with(2, 0));
  bench_.add_node(2, node_with(4, 0));
  bench_.add_node(3, node_with(4, 1));
  EXPECT_THAT(locations(add(1, GroupStrategy::strict_spread, {cpus(2), gpus(1), cpus(4)})),
              ElementsAre(1, 3, 2));
  remove(GroupId::of(1));
  EXPECT_THAT(locations(add(2, GroupStrategy::strict_spread, {cpus(1), cpus(1), cpus(1), cpus(1)})),
              ElementsAre(0, 0, 0, 0));
  ASSERT_EQ(news_.size(), 1u);
  EXPECT_EQ(news_[0].text,
            "4 bundles need 4 nodes, as STRICT_SPREAD asks, and only 3 can hold any");
}

TEST_F(GroupTest, PlacesHigherPriorityFirst) {
  bench_.add_node(1, node_with(2, 0));
  const auto first = add(1, GroupStrategy::pack, {cpus(2)});
  locations(first);
  const auto low = add(2, GroupStrategy::pack, {cpus(2)}, -1);
  const auto usual = add(3, GroupStrategy::pack, {cpus(2)});
  const auto high = add(4, GroupStrategy::pack, {cpus(2)}, 1);
  remove(first);
  EXPECT_THAT(locations(high), ElementsAre(1));
  remove(high);
  EXPECT_THAT(locations(usual), ElementsAre(1));
  remove(usual);
  EXPECT_THAT(locations(low), ElementsAre(1));
}

TEST_F(GroupTest, ConflictingLabelsOnOneNode_AreInfeasible) {
  bench_.add_node(1, node_with(4, 0));
  const auto in_zone = [](const std::string& selector) {
    auto made = cpus(1);
    made.label_selector = {{"zone", selector}};
    return made;
  };
  locations(add(1, GroupStrategy::strict_pack, {in_zone("a"), in_zone("b"), in_zone("a")}));
  ASSERT_EQ(news_.size(), 1u);
  EXPECT_TRUE(news_[0].for_good) << "no node that joins changes it";
  EXPECT_THAT(news_[0].text, HasSubstr("no node can have zone=a and zone=b"));
  const auto explanation =
      bench_.scheduler.explain(bench_.scheduler.groups().find(GroupId::of(1))->spec);
  EXPECT_THAT(explanation.left_over, IsEmpty()) << "other nodes would not help";
  locations(add(2, GroupStrategy::strict_pack, {in_zone("!a"), in_zone("b")}));
  ASSERT_EQ(news_.size(), 1u);
  EXPECT_FALSE(news_[0].for_good) << "a node with zone=b would do";
  locations(add(3, GroupStrategy::pack, {in_zone("a"), in_zone("b")}));
  ASSERT_EQ(news_.size(), 1u);
  EXPECT_FALSE(news_[0].for_good) << "two nodes would do";
}

TEST_F(GroupTest, ReportsInfeasibleGroupOnceWithShortage) {
  bench_.add_node(1, node_with(4, 1));
  bench_.add_node(2, node_with(4, 1));
  add(1, GroupStrategy::pack, {cpus(1), gpus(2)});
  const auto strict = add(2, GroupStrategy::strict_pack, {gpus(1), gpus(1)});
  locations(strict);
  ASSERT_EQ(news_.size(), 2u);
  EXPECT_EQ(
      news_[0].text,
      "no node can ever hold bundle 1 (GPU 2); node 00000001: GPU: needs 2, the node has 1 in all");
  EXPECT_THAT(news_[1].text, HasSubstr("no single node"));
  locations(strict);
  EXPECT_THAT(news_, IsEmpty());
  bench_.add_node(3, node_with(4, 2));
  EXPECT_THAT(locations(strict), ElementsAre(0, 0)) << "the first group is older";
  remove(GroupId::of(1));
  EXPECT_THAT(locations(strict), ElementsAre(3, 3));
}

TEST_F(GroupTest, OpenGroup_AllocatesDevicesOfItsBundles) {
  bench_.add_node(1, node_with(4, 4));
  EXPECT_THAT(bench_.devices(gpus(1)), ElementsAre(0));
  const auto group = add(1, GroupStrategy::pack, {gpus(1), gpus(2)});
  EXPECT_THAT(locations(group), ElementsAre(1, 1));
  EXPECT_THAT(bench_.devices(inside(group, gpus(1))), IsEmpty()) << "not open yet";
  bench_.scheduler.open_group(group);
  EXPECT_THAT(bench_.devices(inside(group, gpus(1), 1)), ElementsAre(1)) << "the larger came first";
  EXPECT_THAT(bench_.devices(inside(group, gpus(1))), ElementsAre(3)) << "bundle 0 fits whole";
  EXPECT_THAT(bench_.devices(inside(group, gpus(1))), ElementsAre(2));
  EXPECT_THAT(bench_.devices(inside(group, gpus(1))), IsEmpty());
  EXPECT_THAT(bench_.devices(gpus(1)), IsEmpty()) << "all four are held";
  EXPECT_EQ(available("GPU"), 0);
}

TEST_F(GroupTest, YieldsIdleBundlesToOlderGroup) {
  for (std::uint64_t node = 1; node <= 4; ++node) bench_.add_node(node, node_with(2, 1));
  const auto older = add(1, GroupStrategy::pack, {gpus(1), gpus(1)});
  const auto younger = add(2, GroupStrategy::pack, {gpus(1), gpus(1)});
  const auto first = opened(older);
  const auto second = opened(younger);
  bench_.scheduler.remove_node(NodeId::of(first[1]));
  bench_.scheduler.remove_node(NodeId::of(second[1]));
  EXPECT_THAT(locations(older), ElementsAre(first[0], 0));
  EXPECT_THAT(locations(younger), ElementsAre(second[0], 0));
  EXPECT_THAT(bench_.scheduler.groups().why_waiting(older), HasSubstr("bundle 1 (GPU 1"));
  EXPECT_THAT(bench_.scheduler.groups().why_waiting(younger), HasSubstr("1 of 2 bundles waits"));

  ASSERT_TRUE(bench_.scheduler.next_deadline());
  EXPECT_LE(*bench_.scheduler.next_deadline(), bench_.now + GroupSettings().yield_delay);
  const auto news = bench_.plan_after(GroupSettings().yield_delay).groups;
  EXPECT_THAT(locations(older), ElementsAre(first[0], second[0]));
  EXPECT_THAT(locations(younger), ElementsAre(0, 0));
  ASSERT_FALSE(news.empty());
  EXPECT_EQ(news.front().group, younger);
  EXPECT_THAT(news.front().text, HasSubstr("were released for placement group"));
}

TEST_F(GroupTest, KeepsBundlesInUse) {
  for (std::uint64_t node = 1; node <= 4; ++node) bench_.add_node(node, node_with(2, 1));
  const auto older = add(1, GroupStrategy::pack, {gpus(1), gpus(1)});
  const auto younger = add(2, GroupStrategy::pack, {gpus(1), gpus(1)});
  const auto first = opened(older);
  const auto second = opened(younger);
  bench_.want(1, 1, inside(younger, gpus(1), 0), 1);
  bench_.plan();
  bench_.scheduler.remove_node(NodeId::of(first[1]));
  bench_.scheduler.remove_node(NodeId::of(second[1]));
  bench_.plan_after(GroupSettings().yield_delay);
  EXPECT_THAT(locations(older), ElementsAre(first[0], 0));
  EXPECT_THAT(locations(younger), ElementsAre(second[0], 0)) << "something runs there";
}

TEST_F(GroupTest, KeepsDeviceBundleForDeviceRequests) {
  bench_.add_node(1, node_with(4, 1));
  const auto group = add(1, GroupStrategy::pack, {request({{"CPU", 1}, {"GPU", 1}}), cpus(1)});
  opened(group);
  bench_.want(1, 1, inside(group, cpus(1)), 2);
  bench_.plan();
  ASSERT_EQ(bench_.granted.size(), 2u);
  EXPECT_EQ(bench_.granted[0].allocation.bundle, 1) << "the bundle without a device first";
  EXPECT_EQ(bench_.granted[1].allocation.bundle, 0) << "rather than wait";
}

TEST_F(GroupTest, NoExecutorFree_UsesDeviceBundle) {
  auto small = node_with(2, 0);
  small.task_executors = 1;
  bench_.add_node(1, small);
  bench_.add_node(2, node_with(1, 1));
  bench_.want(1, 1, cpus(0), 1);
  bench_.plan();
  ASSERT_EQ(number_of(bench_.granted.at(0).node), 1u);
  bench_.want(1, 1, cpus(0), 0);
  const auto group = add(1, GroupStrategy::pack, {cpus(2), request({{"CPU", 1}, {"GPU", 1}})});
  ASSERT_THAT(opened(group), ElementsAre(1, 2));
  bench_.want(1, 1, inside(group, cpus(0.5)), 2);
  bench_.plan();
  ASSERT_EQ(bench_.granted.size(), 3u);
  EXPECT_EQ(bench_.granted[1].allocation.bundle, 1) << "node 1 has no free executor";
  bench_.scheduler.release(bench_.granted[0].id);
  bench_.want(1, 1, inside(group, cpus(0.5)), 3);
  bench_.plan();
  ASSERT_EQ(bench_.granted.size(), 4u);
  EXPECT_EQ(bench_.granted[3].allocation.bundle, 0) << "node 1 has one again";
}

TEST_F(GroupTest, UsesFirstBundleThatFitsWholeRequest) {
  bench_.add_node(1, node_with(8, 0));
  const auto group = add(1, GroupStrategy::pack, {cpus(1), cpus(3)});
  opened(group);
  bench_.want(1, 1, inside(group, cpus(2)), 1);
  const auto grants = bench_.plan().grants;
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].allocation.bundle, 1);
  EXPECT_EQ(grants[0].allocation.group, group);
}

TEST_F(GroupTest, ExecutorFreed_ServesBundlesOfNode) {
  auto shape = node_with(4, 0);
  shape.task_executors = 1;
  bench_.add_node(1, shape);
  const auto group = add(1, GroupStrategy::pack, {cpus(1)});
  bench_.want(1, 1, cpus(1), 1);
  opened(group);
  ASSERT_EQ(bench_.granted.size(), 1u);
  bench_.want(1, 1, inside(group, cpus(1)), 1);
  EXPECT_TRUE(bench_.plan().grants.empty());
  bench_.scheduler.release(bench_.granted[0].id);
  EXPECT_EQ(bench_.plan().grants.size(), 1u);
}

TEST_F(GroupTest, PacksFractionsWithinBundleDevice) {
  bench_.add_node(1, node_with(4, 2));
  const auto group = add(1, GroupStrategy::pack, {gpus(0.5), gpus(1)});
  opened(group);
  EXPECT_THAT(bench_.devices(inside(group, gpus(0.25), 0)), ElementsAre(1));
  EXPECT_THAT(bench_.devices(inside(group, gpus(0.25), 0)), ElementsAre(1));
  EXPECT_THAT(bench_.devices(inside(group, gpus(0.25), 0)), IsEmpty());
  EXPECT_THAT(bench_.devices(gpus(0.5)), ElementsAre(1)) << "the other half is outside the bundle";
}

TEST_F(GroupTest, TakesDevicesOfBundleFromOneIsland) {
  auto shape = node_with(8, 8);
  for (auto& resource : shape.resources) {
    if (resource.name != "GPU") continue;
    for (std::size_t i = 0; i < 8; ++i) {
      resource.instances[i].island = i < 4 ? 0 : 1;
    }
  }
  bench_.add_node(1, shape);
  EXPECT_THAT(bench_.devices(gpus(1)), ElementsAre(0));
  const auto four = add(1, GroupStrategy::pack, {gpus(4)});
  locations(four);
  std::vector<std::uint32_t> indices;
  for (const auto& each : share(four, 0).find("GPU")->shares) indices.push_back(each.index);
  EXPECT_THAT(indices, ElementsAre(4, 5, 6, 7));
  const auto two = add(2, GroupStrategy::pack, {gpus(2)});
  EXPECT_THAT(locations(two), ElementsAre(1));
}

TEST_F(GroupTest, BundleGpuMemory_IsAllocatedAndShared) {
  bench_.add_node(1, node_shape(8, {{1, 80 * gib}, {1, 80 * gib}}));
  const auto group = add(1, GroupStrategy::strict_pack,
                         {device_memory(0, 24), device_memory(0.5, 12), device_memory(1, 40)});
  EXPECT_THAT(opened(group), ElementsAre(1, 1, 1));
  const auto held = [&](std::size_t bundle) { return share(group, bundle).find("GPU")->shares; };
  const auto part = Quantity::from_units(3000);  // 24 of 80
  EXPECT_EQ(held(0), (std::vector<InstanceShare>{{1, part, 24 * gib}}));
  EXPECT_EQ(held(1), (std::vector<InstanceShare>{{1, amount(0.5), 12 * gib}}));
  EXPECT_EQ(held(2), (std::vector<InstanceShare>{{0, amount(1), 80 * gib}})) << "the whole device";
  EXPECT_DOUBLE_EQ(available("GPU"), 0.2);

  const auto in = [&](std::int32_t bundle, Request request) {
    return inside(group, std::move(request), bundle);
  };
  const auto code = [&](const Request& request) {
    return bench_.scheduler.explain(request, ProgramId::of(1)).nodes[0].reason.code;
  };
  EXPECT_EQ(code(in(0, device_memory(0, 25))), ReasonCode::gpu_memory_too_small);
  EXPECT_THAT(bench_.devices(in(0, device_memory(0, 16))), ElementsAre(1));
  EXPECT_THAT(bench_.devices(in(0, device_memory(0, 16))), IsEmpty());
  EXPECT_EQ(code(in(0, device_memory(0, 16))), ReasonCode::resource_busy);
  EXPECT_THAT(bench_.devices(in(0, device_memory(0, 8))), ElementsAre(1));
  EXPECT_THAT(bench_.devices(in(1, gpus(0.25))), ElementsAre(1)) << "and 6 GiB";
  EXPECT_EQ(code(in(1, device_memory(0.25, 7))), ReasonCode::gpu_memory_busy);
  EXPECT_THAT(bench_.devices(in(1, device_memory(0.25, 6))), ElementsAre(1));
  EXPECT_THAT(bench_.devices(in(2, device_memory(0, 60))), ElementsAre(0)) << "more than was asked";
  EXPECT_EQ(code(device_memory(0, 17)), ReasonCode::resource_busy)
      << "16 GiB are outside all bundles";
  EXPECT_EQ(code(device_memory(0.1, 45)), ReasonCode::gpu_memory_busy);
  EXPECT_THAT(bench_.devices(device_memory(0.2, 44)), ElementsAre(1));
}

// In the given order, the small bundles would fill one device and leave too little of both.
TEST_F(GroupTest, PlacesLargeMemoryBundlesFirst) {
  bench_.add_node(1, node_shape(8, {{1, 80 * gib}, {1, 80 * gib}}));
  const auto group =
      add(1, GroupStrategy::strict_pack,
          {device_memory(0, 30), device_memory(0, 30), device_memory(0, 50), device_memory(0, 50)});
  EXPECT_THAT(locations(group), ElementsAre(1, 1, 1, 1));
}

TEST_F(GroupTest, BundleBeyondDeviceMemory_IsInfeasible) {
  bench_.add_node(1, node_shape(8, {{1, 80 * gib}}));
  locations(add(1, GroupStrategy::pack, {cpus(1), device_memory(0, 81)}));
  ASSERT_EQ(news_.size(), 1u);
  EXPECT_EQ(news_[0].text,
            "no node can ever hold bundle 1 (gpu_memory 86973087744); node 00000001: "
            "gpu_memory: needs 86973087744 bytes, the largest device has 85899345920");
  locations(add(2, GroupStrategy::pack, {device_memory(1, 81)}));
  ASSERT_EQ(news_.size(), 1u);
  EXPECT_EQ(news_[0].text,
            "no node can ever hold bundle 0 (GPU 1, gpu_memory 86973087744); node 00000001: "
            "gpu_memory: needs 86973087744 bytes, the largest device has 85899345920");
}

TEST_F(GroupTest, ReplacesLostBundlesBeforeNewGroups) {
  for (std::uint64_t node = 1; node <= 3; ++node) bench_.add_node(node, node_with(2, 0));
  const auto group = add(1, GroupStrategy::strict_spread, {cpus(2), cpus(2)});
  const auto before = opened(group);
  bench_.want(1, 1, inside(group, cpus(1), 0), 1);
  ASSERT_EQ(bench_.plan().grants.size(), 1u);
  const auto later = add(2, GroupStrategy::pack, {cpus(2)});
  EXPECT_THAT(locations(later), ElementsAre(3));
  const auto third = add(3, GroupStrategy::pack, {cpus(2)});
  bench_.scheduler.remove_node(Bench::node(before[1]));
  EXPECT_THAT(locations(third), ElementsAre(0));
  ASSERT_GE(news_.size(), 1u);
  EXPECT_EQ(news_[0].kind, GroupNews::Kind::lost);
  EXPECT_THAT(locations(group), ElementsAre(before[0], 0));
  EXPECT_EQ(bench_.slots_of_job(1).size(), 1u) << "the slot in the other bundle keeps running";
  remove(later);
  EXPECT_THAT(locations(group), ElementsAre(before[0], 3)) << "before the group that waits longer";
  EXPECT_THAT(locations(third), ElementsAre(0));
}

TEST_F(GroupTest, RemovedGroup_KeepsBundlesInUse) {
  bench_.add_node(1, node_with(4, 0));
  const auto group = add(1, GroupStrategy::pack, {cpus(2), cpus(2)});
  opened(group);
  bench_.want(1, 1, inside(group, cpus(1), 1), 1);
  ASSERT_EQ(bench_.plan().grants.size(), 1u);
  bench_.want(1, 1, inside(group, cpus(1), 1), 0);
  const auto users = bench_.scheduler.remove_group(group);
  ASSERT_EQ(users.size(), 1u);
  EXPECT_EQ(available("CPU"), 0) << "the record still has it";
  bench_.scheduler.forget_group(group);
  bench_.plan();
  EXPECT_EQ(available("CPU"), 0) << "its bundles are freed together";
  EXPECT_EQ(bench_.scheduler.verify_books(), "");
  ASSERT_TRUE(bench_.scheduler.next_deadline());
  EXPECT_EQ(*bench_.scheduler.next_deadline(), bench_.now + GroupSettings().removal_delay);
  bench_.plan_after(GroupSettings().removal_delay);
  EXPECT_EQ(available("CPU"), 2) << "its other bundle takes too long";
  EXPECT_EQ(bench_.scheduler.verify_books(), "");
  bench_.scheduler.release(users[0]);
  EXPECT_EQ(available("CPU"), 4);
  EXPECT_EQ(bench_.scheduler.groups().find(group), nullptr);
  EXPECT_EQ(bench_.scheduler.verify_books(), "");
}

TEST_F(GroupTest, RemovedGroup_LeavesAllDevicesToHigherPriority) {
  bench_.add_node(1, node_with(4, 2));
  const auto group = add(1, GroupStrategy::pack, {gpus(1), gpus(1)});
  opened(group);
  for (std::int32_t bundle = 0; bundle < 2; ++bundle) {
    const auto which = static_cast<std::uint64_t>(bundle) + 1;
    bench_.want(1, which, inside(group, gpus(1), bundle), 1);
  }
  ASSERT_EQ(bench_.plan().grants.size(), 2u);
  const auto modest = add(2, GroupStrategy::pack, {gpus(1)});
  const auto urgent = add(3, GroupStrategy::pack, {gpus(2)}, 1);
  const auto users = bench_.scheduler.remove_group(group);
  bench_.scheduler.forget_group(group);
  ASSERT_EQ(users.size(), 2u);
  bench_.scheduler.release(users[0]);
  EXPECT_THAT(locations(modest), ElementsAre(0)) << "the other device follows";
  bench_.scheduler.release(users[1]);
  EXPECT_THAT(locations(urgent), ElementsAre(1));
  EXPECT_THAT(locations(modest), ElementsAre(0));
  EXPECT_EQ(bench_.scheduler.verify_books(), "");
}

TEST_F(GroupTest, BlockedUser_ReleasesCpuToBundle) {
  bench_.add_node(1, node_with(2, 0));
  const auto group = add(1, GroupStrategy::pack, {cpus(1)});
  opened(group);
  bench_.want(1, 1, inside(group, cpus(1)), 2);
  ASSERT_EQ(bench_.plan().grants.size(), 1u);
  bench_.scheduler.release_cpu(bench_.granted.back().id);
  EXPECT_EQ(available("CPU"), 1) << "the bundle's CPU is not the node's to give";
  const auto grants = bench_.plan().grants;
  ASSERT_EQ(grants.size(), 1u);
  bench_.scheduler.reacquire_cpu(bench_.granted.front().id);
  EXPECT_EQ(bench_.scheduler.verify_books(), "");
}

TEST_F(GroupTest, RestoredGroup_IsAllocatedWithItsNode) {
  bench_.add_node(1, node_with(2, 0));
  const auto group = add(1, GroupStrategy::pack, {cpus(1)});
  opened(group);
  bench_.want(1, 1, inside(group, cpus(1)), 1);
  ASSERT_EQ(bench_.plan().grants.size(), 1u);
  const auto& row = *bench_.scheduler.groups().find(group);

  Bench anew;
  anew.scheduler.add_group(row.spec, row.locations);
  anew.scheduler.open_group(group);
  EXPECT_TRUE(anew.plan().groups.empty()) << "it has its place, though the node is not there yet";
  anew.add_node(1, node_with(2, 0));
  anew.scheduler.restore_bundles(Bench::node(1));
  EXPECT_TRUE(anew.scheduler.restore(bench_.granted.back()));
  EXPECT_TRUE(anew.plan().empty());
  EXPECT_EQ(anew.scheduler.cluster_use().at("CPU").available.to_double(), 1);
  anew.scheduler.remove_node(Bench::node(1));
  const auto news = anew.plan().groups;
  ASSERT_EQ(news.size(), 2u) << "lost, and no node can hold it";
  EXPECT_EQ(news[0].kind, GroupNews::Kind::lost);
  EXPECT_EQ(news[1].kind, GroupNews::Kind::infeasible);
}

TEST_F(GroupTest, RestoredBundleTaken_IsLost) {
  bench_.add_node(1, node_with(2, 0));
  const auto group = add(1, GroupStrategy::pack, {cpus(1)});
  opened(group);
  bench_.want(1, 1, cpus(1), 1);
  ASSERT_EQ(bench_.plan().grants.size(), 1u);
  auto row = *bench_.scheduler.groups().find(group);
  Bench anew;
  anew.scheduler.add_group(row.spec, row.locations);
  anew.add_node(1, node_with(1, 0));
  EXPECT_TRUE(anew.scheduler.restore(bench_.granted.back()));
  anew.scheduler.restore_bundles(Bench::node(1));
  const auto news = anew.plan().groups;
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].kind, GroupNews::Kind::lost);
}

TEST_F(GroupTest, ProgramCannotStart_BundlesMove) {
  bench_.add_node(1, node_with(2, 0));
  const auto group = add(1, GroupStrategy::pack, {cpus(2)});
  EXPECT_THAT(opened(group), ElementsAre(1));
  bench_.want(1, 1, inside(group, cpus(1)), 1);
  const auto grants = bench_.plan().grants;
  ASSERT_EQ(grants.size(), 1u);
  bench_.scheduler.set_program_state(Bench::node(1), ProgramId::of(1), "no such library");
  EXPECT_THAT(locations(group), ElementsAre(1)) << "the one that could not start is not gone yet";
  bench_.scheduler.release(grants[0].id);
  EXPECT_THAT(locations(group), ElementsAre(0));
  EXPECT_EQ(news_[0].kind, GroupNews::Kind::lost);
  bench_.add_node(2, node_with(2, 0));
  EXPECT_THAT(locations(group), ElementsAre(2));
}

TEST_F(GroupTest, MeetsBundleLabelsAndExplainNamesRule) {
  auto shape = node_with(2, 0);
  shape.labels = {{"zone", "a"}};
  bench_.add_node(1, node_with(4, 0));
  bench_.add_node(2, shape);
  auto in_zone = cpus(1);
  in_zone.label_selector = {{"zone", "a"}};
  const auto group = add(1, GroupStrategy::pack, {in_zone, cpus(4)});
  EXPECT_THAT(locations(group), ElementsAre(2, 1));
  GroupSpec other = bench_.scheduler.groups().find(group)->spec;
  other.id = GroupId::of(9);
  const auto why = bench_.scheduler.explain(other);
  EXPECT_TRUE(why.feasible);
  ASSERT_EQ(why.bundles.size(), 2u);
  EXPECT_EQ(why.bundles[0].nodes[0].reason.code, ReasonCode::label_mismatch);
  EXPECT_EQ(why.bundles[1].nodes[0].reason.code, ReasonCode::resource_busy);
}

TEST_F(GroupTest, ExplainsOversizedRequestAndUnknownGroup) {
  bench_.add_node(1, node_with(2, 0));
  const auto why = bench_.scheduler.explain(inside(GroupId::of(5), cpus(1)), ProgramId::of(1));
  EXPECT_TRUE(why.feasible) << "its creation may be on its way";
  EXPECT_EQ(why.nodes[0].reason.code, ReasonCode::group_unplaced);
  const auto group = add(1, GroupStrategy::pack, {cpus(1)});
  EXPECT_EQ(bench_.scheduler.explain(inside(group, cpus(1)), ProgramId::of(1)).nodes[0].reason.code,
            ReasonCode::group_unplaced);
  opened(group);
  const auto large = bench_.scheduler.explain(inside(group, cpus(2)), ProgramId::of(1));
  EXPECT_FALSE(large.feasible);
  EXPECT_EQ(large.nodes[0].reason.code, ReasonCode::resource_too_small);
  EXPECT_EQ(large.nodes[0].reason.detail, "of bundle 0");
}

TEST_F(GroupTest, RecallsNothingFromBundles) {
  bench_.add_node(1, node_with(2, 0));
  const auto group = add(1, GroupStrategy::pack, {cpus(1), cpus(1)});
  opened(group);
  bench_.want(1, 1, inside(group, cpus(1)), 2);
  EXPECT_EQ(bench_.plan().grants.size(), 2u);
  bench_.want(2, 2, cpus(1), 1);
  for (int i = 0; i < 60; ++i) EXPECT_THAT(bench_.plan_after(100ms).recalls, IsEmpty());
  EXPECT_EQ(bench_.scheduler.explain(cpus(1), ProgramId::of(1)).nodes.front().reason.code,
            ReasonCode::resource_busy)
      << "a node is not reserved if recalls cannot free enough";
}

}  // namespace
}  // namespace mobula::internal::scheduler
