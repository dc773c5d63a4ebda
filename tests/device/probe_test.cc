#include "device/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/visible_list.h"

namespace mobula::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(VisibleList, EntriesAreKeptAsTheyWereWritten) {
  EXPECT_EQ(visible_devices(nullptr), std::nullopt);
  EXPECT_THAT(visible_devices("").value(), IsEmpty());
  EXPECT_THAT(visible_devices("NoDevFiles").value(), IsEmpty());
  EXPECT_THAT(visible_devices("1,3").value(), ElementsAre("1", "3"));
  EXPECT_THAT(visible_devices("GPU-8f,MIG-1,MIG-GPU-2/1/0").value(),
              ElementsAre("GPU-8f", "MIG-1", "MIG-GPU-2/1/0"));
  EXPECT_THAT(visible_devices("007").value(), ElementsAre("007"));
}

TEST(VisibleList, EndsWhereCudaStopsReading) {
  EXPECT_THAT(visible_devices("-1").value(), IsEmpty());
  EXPECT_THAT(visible_devices("2,-1,3").value(), ElementsAre("2"));
  EXPECT_THAT(visible_devices("2,,3").value(), ElementsAre("2"));
  EXPECT_THAT(visible_devices("2,").value(), ElementsAre("2"));
}

TEST(VisibleList, NeuronCoresMayBeRanges) {
  EXPECT_EQ(visible_neuron_cores(nullptr), std::nullopt);
  EXPECT_THAT(visible_neuron_cores("0-2,7").value(), ElementsAre("0", "1", "2", "7"));
  EXPECT_THAT(visible_neuron_cores("5-2,0-99999999").value(), ElementsAre("5-2", "0-99999999"));
}

class NodeShapeTest : public testing::Test {
 protected:
  NodeShapeTest() {
    machine.cpus = {.online = 8, .affinity = 8};
    machine.memory = {.total_bytes = 2000, .available_bytes = 1000};
    machine.gpus.devices = {
        {.product = "NVIDIA H100 80GB HBM3", .uuid = "GPU-aaaa", .memory_bytes = 80},
        {.product = "NVIDIA L4", .uuid = "GPU-bbbb", .memory_bytes = 24}};
  }

  std::vector<std::string> gpu_ids(const NodeRequest& request) {
    std::vector<std::string> ids;
    const auto node = node_shape(machine, request);
    EXPECT_TRUE(node.ok()) << node.error().text;
    const auto* gpus = node->find("GPU");
    if (gpus == nullptr) return ids;
    for (const auto& instance : gpus->instances) ids.push_back(instance.visible_id);
    return ids;
  }
  std::string refusal(const NodeRequest& request) {
    const auto node = node_shape(machine, request);
    EXPECT_EQ(node.error().code, ErrorCode::invalid_argument);
    return node.error().text;
  }

  MachineFacts machine;
};

