#include "device/mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

ResourceShape devices(std::string name, const std::vector<std::string>& ids) {
  ResourceShape shape{.name = std::move(name), .instances = {}};
  for (const auto& id : ids) {
    shape.instances.push_back({.total = Quantity::whole(1), .visible_id = id, .types = {}});
  }
  return shape;
}

ResourceShare given(std::string name, const std::vector<std::uint32_t>& indices) {
  ResourceShare share{.name = std::move(name), .shares = {}};
  for (const auto index : indices) {
    share.shares.push_back({.index = index, .amount = Quantity::whole(1)});
  }
  return share;
}

NodeShape node_with(std::vector<ResourceShape> resources) {
  NodeShape node;
  node.resources = std::move(resources);
  return node;
}

Allocation allocation_of(std::vector<ResourceShare> shares) {
  Allocation allocation;
  allocation.resources = std::move(shares);
  return allocation;
}

const NodeShape gpu_node =
    node_with({devices("CPU", {""}), devices("GPU", {"1", "GPU-8f", "MIG-3"})});

// Masks with all devices hidden that the slot does not have.
Environment masks(const NodeShape& node, const Allocation& allocation,
                  const std::vector<Vendor>& present = {}) {
  return device_environment(node, allocation, {}, present);
}

NodeShape gpus_of(std::string vendor, const std::vector<std::string>& ids) {
  NodeShape node = node_with({devices("GPU", ids)});
  node.resources[0].vendor = std::move(vendor);
  return node;
}

TEST(Mask, ShowsAllocatedEntriesInPciOrder) {
  const auto env = masks(gpu_node, allocation_of({given("GPU", {2, 0})}));
  EXPECT_THAT(env, UnorderedElementsAre(Pair("CUDA_VISIBLE_DEVICES", "1,MIG-3"),
                                        Pair("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
                                        Pair("NEURON_RT_VISIBLE_CORES", "")));
}

TEST(Mask, SlotWithoutDevices_SeesNone) {
  for (const NodeShape& node : {gpu_node, NodeShape{}}) {
    const auto env = masks(node, allocation_of({given("CPU", {0})}));
    EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "");
    EXPECT_EQ(env.at("NEURON_RT_VISIBLE_CORES"), "");
  }
}

// One row per vendor: its mask for devices 1 and 3, and the value that hides all devices.
struct MaskRow {
  Vendor vendor;
  std::string one_and_three;
  std::string none;
  std::string second_one_and_three = {};  // its second mask, if the runtime sets one
  std::string second_none = {};
};

class VendorMask : public testing::TestWithParam<MaskRow> {};

TEST_P(VendorMask, MatchesVendorFormat) {
  const MaskRow& row = GetParam();
  const VendorRow& vendor = row_of(row.vendor);
  const std::string resource(vendor.resource);
  const std::string variable(vendor.variable);
  NodeShape node = node_with({devices(resource, {"0", "1", "2", "3"})});
  node.resources[0].vendor = vendor.name;

  const auto env = masks(node, allocation_of({given(resource, {1, 3})}));
  EXPECT_EQ(env.at(variable), row.one_and_three);
  const auto hidden = masks(node, {});
  EXPECT_EQ(hidden.at(variable), row.none);
  const std::string second(vendor.second.variable);
  const bool has_second = !row.second_one_and_three.empty();
  EXPECT_EQ(env.contains(second), has_second);
  EXPECT_EQ(hidden.contains(second), has_second);
  if (has_second) {
    EXPECT_EQ(env.at(second), row.second_one_and_three);
    EXPECT_EQ(hidden.at(second), row.second_none);
  }
  for (const auto& set : {env, hidden}) {
    for (const auto& [name, value] : set) {
      EXPECT_TRUE(is_accelerator_variable(name)) << name << " is set, so users may not set it";
    }
  }
  EXPECT_EQ(masks(NodeShape{}, {}, {row.vendor}).at(variable), row.none)
      << "devices that a machine has and its node does not offer are hidden";
  EXPECT_EQ(masks(NodeShape{}, {}).contains(variable),
            variable == "CUDA_VISIBLE_DEVICES" || variable == "NEURON_RT_VISIBLE_CORES");
  const DevicePolicy open{.hide_unasked = false};
  EXPECT_FALSE(device_environment(node, {}, open).contains(variable));
  EXPECT_EQ(device_environment(node, allocation_of({given(resource, {1, 3})}), open).at(variable),
            row.one_and_three);
  const DevicePolicy left{.left_alone = {variable}};
  const auto unset = device_environment(node, allocation_of({given(resource, {1})}), left);
  EXPECT_FALSE(unset.contains(variable));
  EXPECT_FALSE(unset.contains(second)) << "it would change what the first means";
}

