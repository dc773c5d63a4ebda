#include "device/detection/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/node_environment.h"
#include "device/visible_list.h"

namespace mobula::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

VisibleList cuda_list(const char* value) {
  return visible_ids(row_of(Vendor::nvidia), value).value();
}
VisibleList neuron_list(const char* value) {
  return visible_ids(row_of(Vendor::neuron), value).value();
}

TEST(VisibleList, KeepsEntriesAsWritten) {
  EXPECT_EQ(cuda_list(nullptr), std::nullopt);
  EXPECT_THAT(cuda_list("").value(), IsEmpty());
  EXPECT_THAT(cuda_list("NoDevFiles").value(), IsEmpty());
  EXPECT_THAT(cuda_list("1,3").value(), ElementsAre("1", "3"));
  EXPECT_THAT(cuda_list("GPU-8f,MIG-1,MIG-GPU-2/1/0").value(),
              ElementsAre("GPU-8f", "MIG-1", "MIG-GPU-2/1/0"));
  EXPECT_THAT(cuda_list("007").value(), ElementsAre("007"));
}

TEST(VisibleList, EndsWhereCudaStopsReading) {
  EXPECT_THAT(cuda_list("-1").value(), IsEmpty());
  EXPECT_THAT(cuda_list("2,-1,3").value(), ElementsAre("2"));
  EXPECT_THAT(cuda_list("2,,3").value(), ElementsAre("2"));
  EXPECT_THAT(cuda_list("2,").value(), ElementsAre("2"));
}

// The device could be allocated twice at once.
TEST(VisibleList, RejectsDeviceNamedTwice) {
  for (const char* twice : {"0,0", "1,0,1", "GPU-a,GPU-a"}) {
    const auto list = visible_ids(row_of(Vendor::nvidia), twice);
    ASSERT_FALSE(list.ok()) << twice;
    EXPECT_NE(list.error().text.find("named twice"), std::string::npos) << list.error().text;
  }
  EXPECT_FALSE(visible_ids(row_of(Vendor::neuron), "0-3,2").ok());
  EXPECT_FALSE(visible_ids(row_of(Vendor::intel), "level_zero:0,0").ok());
  EXPECT_FALSE(visible_devices(row_of(Vendor::amd), {{"ROCR_VISIBLE_DEVICES", "1,1"}}, {}).ok());
  EXPECT_THAT(visible_ids(row_of(Vendor::furiosa), "npu:5:0-3,npu:5:4-7")->value(),
              ElementsAre("5"))
      << "parts of one device";
}

TEST(VisibleList, ExpandsNeuronRanges) {
  EXPECT_EQ(neuron_list(nullptr), std::nullopt);
  EXPECT_THAT(neuron_list("0-2,7").value(), ElementsAre("0", "1", "2", "7"));
  EXPECT_THAT(neuron_list("5-2,0-99999999").value(), ElementsAre("5-2", "0-99999999"));
}

TEST(VisibleList, ParsesOneapiSelectors) {
  const auto selected = [](const char* value) { return visible_ids(row_of(Vendor::intel), value); };
  EXPECT_EQ(*selected(nullptr), std::nullopt);
  EXPECT_EQ(*selected("level_zero:*"), std::nullopt);
  EXPECT_EQ(*selected("level_zero:gpu"), std::nullopt);
  EXPECT_EQ(*selected("*:*"), std::nullopt);
  EXPECT_THAT(selected("level_zero:0,2")->value(), ElementsAre("0", "2"));
  EXPECT_THAT(selected("")->value(), IsEmpty());
  EXPECT_THAT(selected("!*:gpu")->value(), IsEmpty());
  for (const char* other : {"opencl:gpu", "level_zero:0.1", "level_zero:0;opencl:*"}) {
    EXPECT_THAT(selected(other).error().text, HasSubstr(other));
  }
}

TEST(VisibleList, AcceptsFuriosaPrefix) {
  EXPECT_THAT(visible_ids(row_of(Vendor::furiosa), "npu:0,3,npu:5:0-3")->value(),
              ElementsAre("0", "3", "5"));
}

