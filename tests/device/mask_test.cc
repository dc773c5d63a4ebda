#include "device/mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
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
  return Allocation{.resources = std::move(shares)};
}

const NodeShape gpu_node =
    node_with({devices("CPU", {""}), devices("GPU", {"1", "GPU-8f", "MIG-3"})});

TEST(Mask, ASlotSeesTheEntriesItWasGivenInPciOrder) {
  const auto env = device_environment(gpu_node, allocation_of({given("GPU", {2, 0})}));
  EXPECT_THAT(env, UnorderedElementsAre(Pair("CUDA_VISIBLE_DEVICES", "1,MIG-3"),
                                        Pair("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
                                        Pair("NEURON_RT_VISIBLE_CORES", "")));
}

TEST(Mask, ASlotWithoutDevicesSeesNone) {
  for (const NodeShape& node : {gpu_node, NodeShape{}}) {
    const auto env = device_environment(node, allocation_of({given("CPU", {0})}));
    EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "");
    EXPECT_EQ(env.at("NEURON_RT_VISIBLE_CORES"), "");
  }
}

TEST(Mask, WithTheOptOutOnlyWhatWasGivenIsSet) {
  const MaskPolicy open{.hide_unasked = false};
  EXPECT_THAT(device_environment(gpu_node, {}, open), IsEmpty());
  EXPECT_EQ(device_environment(gpu_node, allocation_of({given("GPU", {1})}), open)
                .at("CUDA_VISIBLE_DEVICES"),
            "GPU-8f");
}

TEST(Mask, EveryVendorHasItsVariable) {
  const NodeShape node = node_with({devices("GPU", {"0", "1"}), devices("HPU", {"4", "5"}),
                                    devices("TPU", {"0"}), devices("neuron_cores", {"2", "3"})});
  const Allocation all =
      allocation_of({given("GPU", {1}), given("HPU", {0}), given("neuron_cores", {0, 1})});
  auto env = device_environment(node, all, {.gpu_vendor = GpuVendor::amd});
  EXPECT_EQ(env.at("HIP_VISIBLE_DEVICES"), "1");
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "") << "another vendor's devices stay hidden";
  EXPECT_EQ(env.at("HABANA_VISIBLE_MODULES"), "4");
  EXPECT_EQ(env.at("TPU_VISIBLE_CHIPS"), "");
  EXPECT_EQ(env.at("NEURON_RT_VISIBLE_CORES"), "2,3");
  EXPECT_FALSE(env.contains("RBLN_DEVICES"));
  env = device_environment(node, all, {.gpu_vendor = GpuVendor::intel});
  EXPECT_EQ(env.at("ONEAPI_DEVICE_SELECTOR"), "level_zero:1");
  EXPECT_FALSE(env.contains("HIP_VISIBLE_DEVICES"));
}

TEST(Mask, IdsAreTheSameStringsAsInTheVariable) {
  const Allocation slot = allocation_of({given("CPU", {0}), given("GPU", {0, 1})});
  EXPECT_THAT(instance_ids(gpu_node, slot, "GPU"), ElementsAre("1", "GPU-8f"));
  EXPECT_THAT(instance_ids(gpu_node, slot, "CPU"), IsEmpty());
  EXPECT_THAT(instance_ids(gpu_node, slot, "TPU"), IsEmpty());
  EXPECT_THAT(all_instance_ids(gpu_node, slot),
              ElementsAre(Pair("GPU", ElementsAre("1", "GPU-8f"))));
}

TEST(Mask, SharesOfOneDeviceSeeTheSameDevice) {
  Allocation half = allocation_of({given("GPU", {1})});
  half.resources[0].shares[0].amount = Quantity::from_units(5'000);
  EXPECT_THAT(instance_ids(gpu_node, half, "GPU"), ElementsAre("GPU-8f"));
}

TEST(Mask, UsersMayNotChooseDevicesThemselves) {
  EXPECT_TRUE(check_no_accelerator_variables({{"OMP_NUM_THREADS", "2"}}).ok());
  for (const std::string_view name : accelerator_variables()) {
    const auto refused = check_no_accelerator_variables({{std::string(name), "0"}});
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(refused.error().text, HasSubstr(std::string(name)));
  }
  // Whatever the runtime sets is refused from users.
  const NodeShape node =
      node_with({devices("GPU", {"0"}), devices("HPU", {"0"}), devices("NPU", {"0"}),
                 devices("RBLN", {"0"}), devices("TPU", {"0"}), devices("neuron_cores", {"0"})});
  for (const auto vendor : {GpuVendor::nvidia, GpuVendor::amd, GpuVendor::intel}) {
    for (const auto& [name, value] : device_environment(node, {}, {.gpu_vendor = vendor})) {
      EXPECT_FALSE(check_no_accelerator_variables({{name, value}}).ok()) << name;
    }
  }
}

TEST(MaskDeathTest, AnInstanceThatTheNodeDoesNotHaveIsABrokenInvariant) {
  EXPECT_DEATH(instance_ids(gpu_node, allocation_of({given("GPU", {3})}), "GPU"), "has 3");
}

}  // namespace
}  // namespace mobula::internal