INSTANTIATE_TEST_SUITE_P(
    Vendors, VendorMask,
    testing::Values(MaskRow{Vendor::amd, "1,3", "-1"},
                    MaskRow{Vendor::intel, "level_zero:0,1", "!*:gpu", "1,3", "4096"},
                    MaskRow{Vendor::nvidia, "1,3", ""}, MaskRow{Vendor::metax, "1,3", ""},
                    MaskRow{Vendor::biren, "1,3", ""}, MaskRow{Vendor::cambricon, "1,3", ""},
                    MaskRow{Vendor::neuron, "1,3", ""}, MaskRow{Vendor::tpu, "1,3", ""},
                    MaskRow{Vendor::gaudi, "1,3", ""}, MaskRow{Vendor::ascend, "1,3", ""},
                    MaskRow{Vendor::rebellions, "1,3", ""},
                    MaskRow{Vendor::furiosa, "npu:1,npu:3", ""},
                    MaskRow{Vendor::tenstorrent, "1,3", ""},
                    MaskRow{Vendor::mobilint, "1,3", "", "1,3", ""}),
    [](const auto& row) { return std::string(row_of(row.param.vendor).name); });

TEST(Mask, SeveralVendors_HaveSeparateVariables) {
  NodeShape node = node_with({devices("GPU", {"0", "1"}), devices("HPU", {"4", "5"}),
                              devices("neuron_cores", {"2", "3"})});
  node.resources[0].vendor = "amd";
  const auto env = masks(node, allocation_of({given("GPU", {1}), given("neuron_cores", {0, 1})}));
  EXPECT_EQ(env.at("HIP_VISIBLE_DEVICES"), "1");
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "") << "another vendor's devices stay hidden";
  EXPECT_EQ(env.at("HABANA_VISIBLE_MODULES"), "");
  EXPECT_EQ(env.at("NEURON_RT_VISIBLE_CORES"), "2,3");
  EXPECT_FALSE(env.contains("RBLN_DEVICES"));
}

TEST(Mask, SharedVariable_HidesNoOtherVendor) {
  const auto node = gpus_of("metax", {"0", "1"});
  EXPECT_EQ(
      masks(node, allocation_of({given("GPU", {1})}), {Vendor::nvidia}).at("CUDA_VISIBLE_DEVICES"),
      "1");
}

TEST(Mask, OrdersIntelCardsByPci) {
  const auto env = masks(gpus_of("intel", {"0", "1"}), allocation_of({given("GPU", {1})}));
  EXPECT_EQ(env.at("ZE_FLAT_DEVICE_HIERARCHY"), "COMPOSITE");
  EXPECT_EQ(env.at("ZE_ENABLE_PCI_ID_DEVICE_ORDER"), "1");
}

TEST(Mask, IntelSelector_CountsWithinAffinityMask) {
  const auto node = gpus_of("intel", {"2", "3", "5"});
  const auto slot = allocation_of({given("GPU", {0, 2})});
  const auto env = masks(node, slot);
  EXPECT_EQ(env.at("ZE_AFFINITY_MASK"), "2,5");
  EXPECT_EQ(env.at("ONEAPI_DEVICE_SELECTOR"), "level_zero:0,1");
  const DevicePolicy without{.left_alone = {"ZE_AFFINITY_MASK"}};
  const auto one = device_environment(node, slot, without);
  EXPECT_FALSE(one.contains("ZE_AFFINITY_MASK"));
  EXPECT_EQ(one.at("ONEAPI_DEVICE_SELECTOR"), "level_zero:2,5");
  const auto none = device_environment(node, {}, without);
  EXPECT_FALSE(none.contains("ZE_AFFINITY_MASK"));
  EXPECT_EQ(none.at("ONEAPI_DEVICE_SELECTOR"), "!*:gpu");
}