TEST_F(NodeShapeTest, UnlessToldOtherwiseANodeOffersItsMachine) {
  const auto node = node_shape(machine, {});
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(node->total("CPU"), Quantity::whole(8));
  EXPECT_EQ(node->total("memory"), Quantity::whole(700));
  EXPECT_EQ(node->total("GPU"), Quantity::whole(2));
  const auto& gpus = node->find("GPU")->instances;
  EXPECT_THAT(gpus[0].types, ElementsAre("H100", "H100-80G"));
  EXPECT_EQ(gpus[0].memory_bytes, 80);
  EXPECT_THAT(gpus[1].types, ElementsAre("L4"));
  EXPECT_THAT(node->accelerator_types, ElementsAre("H100", "H100-80G", "L4"));
  EXPECT_EQ(node->labels.at("mobula.io/accelerator-product"), "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(node->labels.at("mobula.io/accelerator-type"), "H100");
  EXPECT_EQ(node->task_executors, 32);
  EXPECT_TRUE(std::ranges::is_sorted(node->resources, {}, &ResourceShape::name));
}

TEST_F(NodeShapeTest, AVisibleListNamesAndLimitsTheDevices) {
  EXPECT_THAT(gpu_ids({}), ElementsAre("0", "1"));
  EXPECT_THAT(gpu_ids({.visible_gpus = visible_devices("1,3")}), ElementsAre("1", "3"));
  EXPECT_THAT(gpu_ids({.visible_gpus = visible_devices("1")}), ElementsAre("1"));
  EXPECT_THAT(gpu_ids({.visible_gpus = visible_devices("")}), IsEmpty());
  EXPECT_THAT(gpu_ids({.visible_gpus = visible_devices("0,1,2,3")}), ElementsAre("0", "1"));
  EXPECT_THAT(gpu_ids({.num_gpus = Quantity::whole(1), .visible_gpus = visible_devices("1,3")}),
              ElementsAre("1"));
  EXPECT_THAT(gpu_ids({.num_gpus = Quantity()}), IsEmpty());
}

TEST_F(NodeShapeTest, EntriesFindTheirDevice) {
  const auto node = node_shape(machine, {.visible_gpus = visible_devices("GPU-bb,0")});
  const auto& gpus = node->find("GPU")->instances;
  EXPECT_EQ(gpus[0].visible_id, "GPU-bb");
  EXPECT_EQ(gpus[0].memory_bytes, 24);
  EXPECT_EQ(gpus[1].memory_bytes, 80);
}

TEST_F(NodeShapeTest, MoreGpusThanTheListNamesAreRefused) {
  EXPECT_EQ(refusal({.num_gpus = Quantity::whole(4), .visible_gpus = visible_devices("0,1")}),
            "num_gpus=4, but CUDA_VISIBLE_DEVICES names 2 devices (0,1)");
  EXPECT_EQ(
      refusal({.num_gpus = Quantity::from_units(25'000), .visible_gpus = visible_devices("0,1")}),
      "num_gpus=2.5, but CUDA_VISIBLE_DEVICES names 2 devices (0,1)");
}

TEST_F(NodeShapeTest, MoreGpusThanTheMachineHasAreLogical) {
  const auto node = node_shape(machine, {.num_gpus = Quantity::whole(4)});
  const auto& gpus = node->find("GPU")->instances;
  ASSERT_EQ(gpus.size(), 4u);
  EXPECT_EQ(gpus[3].visible_id, "3");
  EXPECT_THAT(gpus[3].types, IsEmpty());
  machine.gpus.devices.clear();
  EXPECT_THAT(gpu_ids({.num_gpus = Quantity::whole(2)}), ElementsAre("0", "1"));
}

TEST_F(NodeShapeTest, AFractionOfADeviceComesLast) {
  const auto node = node_shape(machine, {.num_gpus = Quantity::from_units(15'000)});
  const auto& gpus = node->find("GPU")->instances;
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].total, Quantity::whole(1));
  EXPECT_EQ(gpus[1].total, Quantity::from_units(5'000));
}

TEST_F(NodeShapeTest, SlicesAreNamedByTheirUuid) {
  machine.gpus.devices = {
      {.product = "NVIDIA A100-SXM4-40GB MIG 1g.5gb", .uuid = "MIG-1", .slice = true}};
  EXPECT_THAT(gpu_ids({}), ElementsAre("MIG-1"));
}

TEST_F(NodeShapeTest, WhatTheUserSaysStandsAboveWhatDevicesSay) {
  const auto node = node_shape(
      machine, {.num_cpus = Quantity::from_units(5'000),
                .num_gpus = Quantity::whole(1),
                .memory_bytes = 500,
                .gpu_memory_bytes = 7,
                .accelerator_type = "X1",
                .resources = {{"lab", Quantity::whole(3)}, {"TPU", Quantity::whole(2)}}});
  ASSERT_TRUE(node.ok()) << node.error().text;
  EXPECT_EQ(node->total("CPU"), Quantity::from_units(5'000));
  EXPECT_EQ(node->total("memory"), Quantity::whole(500));
  EXPECT_EQ(node->find("GPU")->instances[0].memory_bytes, 7);
  EXPECT_THAT(node->accelerator_types, ElementsAre("X1"));
  EXPECT_EQ(node->total("lab"), Quantity::whole(3));
  EXPECT_EQ(node->find("lab")->instances.size(), 1u);
  EXPECT_EQ(node->find("TPU")->instances[1].visible_id, "1");
  EXPECT_EQ(node->task_executors, 4);
}

TEST_F(NodeShapeTest, NeuronCoresFollowTheSameRules) {
  machine.neuron_cores = 4;
  EXPECT_EQ(node_shape(machine, {})->find("neuron_cores")->instances.size(), 4u);
  const NodeRequest listed{.visible_neuron_cores = visible_neuron_cores("2-3")};
  const auto node = node_shape(machine, listed);
  const auto& cores = node->find("neuron_cores")->instances;
  ASSERT_EQ(cores.size(), 2u);
  EXPECT_EQ(cores[0].visible_id, "2");
  EXPECT_THAT(cores[0].types, ElementsAre("aws-neuron-core"));
  EXPECT_THAT(node->accelerator_types, testing::Contains("aws-neuron-core"));
  EXPECT_THAT(refusal({.neuron_cores = Quantity::from_units(5'000)}),
              HasSubstr("cannot be shared"));
  EXPECT_THAT(refusal({.resources = {{"neuron_cores", Quantity::whole(3)}},
                       .visible_neuron_cores = visible_neuron_cores("2-3")}),
              HasSubstr("NEURON_RT_VISIBLE_CORES names 2 devices (2,3)"));
}

TEST_F(NodeShapeTest, PredefinedNamesAndNegativeAmountsAreRefused) {
  for (const char* name : {"CPU", "gpu", "memory", "object_store_memory"}) {
    EXPECT_THAT(refusal({.resources = {{name, Quantity::whole(1)}}}), HasSubstr("predefined"));
  }
  EXPECT_THAT(refusal({.num_cpus = Quantity::whole(-1)}), HasSubstr("negative"));
  EXPECT_THAT(refusal({.num_gpus = Quantity::whole(-1)}), HasSubstr("negative"));
  EXPECT_THAT(refusal({.resources = {{"lab", Quantity::whole(-1)}}}), HasSubstr("negative"));
  EXPECT_THAT(refusal({.num_gpus = Quantity::whole(1'000'000)}), HasSubstr("at most"));
}

TEST(ProbeMachine, ThisMachineMakesANode) {
  const MachineFacts facts = probe_machine();
  EXPECT_GE(facts.cpus.usable(), 1u);
  const auto node = node_shape(facts, {.num_gpus = Quantity()});
  ASSERT_TRUE(node.ok()) << node.error().text;
  EXPECT_GE(node->total("CPU"), Quantity::whole(1));
}

}  // namespace
}  // namespace mobula::internal
