// Tests two nodes that offer the same physical device.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

// Returns a node with a GPU for each uuid.
NodeShape shape_with(const std::vector<std::string>& uuids) {
  auto shape = SmallCluster::shape(4, static_cast<int>(uuids.size()));
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    shape.resources[1].instances[i].uuid = uuids[i];
  }
  return shape;
}

class DeviceClaims : public testing::Test {
 protected:
  Json node(const TestAgent& agent) {
    return Json::parse(cluster.tool("get", "node", agent.node.hex()).json);
  }
  std::vector<std::uint32_t> devices_of(const StartSlot& slot) {
    std::vector<std::uint32_t> indices;
    for (const auto& share : slot.allocation.find("GPU")->shares) indices.push_back(share.index);
    return indices;
  }

  SmallCluster cluster;
  TestAgent& first = cluster.node_joins(1, shape_with({"GPU-aa", "GPU-bb"}));
  TestAgent& second = cluster.node_joins(2, shape_with({"GPU-bb", "GPU-cc"}));
};

TEST_F(DeviceClaims, NamesDeviceAndHolderToSecondRegistrant) {
  EXPECT_TRUE(first.registered->warnings.empty());
  ASSERT_EQ(second.registered->warnings.size(), 1u);
  EXPECT_THAT(second.registered->warnings[0], HasSubstr("GPU 0 (GPU-bb)"));
  EXPECT_THAT(second.registered->warnings[0], HasSubstr(first.node.hex()));
}

TEST_F(DeviceClaims, ShowsRejectedDevicesInNodeLists) {
  const Json list = Json::parse(cluster.tool("list", "nodes").json);
  ASSERT_EQ(list["warnings"].size(), 1u);
  EXPECT_THAT(list["warnings"][0].get<std::string>(), HasSubstr(second.node.hex()));
  const Json refused = node(second)["refused_devices"];
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0]["uuid"], "GPU-bb");
  EXPECT_EQ(refused[0]["held_by"], first.node.hex());
  EXPECT_EQ(node(second)["resources"]["GPU"]["total"], 1);
  EXPECT_FALSE(node(first).contains("refused_devices"));
  EXPECT_EQ(node(first)["resources"]["GPU"]["total"], 2);
}

TEST_F(DeviceClaims, AllocatesDeviceOnlyToFirstRegistrant) {
  cluster.driver_starts_job(first, 1);
  cluster.wants(first, cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}}), 4);
  EXPECT_EQ(cluster.take<StartSlot>(first).size(), 2u);
  const auto slots = cluster.take<StartSlot>(second);
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(devices_of(slots[0]), std::vector<std::uint32_t>{1});
}

TEST_F(DeviceClaims, AllocatesNoShareOfRejectedDevice) {
  cluster.driver_starts_job(first, 1);
  cluster.wants(first, cluster.demand_class(1, 1, {{"GPU", Quantity::from_units(5'000)}}), 8);
  EXPECT_EQ(cluster.take<StartSlot>(first).size(), 4u);
  EXPECT_EQ(cluster.take<StartSlot>(second).size(), 2u);
}

TEST_F(DeviceClaims, HolderDied_SecondNodeGetsDevice) {
  cluster.driver_starts_job(second, 1);
  cluster.wants(second, cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}}), 3);
  ASSERT_EQ(cluster.take<StartSlot>(second).size(), 1u);
  ASSERT_EQ(node(second)["resources"]["GPU"]["available"], 0);
  cluster.raw(first, AgentStopped{first.incarnation});
  EXPECT_EQ(node(second)["resources"]["GPU"]["total"], 2);
  EXPECT_FALSE(node(second).contains("refused_devices"));
  EXPECT_TRUE(Json::parse(cluster.tool("list", "nodes").json)["warnings"].empty());
  const auto more = cluster.take<StartSlot>(second);
  ASSERT_EQ(more.size(), 1u) << "the device that was refused, and no other";
  EXPECT_EQ(devices_of(more[0]), std::vector<std::uint32_t>{0});
}

TEST_F(DeviceClaims, HolderReincarnated_KeepsItsDevices) {
  cluster.comes_back_as(first, 7);
  cluster.register_agent(first);
  EXPECT_EQ(node(first)["resources"]["GPU"]["total"], 2);
  EXPECT_EQ(node(second)["refused_devices"].size(), 1u);
}

TEST_F(DeviceClaims, DevicesWithoutUuid_NeverConflict) {
  cluster.node_joins(3, SmallCluster::shape(1, 2));
  const auto& fourth = cluster.node_joins(4, SmallCluster::shape(1, 2));
  EXPECT_TRUE(fourth.registered->warnings.empty());
  EXPECT_EQ(node(fourth)["resources"]["GPU"]["total"], 2);
}

TEST_F(DeviceClaims, ShowsDevicesAndPolicyOfNode) {
  const Json shown = node(first);
  EXPECT_EQ(shown["devices"]["GPU"][0]["uuid"], "GPU-aa");
  EXPECT_EQ(shown["devices"]["GPU"][1]["id"], "1");
  EXPECT_EQ(shown["device_policy"]["unasked_devices"], "hidden");
  auto open = shape_with({});
  open.device_policy = {.hide_unasked = false, .left_alone = {"CUDA_VISIBLE_DEVICES"}};
  const Json other = node(cluster.node_joins(5, open));
  EXPECT_EQ(other["device_policy"]["unasked_devices"], "shown");
  EXPECT_EQ(other["device_policy"]["variables_left_alone"][0], "CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace mobula::internal::head
