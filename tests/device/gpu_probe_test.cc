#include "device/detection/gpu_probe.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/detection/detection.h"
#include "device/detection/neuron.h"
#include "device/detection/nvml.h"
#include "device/detection/pci.h"
#include "device/detection/probe.h"
#include "device/scratch.h"

namespace mobula::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NvmlSimulated : public testing::Test {
 protected:
  void report(std::string_view lines) {
    ::setenv("FAKE_NVML_FILE", files.write("nvml", lines).c_str(), 1);
  }
  ~NvmlSimulated() override { ::unsetenv("FAKE_NVML_FILE"); }

  Scratch files;
};

TEST_F(NvmlSimulated, ListsDevicesWithDetails) {
  report(
      "driver|550.54.15\n"
      "gpu|NVIDIA H100 80GB HBM3|GPU-aa|85899345920|00000000:18:00.0|0\n"
      "gpu|NVIDIA H100 80GB HBM3|GPU-bb|-|00000000:2A:00.0|0\n");
  const auto nvml = Nvml::open(FAKE_NVML);
  ASSERT_TRUE(nvml.ok()) << nvml.error().text;
  EXPECT_EQ(*nvml->driver_version(), "550.54.15");
  const auto devices = nvml->devices();
  ASSERT_TRUE(devices.ok()) << devices.error().text;
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[0], (NvmlDevice{.index = 0,
                                       .name = "NVIDIA H100 80GB HBM3",
                                       .uuid = "GPU-aa",
                                       .memory_bytes = 85899345920,
                                       .pci_bus_id = "00000000:18:00.0"}));
  EXPECT_EQ((*devices)[1].index, 1u);
  EXPECT_EQ((*devices)[1].memory_bytes, 0u)
      << "memory that a device does not report is not an error";
}

TEST_F(NvmlSimulated, ReopensAfterShutdown) {
  report("driver|1.0\n");
  for (int i = 0; i < 2; ++i) {
    auto nvml = Nvml::open(FAKE_NVML);
    ASSERT_TRUE(nvml.ok());
    const Nvml moved = std::move(*nvml);
    EXPECT_THAT(*moved.devices(), IsEmpty());
  }
}

TEST_F(NvmlSimulated, Slices_ReplaceTheirDevice) {
  report(
      "gpu|NVIDIA A100-SXM4-40GB|GPU-aa|1000|0:1|1\n"
      "slice|NVIDIA A100-SXM4-40GB MIG 1g.5gb|MIG-1|500\n"
      "slice|NVIDIA A100-SXM4-40GB MIG 2g.10gb|MIG-2|600\n"
      "gpu|NVIDIA A100-SXM4-40GB|GPU-bb|1000|0:2|0\n");
  const GpuFacts facts = probe_gpus({.nvml_library = FAKE_NVML});
  EXPECT_EQ(facts.source, GpuSource::nvml);
  ASSERT_EQ(facts.devices.size(), 3u);
  EXPECT_EQ(facts.devices[0].uuid, "MIG-1");
  EXPECT_TRUE(facts.devices[0].slice);
  EXPECT_EQ(facts.devices[1].memory_bytes, 600u);
  EXPECT_EQ(facts.devices[2].uuid, "GPU-bb");
  EXPECT_FALSE(facts.devices[2].slice);
}

TEST_F(NvmlSimulated, NamesFailedCallAndLibraryReason) {
  report("fail|nvmlInit_v2|9\n");
  const auto refused = Nvml::open(FAKE_NVML);
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_THAT(refused.error().text, HasSubstr("fake status 9"));
  report("gpu|X|GPU-aa|1|0:1|0\nfail|nvmlDeviceGetUUID|15\n");
  const auto nvml = Nvml::open(FAKE_NVML);
  ASSERT_TRUE(nvml.ok());
  EXPECT_THAT(nvml->devices().error().text, HasSubstr("GPU 0 of NVML: fake status 15"));
}

TEST_F(NvmlSimulated, AcceptsReplyWithoutDevices) {
  report("driver|1.0\n");
  const GpuFacts facts = probe_gpus({.nvml_library = FAKE_NVML, .proc = files.path("proc")});
  EXPECT_EQ(facts.source, GpuSource::nvml);
  EXPECT_THAT(facts.devices, IsEmpty());
}

TEST(Nvml, LibraryMissing_ReportsLoaderMessage) {
  const auto nvml = Nvml::open("libmobula-no-such-nvml.so");
  EXPECT_EQ(nvml.error().code, ErrorCode::not_found);
  EXPECT_THAT(nvml.error().text, HasSubstr("libmobula-no-such-nvml.so"));
  EXPECT_THAT(Nvml::open("libc.so.6").error().text, HasSubstr("has no function nvmlInit_v2"));
}

