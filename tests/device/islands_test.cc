// Islands of GPUs on machines as NVML and hwloc describe them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <fmt/format.h>

#include "device/detection/probe.h"
#include "device/link_groups.h"
#include "device/scratch.h"

namespace mobula::internal {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

using Links = std::vector<std::string>;  // in the format of the simulated library

// Devices are numbered by bus.
std::string bus_id(std::size_t gpu) { return fmt::format("00000000:{:02X}:00.0", gpu + 16); }

// Topology that hwloc would export for a machine with these numbers of GPUs per NUMA node.
std::string topology_with(const std::vector<std::size_t>& gpus_of_node) {
  const auto sets = [](unsigned bits) {
    return fmt::format(
        "cpuset=\"{0:#010x}\" complete_cpuset=\"{0:#010x}\" nodeset=\"{0:#010x}\" "
        "complete_nodeset=\"{0:#010x}\"",
        bits);
  };
  int index = 1;
  std::size_t gpu = 0;
  const unsigned all = (1u << gpus_of_node.size()) - 1;
  std::string xml = fmt::format(
      "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology "
      "version=\"2.0\">"
      "<object type=\"Machine\" os_index=\"0\" {0} allowed_cpuset=\"{1:#010x}\" "
      "allowed_nodeset=\"{1:#010x}\" gp_index=\"{2}\">",
      sets(all), all, index++);
  for (std::size_t node = 0; node < gpus_of_node.size(); ++node) {
    const std::string bits = sets(1u << node);
    xml += fmt::format("<object type=\"Package\" os_index=\"{}\" {} gp_index=\"{}\">", node, bits,
                       index++);
    xml += fmt::format(
        "<object type=\"NUMANode\" os_index=\"{}\" {} gp_index=\"{}\" "
        "local_memory=\"1000000\"/>",
        node, bits, index++);
    xml += fmt::format("<object type=\"PU\" os_index=\"{}\" {} gp_index=\"{}\"/>", node, bits,
                       index++);
    xml += fmt::format(
        "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" "
        "bridge_pci=\"0000:[{:02x}-{:02x}]\">",
        index++, gpu + 16, gpu + 16 + gpus_of_node[node]);
    for (const std::size_t end = gpu + gpus_of_node[node]; gpu < end; ++gpu) {
      xml += fmt::format(
          "<object type=\"PCIDev\" gp_index=\"{}\" pci_busid=\"0000:{:02x}:00.0\" "
          "pci_type=\"0302 [10de:2330] [0000:0000] 00\" pci_link_speed=\"0.0\"/>",
          index++, gpu + 16);
    }
    xml += "</object></object>";
  }
  return xml + "</object></topology>";
}

class IslandsSimulated : public testing::Test {
 protected:
  ~IslandsSimulated() override { ::unsetenv("FAKE_NVML_FILE"); }

  // Islands of a node's GPUs; GPU i has the links `links[i]`.
  std::vector<std::int32_t> islands(const std::vector<Links>& links,
                                    const std::vector<std::size_t>& gpus_of_node) {
    std::string lines = "driver|550.54.15\n";
    for (std::size_t gpu = 0; gpu < links.size(); ++gpu) {
      lines += fmt::format("gpu|NVIDIA H100 80GB HBM3|GPU-{}|1000|{}|0\n", gpu, bus_id(gpu));
      for (const auto& link : links[gpu]) lines += "link|" + link + "\n";
    }
    return islands_of(lines + more, gpus_of_node);
  }
  std::vector<std::int32_t> islands_of(const std::string& lines,
                                       const std::vector<std::size_t>& gpus_of_node) {
    ::setenv("FAKE_NVML_FILE", files.write("nvml", lines).c_str(), 1);
    DetectionPaths paths{.nvidia = {.nvml_library = library}};
    paths.topology_xml = files.write("topology.xml", topology_with(gpus_of_node));
    Detected found = detect_devices(Vendor::nvidia, paths);
    EXPECT_THAT(found.notes, IsEmpty());
    MachineFacts machine;
    machine.devices[Vendor::nvidia] = std::move(found.devices);
    std::vector<std::int32_t> result;
    const auto node = node_shape(machine, {});
    for (const auto& each : node->find("GPU")->instances) result.push_back(each.island);
    return result;
  }