TEST(Mask, DescribesPartOfTpuHostByBounds) {
  const NodeShape node = node_with({devices("TPU", {"0", "1", "2", "3"})});
  const auto bounds = [&](std::vector<std::uint32_t> chips) {
    auto env = masks(node, allocation_of({given("TPU", chips)}));
    return env["TPU_CHIPS_PER_HOST_BOUNDS"] + " " + env["TPU_HOST_BOUNDS"];
  };
  EXPECT_EQ(bounds({2}), "1,1,1 1,1,1");
  EXPECT_EQ(bounds({0, 1}), "1,2,1 1,1,1");
  EXPECT_EQ(bounds({0, 1, 2, 3}), " ");
}

TEST(Mask, CallsAndJobs_OverrideNodePolicy) {
  const DevicePolicy hides;
  const DevicePolicy shows{.hide_unasked = false, .left_alone = {"X"}};
  const Environment one{{"MOBULA_SHOW_DEVICES", "1"}};
  const Environment zero{{"MOBULA_SHOW_DEVICES", "0"}};
  const Environment nonsense{{"MOBULA_SHOW_DEVICES", "perhaps"}};
  EXPECT_TRUE(policy_for(hides, {}, {}).hide_unasked);
  EXPECT_FALSE(policy_for(hides, one, {}).hide_unasked);
  EXPECT_FALSE(policy_for(hides, {}, one).hide_unasked);
  EXPECT_TRUE(policy_for(hides, zero, one).hide_unasked) << "the call goes before the job";
  EXPECT_TRUE(policy_for(shows, zero, {}).hide_unasked);
  EXPECT_FALSE(policy_for(shows, nonsense, {}).hide_unasked);
  EXPECT_THAT(policy_for(shows, zero, {}).left_alone, ElementsAre("X"));
}

TEST(Mask, CustomUnits_HaveIdsButNoVariable) {
  NodeShape node = node_with({devices("fpga", {"0", "1", "2"})});
  node.resources[0].unit = true;
  const Allocation slot = allocation_of({given("fpga", {2, 1})});
  EXPECT_THAT(all_instance_ids(node, slot), ElementsAre(Pair("fpga", ElementsAre("1", "2"))));
  EXPECT_EQ(masks(node, slot), masks(node, {}));
}

TEST(Mask, Ids_MatchVariable) {
  const Allocation slot = allocation_of({given("CPU", {0}), given("GPU", {0, 1})});
  EXPECT_THAT(instance_ids(gpu_node, slot, "GPU"), ElementsAre("1", "GPU-8f"));
  EXPECT_THAT(instance_ids(gpu_node, slot, "CPU"), IsEmpty());
  EXPECT_THAT(instance_ids(gpu_node, slot, "TPU"), IsEmpty());
  EXPECT_THAT(all_instance_ids(gpu_node, slot),
              ElementsAre(Pair("GPU", ElementsAre("1", "GPU-8f"))));
}

TEST(Mask, SharesOfOneDevice_SeeSameDevice) {
  Allocation half = allocation_of({given("GPU", {1})});
  half.resources[0].shares[0].amount = Quantity::from_units(5'000);
  EXPECT_THAT(instance_ids(gpu_node, half, "GPU"), ElementsAre("GPU-8f"));
}

TEST(MaskDeathTest, AbortsOnInstanceUnknownToNode) {
  EXPECT_DEATH(instance_ids(gpu_node, allocation_of({given("GPU", {3})}), "GPU"), "has 3");
}

}  // namespace
}  // namespace mobula::internal