// A topology as hwloc exports it, with two NVIDIA devices among others.
constexpr std::string_view topology = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
          allowed_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001"
          allowed_nodeset="0x00000001" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
          nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3" local_memory="1000000"/>
    <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
          nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2"/>
    <object type="Bridge" gp_index="4" bridge_type="0-1" depth="0" bridge_pci="0000:[00-ff]">
      <object type="PCIDev" gp_index="5" pci_busid="0000:86:00.0"
              pci_type="0302 [10de:2330] [0000:0000] 00" pci_link_speed="0.0"/>
      <object type="PCIDev" gp_index="6" pci_busid="0000:3b:00.0"
              pci_type="0300 [10de:20b0] [0000:0000] 00" pci_link_speed="0.0"/>
      <object type="PCIDev" gp_index="7" pci_busid="0000:01:00.0"
              pci_type="0300 [1002:20b0] [0000:0000] 00" pci_link_speed="0.0"/>
      <object type="PCIDev" gp_index="8" pci_busid="0000:02:00.0"
              pci_type="0403 [10de:20b0] [0000:0000] 00" pci_link_speed="0.0"/>
    </object>
  </object>
</topology>
)";

// Two packages, each with a NUMA node and two GPUs, and one GPU at equal distance from both.
constexpr std::string_view two_islands = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
          allowed_cpuset="0x00000003" nodeset="0x00000003" complete_nodeset="0x00000003"
          allowed_nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
            nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
              nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3" local_memory="1000000"/>
      <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
              nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4"/>
      <object type="Bridge" gp_index="5" bridge_type="0-1" depth="0" bridge_pci="0000:[00-7f]">
        <object type="PCIDev" gp_index="6" pci_busid="0000:1b:00.0"
                pci_type="0302 [10de:2330] [0000:0000] 00" pci_link_speed="0.0"/>
        <object type="PCIDev" gp_index="7" pci_busid="0000:3b:00.0"
                pci_type="0302 [10de:2330] [0000:0000] 00" pci_link_speed="0.0"/>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002"
            nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="8">
      <object type="NUMANode" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002"
              nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="9" local_memory="1000000"/>
      <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002"
              nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="10"/>
      <object type="Bridge" gp_index="11" bridge_type="0-1" depth="0" bridge_pci="0000:[80-ef]">
        <object type="PCIDev" gp_index="12" pci_busid="0000:86:00.0"
                pci_type="0302 [10de:2330] [0000:0000] 00" pci_link_speed="0.0"/>
      </object>
    </object>
    <object type="Bridge" gp_index="13" bridge_type="0-1" depth="0" bridge_pci="0000:[f0-ff]">
      <object type="PCIDev" gp_index="14" pci_busid="0000:f1:00.0"
              pci_type="0302 [10de:2330] [0000:0000] 00" pci_link_speed="0.0"/>
    </object>
  </object>
</topology>
)";

TEST(Pci, GroupsDevicesByNumaNode) {
  const Scratch files;
  const auto nodes = numa_nodes_of({"0000:3b:00.0", "00000000:1B:00.0", "0000:86:00.0",
                                    "0000:f1:00.0", "0000:aa:00.0", "no bus id"},
                                   files.write("two.xml", two_islands));
  ASSERT_TRUE(nodes.ok()) << nodes.error().text;
  EXPECT_EQ(*nodes, (std::map<std::string, std::int32_t>{
                        {"0000:3b:00.0", 0}, {"00000000:1B:00.0", 0}, {"0000:86:00.0", 1}}));
}

TEST(Pci, ReportsUnreadableTopology) {
  const Scratch files;
  EXPECT_FALSE(numa_nodes_of({"0000:3b:00.0"}, files.path("missing.xml")).ok());
}

TEST(Pci, Devices_CarryTheirIsland) {
  const Scratch files;
  for (const std::string bus_id :
       {"0000:1b:00.0", "0000:3b:00.0", "0000:86:00.0", "0000:f1:00.0"}) {
    files.write("proc/driver/nvidia/gpus/" + bus_id + "/information",
                "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-" + bus_id.substr(5, 2) + "\n");
  }
  DetectionPaths paths;
  paths.nvidia = {.nvml_library = "libmobula-no-such-nvml.so", .proc = files.path("proc")};
  paths.topology_xml = files.write("two.xml", two_islands);
  std::vector<std::int32_t> islands;
  for (const auto& device : detect_devices(Vendor::nvidia, paths).devices) {
    islands.push_back(device.island);
  }
  EXPECT_EQ(islands, (std::vector<std::int32_t>{0, 0, 1, -1}));

  MachineFacts machine;
  machine.devices[Vendor::nvidia] = detect_devices(Vendor::nvidia, paths).devices;
  const auto shape = node_shape(machine, {});
  ASSERT_TRUE(shape.ok()) << shape.error().text;
  EXPECT_EQ(shape->find("GPU")->instances.at(2).island, 1);
}