  Scratch files;
  std::string library = FAKE_NVML;
  std::string more;  // lines after the device lines
};

const Links six_switches(6, "switch");

TEST_F(IslandsSimulated, JoinsAllGpusOnSwitches) {
  EXPECT_THAT(islands(std::vector<Links>(8, six_switches), {4, 4}),
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(IslandsSimulated, NoLinks_UsesNumaNodes) {
  EXPECT_THAT(islands(std::vector<Links>(8), {4, 4}), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

TEST_F(IslandsSimulated, SeparatesBridgedPairs) {
  std::vector<Links> links;
  for (std::size_t gpu = 0; gpu < 8; ++gpu) links.push_back(Links(4, bus_id(gpu ^ 1)));
  EXPECT_THAT(islands(links, {4, 4}), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

TEST_F(IslandsSimulated, JoinsGpusLinkedThroughOthers) {
  // A ring over both NUMA nodes, in which each GPU reports one neighbor.
  std::vector<Links> ring;
  for (std::size_t gpu = 0; gpu < 4; ++gpu) ring.push_back({bus_id((gpu + 1) % 4)});
  EXPECT_THAT(islands(ring, {2, 2}), ElementsAre(0, 0, 0, 0));
}

TEST_F(IslandsSimulated, UnlinkedGpu_KeepsNumaNode) {
  EXPECT_THAT(islands({{bus_id(2)}, {}, {bus_id(0)}, {}}, {2, 2}), ElementsAre(2, 0, 2, 1));
}

TEST_F(IslandsSimulated, IgnoresLinksToOtherDevices) {
  // Links to the processor (as on POWER9), an inactive one, one to the GPU itself, and one to a GPU
  // that is not present.
  EXPECT_THAT(islands({{"cpu", "cpu"}, {"cpu", "down"}, {bus_id(2)}, {bus_id(40)}}, {2, 2}),
              ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(islands({six_switches, {}}, {1, 1}), ElementsAre(0, 1));
}

TEST_F(IslandsSimulated, OldDriver_ReportsNoLinks) {
  library = FAKE_OLD_NVML;
  EXPECT_THAT(islands(std::vector<Links>(4, six_switches), {2, 2}), ElementsAre(0, 0, 1, 1));
}

TEST_F(IslandsSimulated, LinkQueryFails_IsIgnored) {
  for (const std::string function :
       {"nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemoteDeviceType",
        "nvmlDeviceGetNvLinkRemotePciInfo_v2"}) {
    more = "fail|" + function + "|999\n";
    EXPECT_THAT(islands({{bus_id(2)}, {}, {bus_id(0)}, {}}, {2, 2}), ElementsAre(0, 0, 1, 1))
        << function;
  }
}

TEST_F(IslandsSimulated, Slices_HaveNoLinks) {
  const std::string linked = "link|" + bus_id(0) + "\nlink|" + bus_id(1) + "\n";
  const std::string gpus = "gpu|A|GPU-0|1000|" + bus_id(0) + "|1\n" + linked +
                           "slice|A MIG 1g.5gb|MIG-1|500\nslice|A MIG 1g.5gb|MIG-2|500\n" +
                           "gpu|A|GPU-1|1000|" + bus_id(1) + "|0\n" + linked;
  EXPECT_THAT(islands_of(gpus, {1, 1}), ElementsAre(0, 0, 1));
}

TEST(LinkGroups, NoDevices_HaveNoGroups) {
  EXPECT_THAT(link_groups({}), IsEmpty());
  EXPECT_THAT(link_groups({NvmlDevice{}, NvmlDevice{}}), Each(-1));
}

}  // namespace
}  // namespace mobula::internal