class NodeShapeTest : public testing::Test {
 protected:
  NodeShapeTest() {
    machine.cpus = {.online = 8, .affinity = 8};
    machine.memory = {.total_bytes = 2000, .available_bytes = 1000};
    nvidia() = {
        {.product = "NVIDIA H100 80GB HBM3", .uuid = "GPU-aaaa", .memory_bytes = 80, .id = "0"},
        {.product = "NVIDIA L4", .uuid = "GPU-bbbb", .memory_bytes = 24, .id = "1"}};
  }

  std::vector<AcceleratorDevice>& nvidia() { return machine.devices[Vendor::nvidia]; }
  static NodeRequest visible(const char* cuda, NodeRequest request = {}) {
    request.accelerator_variables["CUDA_VISIBLE_DEVICES"] = cuda;
    return request;
  }
  static std::vector<AcceleratorDevice> numbered(std::size_t count) {
    std::vector<AcceleratorDevice> devices(count);
    for (std::size_t i = 0; i < count; ++i) devices[i].id = std::to_string(i);
    return devices;
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

TEST_F(NodeShapeTest, DefaultsToWholeMachine) {
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
  EXPECT_FALSE(node->labels.contains("mobula.io/nvidia-driver")) << "which is not known";
  machine.nvidia_driver = "550.54.15";
  EXPECT_EQ(node_shape(machine, {})->labels.at("mobula.io/nvidia-driver"), "550.54.15");
  EXPECT_FALSE(node_shape(machine, {})->labels.contains("mobula.io/nvidia-nccl"));
  machine.cuda = "12.4";
  machine.nccl = "2.21.5";
  EXPECT_EQ(node_shape(machine, {})->labels.at("mobula.io/nvidia-cuda"), "12.4");
  EXPECT_EQ(node_shape(machine, {})->labels.at("mobula.io/nvidia-nccl"), "2.21.5");
  EXPECT_EQ(node->labels.at("mobula.io/accelerator-type"), "H100");
  EXPECT_EQ(node->task_executors, 32);
  EXPECT_TRUE(std::ranges::is_sorted(node->resources, {}, &ResourceShape::name));
}

TEST_F(NodeShapeTest, VisibleList_NamesAndLimitsDevices) {
  EXPECT_THAT(gpu_ids({}), ElementsAre("0", "1"));
  EXPECT_THAT(gpu_ids(visible("1")), ElementsAre("1"));
  EXPECT_THAT(gpu_ids(visible("")), IsEmpty());
  EXPECT_THAT(gpu_ids(visible("0,1,2,3")), ElementsAre("0", "1"));
  EXPECT_THAT(gpu_ids(visible("1,3", {.num_gpus = Quantity::whole(1)})), ElementsAre("1"));
  EXPECT_THAT(gpu_ids({.num_gpus = Quantity()}), IsEmpty());
}

TEST_F(NodeShapeTest, Entries_FindTheirDevice) {
  const auto node = node_shape(machine, visible("GPU-bb,0"));
  const auto& gpus = node->find("GPU")->instances;
  EXPECT_EQ(gpus[0].visible_id, "GPU-bb");
  EXPECT_EQ(gpus[0].memory_bytes, 24);
  EXPECT_EQ(gpus[0].uuid, "GPU-bbbb");
  EXPECT_EQ(gpus[1].memory_bytes, 80);
  EXPECT_EQ(node_shape(machine, visible("01"))->find("GPU")->instances[0].uuid, "GPU-bbbb");
}

TEST_F(NodeShapeTest, RejectsVisibleDeviceThatIsAbsent) {
  EXPECT_EQ(refusal(visible("7")),
            "CUDA_VISIBLE_DEVICES=7: this machine has no device 7, but 2 (0,1); correct the "
            "variable or unset it");
  EXPECT_THAT(refusal(visible("1,3")), ::testing::HasSubstr("no device 3"));
  EXPECT_THAT(refusal(visible("GPU-77")), ::testing::HasSubstr("no device GPU-77"));
  machine.devices.clear();
  EXPECT_THAT(gpu_ids(visible("7", {.num_gpus = Quantity::whole(1)})), ElementsAre("7"))
      << "a logical device";
}

TEST_F(NodeShapeTest, AcceleratorTypeResource_NamesDevices) {
  machine.devices.clear();
  NodeRequest request{.num_gpus = Quantity::whole(2)};
  request.resources.set("accelerator_type:H100", Quantity::whole(1));
  request.resources.set("shuttle", Quantity::whole(2));
  const auto node = node_shape(machine, request);
  ASSERT_TRUE(node.ok()) << node.error().text;
  EXPECT_THAT(node->find("GPU")->instances[1].types, ElementsAre("H100"));
  EXPECT_THAT(node->accelerator_types, ElementsAre("H100"));
  EXPECT_EQ(node->find("accelerator_type:H100"), nullptr) << "no resource of its own";
  EXPECT_EQ(node->total("shuttle"), Quantity::whole(2));

  request.accelerator_type = "H100";
  EXPECT_TRUE(node_shape(machine, request).ok());
  request.accelerator_type = "A100";
  EXPECT_THAT(refusal(request), ::testing::HasSubstr("are of type A100 already"));
}

TEST_F(NodeShapeTest, RejectsMoreGpusThanListed) {
  EXPECT_EQ(refusal(visible("0,1", {.num_gpus = Quantity::whole(4)})),
            "num_gpus=4, but CUDA_VISIBLE_DEVICES names 2 devices (0,1)");
  EXPECT_EQ(refusal(visible("0,1", {.num_gpus = Quantity::from_units(25'000)})),
            "num_gpus=2.5, but CUDA_VISIBLE_DEVICES names 2 devices (0,1)");
}

TEST_F(NodeShapeTest, ExcessGpus_AreLogical) {
  const auto node = node_shape(machine, {.num_gpus = Quantity::whole(4)});
  const auto& gpus = node->find("GPU")->instances;
  ASSERT_EQ(gpus.size(), 4u);
  EXPECT_EQ(gpus[3].visible_id, "3");
  EXPECT_THAT(gpus[3].types, IsEmpty());
  machine.devices.clear();
  EXPECT_THAT(gpu_ids({.num_gpus = Quantity::whole(2)}), ElementsAre("0", "1"));
}

TEST_F(NodeShapeTest, OrdersFractionalDeviceLast) {
  const auto node = node_shape(machine, {.num_gpus = Quantity::from_units(15'000)});
  const auto& gpus = node->find("GPU")->instances;
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].total, Quantity::whole(1));
  EXPECT_EQ(gpus[1].total, Quantity::from_units(5'000));
}

TEST_F(NodeShapeTest, NamesSlicesByUuidAndDevicesByIndex) {
  nvidia() = {{.product = "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
               .uuid = "MIG-1",
               .memory_bytes = 5,
               .slice = true,
               .id = "MIG-1",
               .board = "0"},
              {.product = "NVIDIA A100-SXM4-40GB MIG 2g.10gb",
               .uuid = "MIG-2",
               .memory_bytes = 10,
               .slice = true,
               .id = "MIG-2",
               .board = "0"},
              {.product = "NVIDIA A100-SXM4-40GB", .uuid = "GPU-b", .memory_bytes = 40, .id = "1"}};
  EXPECT_THAT(gpu_ids({}), ElementsAre("MIG-1", "MIG-2", "1"));
  const auto node = node_shape(machine, visible("MIG-2,1,0"));
  const auto& gpus = node->find("GPU")->instances;
  EXPECT_EQ(gpus[0].uuid, "MIG-2");
  EXPECT_THAT(gpus[0].types, testing::Contains("A100-40G-MIG-2g.10gb"));
  EXPECT_EQ(gpus[1].uuid, "GPU-b") << "index 1 is the second GPU, not the second slice";
  EXPECT_EQ(gpus[2].uuid, "MIG-1") << "a GPU that is cut in slices stands for its first";
  EXPECT_EQ(gpus[0].isolation.prevents, Prevents::mig);
  EXPECT_TRUE(gpus[1].isolation.promise_only()) << "a whole GPU does not enforce a share";
  NodeRequest less = visible("MIG-2");
  less.gpu_memory_bytes = 9;
  EXPECT_TRUE(node_shape(machine, less)->find("GPU")->instances[0].isolation.promise_only())
      << "the slice has 10 bytes and lets its holder have them";
}

TEST_F(NodeShapeTest, ReservesContextMemoryOnlyOnRealGpus) {
  constexpr auto gib = std::uint64_t{1} << 30;
  nvidia() = {{.product = "NVIDIA L4", .uuid = "GPU-a", .memory_bytes = 24 * gib, .id = "0"}};
  const auto contexts = [&](NodeRequest request) {
    request.num_gpus = Quantity::whole(2);
    std::vector<std::int64_t> bytes;
    const auto node = node_shape(machine, request);
    for (const auto& each : node->find("GPU")->instances) bytes.push_back(each.context_bytes);
    return bytes;
  };
  EXPECT_THAT(contexts({}), ElementsAre(default_context_bytes, 0));
  EXPECT_THAT(contexts({.gpu_memory_bytes = 16 * gib}), ElementsAre(default_context_bytes, 0));
  EXPECT_THAT(contexts({.gpu_memory_bytes = 16 * gib, .gpu_context_bytes = gib}),
              ElementsAre(gib, gib));
  EXPECT_THAT(contexts({.gpu_memory_bytes = 16 * gib, .gpu_context_bytes = 0}), ElementsAre(0, 0));
  EXPECT_THAT(contexts({.gpu_memory_bytes = 100}), ElementsAre(100, 0))
      << "never more than there is";
}

TEST_F(NodeShapeTest, PrefersUserSettingsToDetection) {
  const auto node =
      node_shape(machine, {.num_cpus = Quantity::from_units(5'000),
                           .num_gpus = Quantity::whole(1),
                           .memory_bytes = 500,
                           .gpu_memory_bytes = 7,
                           .accelerator_type = "X1",
                           .resources = {{"lab", Quantity::whole(3)}, {"TPU", Quantity::whole(2)}},
                           .in_units = {}});
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

TEST_F(NodeShapeTest, NeuronCores_FollowSameRules) {
  machine.devices[Vendor::neuron] = numbered(4);
  EXPECT_EQ(node_shape(machine, {})->find("neuron_cores")->instances.size(), 4u);
  NodeRequest listed;
  listed.accelerator_variables["NEURON_RT_VISIBLE_CORES"] = "2-3";
  const auto node = node_shape(machine, listed);
  const auto& cores = node->find("neuron_cores")->instances;
  ASSERT_EQ(cores.size(), 2u);
  EXPECT_EQ(cores[0].visible_id, "2");
  EXPECT_THAT(cores[0].types, ElementsAre("aws-neuron-core"));
  EXPECT_THAT(node->accelerator_types, testing::Contains("aws-neuron-core"));
  NodeRequest half;
  half.resources.set("neuron_cores", Quantity::from_units(5'000));
  EXPECT_THAT(refusal(half), HasSubstr("cannot be shared"));
  listed.resources.set("neuron_cores", Quantity::whole(3));
  EXPECT_THAT(refusal(listed), HasSubstr("NEURON_RT_VISIBLE_CORES names 2 devices (2,3)"));
}

TEST_F(NodeShapeTest, NeuronCoresByFlag_ImplyTheirType) {
  NodeRequest request;
  request.resources.set("neuron_cores", Quantity::whole(2));
  machine.devices.clear();
  EXPECT_THAT(node_shape(machine, request)->accelerator_types, ElementsAre("aws-neuron-core"));
}

// Rows of the vendor table that a node can have, each with its fractions and its ids.
TEST_F(NodeShapeTest, CountsDevicesOfEveryVendorInInstances) {
  for (const VendorRow& vendor : vendor_rows()) {
    SCOPED_TRACE(vendor.name);
    machine.devices.clear();
    machine.devices[vendor.vendor] = numbered(3);
    const std::string name(vendor.resource);
    const auto node = node_shape(machine, {});
    ASSERT_TRUE(node.ok()) << node.error().text;
    ASSERT_NE(node->find(name), nullptr);
    EXPECT_EQ(node->find(name)->vendor, vendor.name);
    EXPECT_EQ(node->find(name)->instances.size(), 3u);
    EXPECT_EQ(node->find(name)->instances[2].visible_id, "2");
    NodeRequest half;
    if (name == "GPU") {
      half.num_gpus = Quantity::from_units(15'000);
    } else {
      half.resources.set(name, Quantity::from_units(15'000));
    }
    EXPECT_EQ(node_shape(machine, half).ok(), vendor.fractions);
    NodeRequest listed;
    const std::string prefix(vendor.list_prefix);
    listed.accelerator_variables[std::string(vendor.variable)] = prefix + "2";
    EXPECT_EQ(node_shape(machine, listed)->find(name)->instances.size(), 1u);
    EXPECT_EQ(node_shape(machine, listed)->find(name)->instances[0].visible_id, "2");
  }
}

TEST_F(NodeShapeTest, SeveralGpuVendors_UsesFirstInOrder) {
  const auto vendor_of = [&](NodeRequest request = {}) {
    return node_shape(machine, request)->find("GPU")->vendor;
  };
  EXPECT_EQ(vendor_of(), "nvidia");
  machine.devices[Vendor::cambricon] = numbered(1);
  EXPECT_EQ(vendor_of(), "nvidia");
  machine.devices[Vendor::intel] = numbered(1);
  EXPECT_EQ(vendor_of(), "intel");
  machine.devices[Vendor::amd] = numbered(3);
  EXPECT_EQ(vendor_of(), "amd");
  EXPECT_EQ(node_shape(machine, {})->total("GPU"), Quantity::whole(3));
  EXPECT_EQ(vendor_of({.gpu_vendor = Vendor::nvidia}), "nvidia");
  machine.devices.clear();
  EXPECT_EQ(vendor_of({.num_gpus = Quantity::whole(1)}), "nvidia") << "logical ones";
}

TEST_F(NodeShapeTest, SeveralVendors_HaveSeparateResources) {
  machine.devices[Vendor::gaudi] = numbered(2);
  NodeRequest request;
  request.resources.set("neuron_cores", Quantity::whole(4));
  const auto node = node_shape(machine, request);
  EXPECT_EQ(node->total("GPU"), Quantity::whole(2));
  EXPECT_EQ(node->total("HPU"), Quantity::whole(2));
  EXPECT_EQ(node->total("neuron_cores"), Quantity::whole(4));
}

TEST_F(NodeShapeTest, Amd_CountsWithinRocrList) {
  machine.devices.clear();
  auto& devices = machine.devices[Vendor::amd];
  devices = numbered(4);
  for (std::size_t i = 0; i < 4; ++i) devices[i].uuid = "GPU-000" + std::to_string(i);
  const auto shown = [&](Environment environment) {
    NodeRequest request;
    request.accelerator_variables = std::move(environment);
    std::string text;
    const auto node = node_shape(machine, request);
    if (const auto* gpus = node->find("GPU")) {
      for (const auto& each : gpus->instances) text += each.visible_id + "=" + each.uuid + " ";
    }
    return text;
  };
  EXPECT_EQ(shown({{"ROCR_VISIBLE_DEVICES", "1,3"}}), "0=GPU-0001 1=GPU-0003 ");
  EXPECT_EQ(shown({{"ROCR_VISIBLE_DEVICES", "1,3"}, {"HIP_VISIBLE_DEVICES", "1"}}), "1=GPU-0003 ");
  EXPECT_EQ(shown({{"CUDA_VISIBLE_DEVICES", "2"}}), "2=GPU-0002 ");
  EXPECT_EQ(shown({{"CUDA_VISIBLE_DEVICES", "2"}, {"HIP_VISIBLE_DEVICES", "0"}}), "0=GPU-0000 ");
  EXPECT_EQ(shown({{"HIP_VISIBLE_DEVICES", ""}}), "");
}

TEST_F(NodeShapeTest, IntersectsBothIntelMasks) {
  machine.devices.clear();
  machine.devices[Vendor::intel] = numbered(4);
  const auto ids = [&](Environment environment, DevicePolicy policy = {}) {
    NodeRequest request{.device_policy = std::move(policy)};
    request.accelerator_variables = std::move(environment);
    return joined(gpu_ids(request));
  };
  EXPECT_EQ(ids({}), "0,1,2,3");
  EXPECT_EQ(ids({{"ZE_AFFINITY_MASK", ""}}), "0,1,2,3");
  EXPECT_EQ(ids({{"ZE_AFFINITY_MASK", "1,3"}}), "1,3");
  EXPECT_EQ(ids({{"ONEAPI_DEVICE_SELECTOR", "level_zero:1,3"}}), "1,3");
  EXPECT_EQ(ids({{"ZE_AFFINITY_MASK", "1,3"}, {"ONEAPI_DEVICE_SELECTOR", "level_zero:1"}}), "3")
      << "the selector counts within the mask";
  EXPECT_EQ(ids({{"ZE_AFFINITY_MASK", "1,3"}, {"ONEAPI_DEVICE_SELECTOR", "level_zero:gpu"}}),
            "1,3");
  EXPECT_EQ(ids({{"ZE_AFFINITY_MASK", "1"}, {"ONEAPI_DEVICE_SELECTOR", "level_zero:0,1"}}), "1");
  EXPECT_EQ(ids({{"ZE_AFFINITY_MASK", "4096"}, {"ONEAPI_DEVICE_SELECTOR", "!*:gpu"}}), "")
      << "the variables of an executor without devices";
  // Executors inherit this mask from the node, so ids count within it.
  EXPECT_EQ(ids({{"ZE_AFFINITY_MASK", "1,3"}}, {.left_alone = {"ZE_AFFINITY_MASK"}}), "0,1");
  NodeRequest tile;
  tile.accelerator_variables["ZE_AFFINITY_MASK"] = "0.1,2";
  EXPECT_THAT(refusal(tile), HasSubstr("ZE_AFFINITY_MASK=0.1,2: 0.1 is part of a device"));
  NodeRequest more{.num_gpus = Quantity::whole(3)};
  more.accelerator_variables["ZE_AFFINITY_MASK"] = "1,3";
  EXPECT_THAT(refusal(more), HasSubstr("ZE_AFFINITY_MASK names 2 devices (1,3)"));
}

TEST_F(NodeShapeTest, CountsCustomResourcesInUnits) {
  NodeRequest request;
  request.resources = {{"fpga", Quantity::from_units(25'000)}, {"shuttle", Quantity::whole(2)}};
  request.in_units = {"fpga"};
  const auto node = node_shape(machine, request);
  const auto* fpga = node->find("fpga");
  EXPECT_TRUE(fpga->in_instances());
  ASSERT_EQ(fpga->instances.size(), 3u);
  EXPECT_EQ(fpga->instances[1].visible_id, "1");
  EXPECT_EQ(fpga->instances[2].total, Quantity::from_units(5'000));
  EXPECT_FALSE(node->find("shuttle")->in_instances());
  EXPECT_EQ(node->find("shuttle")->instances.size(), 1u);
}

TEST_F(NodeShapeTest, AssignsRequestedTypeToGpusElseUntyped) {
  NodeRequest request{.accelerator_type = "TPU-V4"};
  request.resources.set("TPU", Quantity::whole(4));
  EXPECT_THAT(node_shape(machine, request)->find("TPU")->instances[0].types, IsEmpty());
  machine.devices.clear();
  EXPECT_THAT(node_shape(machine, request)->find("TPU")->instances[0].types, ElementsAre("TPU-V4"));
}

TEST_F(NodeShapeTest, OffersAddressResourceAndHeadNodeResource) {
  auto node = node_shape(machine, {.address = "10.0.0.3"});
  EXPECT_EQ(node->total("node:10.0.0.3"), Quantity::whole(1));
  EXPECT_EQ(node->find("node:__internal_head__"), nullptr);
  node = node_shape(machine, {.address = "fd00::3", .beside_head = true});
  EXPECT_EQ(node->total("node:fd00::3"), Quantity::whole(1));
  EXPECT_EQ(node->total("node:__internal_head__"), Quantity::whole(1));
}

TEST(NodeEnvironment, ReadsVariablesOfAgent) {
  const auto request = with_environment({}, {{"CUDA_VISIBLE_DEVICES", "1"},
                                             {"ROCR_VISIBLE_DEVICES", "0"},
                                             {"HOME", "/"},
                                             {"MOBULA_GPU_VENDOR", "amd"},
                                             {"MOBULA_SHOW_DEVICES", "1"},
                                             {"MOBULA_NOSET_HIP_VISIBLE_DEVICES", "true"},
                                             {"MOBULA_NOSET_ZE_AFFINITY_MASK", "1"},
                                             {"MOBULA_NOSET_RBLN_DEVICES", "0"}});
  ASSERT_TRUE(request.ok()) << request.error().text;
  EXPECT_THAT(request->accelerator_variables,
              testing::UnorderedElementsAre(testing::Pair("CUDA_VISIBLE_DEVICES", "1"),
                                            testing::Pair("ROCR_VISIBLE_DEVICES", "0")));
  EXPECT_EQ(request->gpu_vendor, Vendor::amd);
  EXPECT_FALSE(request->device_policy.hide_unasked);
  EXPECT_THAT(request->device_policy.left_alone,
              ElementsAre("HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"));
  EXPECT_TRUE(with_environment({}, {})->device_policy.hide_unasked);
}

TEST(NodeEnvironment, LabelsNodeUnlessFlagDoes) {
  NodeRequest by_hand;
  by_hand.labels = {{"mobula.io/availability-zone", "b"}, {"disk", "ssd"}};
  const auto request = with_environment(by_hand, {{"MOBULA_NODE_TYPE_NAME", "gpu"},
                                                  {"MOBULA_NODE_MARKET_TYPE", "spot"},
                                                  {"MOBULA_NODE_REGION", ""},
                                                  {"MOBULA_NODE_ZONE", "a"}});
  ASSERT_TRUE(request.ok()) << request.error().text;
  EXPECT_EQ(request->labels, (Labels{{"disk", "ssd"},
                                     {"mobula.io/availability-zone", "b"},
                                     {"mobula.io/market-type", "spot"},
                                     {"mobula.io/node-group", "gpu"}}));
}

TEST(NodeEnvironment, RejectsUnknownValues) {
  const auto refused = [](const char* name, const char* value) {
    const auto request = with_environment({}, {{name, value}});
    return request.ok() ? std::string() : request.error().text;
  };
  EXPECT_THAT(refused("MOBULA_SHOW_DEVICES", "perhaps"), HasSubstr("MOBULA_SHOW_DEVICES=perhaps"));
  EXPECT_THAT(refused("MOBULA_NOSET_CUDA_VISIBLE_DEVICES", "2"), HasSubstr("is 1 or 0"));
  EXPECT_THAT(refused("MOBULA_NODE_ZONE", "a b"), HasSubstr("MOBULA_NODE_ZONE"));
  EXPECT_THAT(refused("MOBULA_GPU_VENDOR", "voodoo"), HasSubstr("amd, intel, nvidia"));
  EXPECT_THAT(refused("MOBULA_GPU_VENDOR", "neuron"), HasSubstr("is one of"));
}

TEST_F(NodeShapeTest, RejectsPredefinedNamesAndNegativeAmounts) {
  for (const char* name : {"CPU", "gpu", "memory", "gpu_memory", "object_store_memory"}) {
    EXPECT_THAT(refusal({.resources = {{name, Quantity::whole(1)}}}), HasSubstr("predefined"));
  }
  EXPECT_THAT(refusal({.num_cpus = Quantity::whole(-1)}), HasSubstr("negative"));
  EXPECT_THAT(refusal({.num_gpus = Quantity::whole(-1)}), HasSubstr("negative"));
  EXPECT_THAT(refusal({.resources = {{"lab", Quantity::whole(-1)}}}), HasSubstr("negative"));
  EXPECT_THAT(refusal({.num_gpus = Quantity::whole(1'000'000)}), HasSubstr("at most"));
}

TEST(ProbeMachine, ProbesThisMachine) {
  const MachineFacts facts = probe_machine();
  EXPECT_GE(facts.cpus.usable(), 1u);
  const auto node = node_shape(facts, {.num_gpus = Quantity()});
  ASSERT_TRUE(node.ok()) << node.error().text;
  EXPECT_GE(node->total("CPU"), Quantity::whole(1));
}

}  // namespace
}  // namespace mobula::internal