class GpuProbe : public testing::Test {
 protected:
  GpuPaths paths() const {
    return {.nvml_library = "libmobula-no-such-nvml.so",
            .proc = files.path("proc"),
            .topology_xml = files.write("topology.xml", topology)};
  }

  Scratch files;
};

TEST_F(GpuProbe, NvmlMissing_ReadsDriverFiles) {
  files.write("proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n");
  files.write("proc/driver/nvidia/gpus/0000:86:00.0/information",
              "Model: \t\t NVIDIA H200\nIRQ: 1\nGPU UUID: \t GPU-bb\n");
  files.write("proc/driver/nvidia/gpus/0000:3b:00.0/information",
              "Model: \t\t NVIDIA L4\nGPU UUID: \t GPU-aa\nBus Location: \t 0000:3b:00.0\n");
  const GpuFacts facts = probe_gpus(paths());
  EXPECT_EQ(facts.source, GpuSource::driver_files);
  EXPECT_EQ(facts.driver_version, "535.104.05");
  EXPECT_THAT(
      facts.devices,
      ElementsAre(
          AcceleratorDevice{.product = "NVIDIA L4", .uuid = "GPU-aa", .pci_bus_id = "0000:3b:00.0"},
          AcceleratorDevice{
              .product = "NVIDIA H200", .uuid = "GPU-bb", .pci_bus_id = "0000:86:00.0"}));
  EXPECT_THAT(facts.notes, ElementsAre(HasSubstr("libmobula-no-such-nvml.so")));
}

TEST_F(GpuProbe, DriverMissing_ReadsPciBus) {
  const GpuFacts facts = probe_gpus(paths());
  EXPECT_EQ(facts.source, GpuSource::pci_bus);
  EXPECT_THAT(facts.devices, ElementsAre(AcceleratorDevice{.pci_bus_id = "0000:3b:00.0"},
                                         AcceleratorDevice{.pci_bus_id = "0000:86:00.0"}));
  EXPECT_EQ(facts.notes.size(), 2u);
}

TEST_F(GpuProbe, NothingFound_IsNoError) {
  GpuPaths none = paths();
  none.topology_xml = files.path("missing.xml");
  const GpuFacts facts = probe_gpus(none);
  EXPECT_EQ(facts.source, GpuSource::none);
  EXPECT_THAT(facts.devices, IsEmpty());
  EXPECT_EQ(facts.notes.size(), 3u);
}

TEST(Pci, ProbesThisMachine) { EXPECT_TRUE(nvidia_pci_devices().ok()); }

class NeuronSimulated : public testing::Test {
 protected:
  Result<unsigned> cores(std::string_view script) {
    const std::string program = files.write("bin/neuron-ls", script);
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return probe_neuron_cores({.tools = files.path("bin"), .timeout = timeout});
  }

  Scratch files;
  Duration timeout = 20s;
};

TEST_F(NeuronSimulated, SumsCoresOfAllDevices) {
  const auto found = cores(
      "#!/bin/sh\n[ \"$1\" = --json-output ] || exit 3\n"
      "echo '[{\"neuron_device\":0,\"nc_count\":2},{\"neuron_device\":1,\"nc_count\":2}]'\n");
  ASSERT_TRUE(found.ok()) << found.error().text;
  EXPECT_EQ(*found, 4u);
}

TEST_F(NeuronSimulated, ToolsMissing_FindsNone) {
  EXPECT_EQ(*probe_neuron_cores({.tools = files.path("nowhere")}), 0u);
}

TEST_F(NeuronSimulated, ToolFailsOrHangs_IsReported) {
  EXPECT_EQ(cores("#!/bin/sh\nexit 4\n").error().code, ErrorCode::unavailable);
  EXPECT_EQ(cores("#!/bin/sh\necho surprise\n").error().code, ErrorCode::corrupt);
  timeout = 50ms;
  EXPECT_EQ(cores("#!/bin/sh\nexec sleep 100\n").error().code, ErrorCode::timed_out);
}

TEST(Neuron, RejectsImplausibleReply) {
  EXPECT_EQ(*neuron_cores_in("[]"), 0u);
  for (const char* json : {"", "{}", "[1]", "[{}]", "[{\"nc_count\":-2}]", "[{\"nc_count\":1e99}]",
                           "[{\"nc_count\":\"2\"}]", "[{\"nc_count\":4000},{\"nc_count\":4000}]"}) {
    EXPECT_EQ(neuron_cores_in(json).error().code, ErrorCode::corrupt) << json;
  }
}

}  // namespace
}  // namespace mobula::internal
