// Locality on a machine with two sockets, as hwloc reads it from a file, and the resulting choices.
#include "device/near_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/detection/pci.h"
#include "device/scratch.h"

namespace mobula::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string left_gpu = "0000:10:00.0", right_gpu = "0000:90:00.0";

// Two sockets with four CPUs each. Left: a switch with a GPU and eth0, and eth1 next to the switch.
// Right: a GPU, and eth2 at the same host bridge. With `numa` false, hwloc knows no locality, and
// all devices belong to the machine.
std::string two_sockets(bool numa = true) {
  const std::string left = numa ? "0x0000000f" : "0x000000ff", right = "0x000000f0";
  int index = 1;
  const auto number = [&] { return " gp_index=\"" + std::to_string(index++) + "\""; };
  const auto sets = [](const std::string& cpus, const std::string& nodes) {
    return " cpuset=\"" + cpus + "\" complete_cpuset=\"" + cpus + "\" nodeset=\"" + nodes +
           "\" complete_nodeset=\"" + nodes + "\"";
  };
  const auto device = [&](const std::string& bus, const std::string& type,
                          const std::string& inside = "") {
    return "<object type=\"PCIDev\"" + number() + " pci_busid=\"" + bus + "\" pci_type=\"" + type +
           " [0000:0000] 00\" pci_link_speed=\"0.0\">" + inside + "</object>";
  };
  const auto gpu = [&](const std::string& bus) { return device(bus, "0302 [10de:2330]"); };
  const auto network = [&](const std::string& bus, const std::string& name) {
    return device(
        bus, "0200 [15b3:1021]",
        "<object type=\"OSDev\"" + number() + " name=\"" + name + "\" osdev_type=\"2\"/>");
  };
  const auto host_bridge = [&](const std::string& buses, const std::string& inside) {
    return "<object type=\"Bridge\"" + number() +
           " bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" + buses + "]\">" + inside +
           "</object>";
  };
  const auto a_switch = [&](const std::string& bus, const std::string& buses,
                            const std::string& inside) {
    return "<object type=\"Bridge\"" + number() +
           " bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[" + buses + "]\" pci_busid=\"" +
           bus + "\" pci_type=\"0604 [1000:c010] [0000:0000] 00\" pci_link_speed=\"0.0\">" +
           inside + "</object>";
  };
  const auto package = [&](int which, const std::string& cpus, const std::string& nodes, int first,
                           const std::string& inside) {
    std::string text = "<object type=\"Package\" os_index=\"" + std::to_string(which) + "\"" +
                       sets(cpus, nodes) + number() + ">";
    text += "<object type=\"NUMANode\" os_index=\"" + std::to_string(which) + "\"" +
            sets(cpus, nodes) + number() + " local_memory=\"1000000\"/>";
    for (int cpu = first; cpu < first + (numa ? 4 : 8); ++cpu) {
      char bit[16];
      std::snprintf(bit, sizeof bit, "0x%08x", 1U << cpu);
      text += "<object type=\"Core\" os_index=\"" + std::to_string(cpu) + "\"" + sets(bit, nodes) +
              number() + ">";
      text += "<object type=\"PU\" os_index=\"" + std::to_string(cpu) + "\"" + sets(bit, nodes) +
              number() + "/></object>";
    }
    return text + inside + "</object>";
  };
  const std::string of_left = host_bridge(
      "10-2f", a_switch("0000:0f:00.0", "10-1f", gpu(left_gpu) + network("0000:11:00.0", "eth0")) +
                   network("0000:20:00.0", "eth1"));
  const std::string of_right =
      host_bridge("90-9f", gpu(right_gpu) + network("0000:91:00.0", "eth2"));
  std::string text =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology "
      "version=\"2.0\">";
  text += "<object type=\"Machine\" os_index=\"0\"" +
          sets("0x000000ff", numa ? "0x00000003" : "0x00000001") +
          " allowed_cpuset=\"0x000000ff\" allowed_nodeset=\"" +
          (numa ? "0x00000003" : "0x00000001") + "\"" + number() + ">";
  text += numa ? package(0, left, "0x00000001", 0, of_left) +
                     package(1, right, "0x00000002", 4, of_right)
               : package(0, left, "0x00000001", 0, of_left + of_right);
  return text + "</object></topology>";
}

MachineLocality locality(bool numa = true) {
  Scratch files;
  auto read = locality_of({left_gpu, right_gpu, "0000:ee:00.0"},
                          files.write("topology.xml", two_sockets(numa)));
  EXPECT_TRUE(read.ok()) << read.error().text;
  return read.ok() ? *read : MachineLocality();
}

TEST(Locality, ReadsTwoSocketsFromHwloc) {
  const MachineLocality machine = locality();
  EXPECT_EQ(machine.cpus_of.size(), 2u) << "a device that hwloc does not know is left out";
  EXPECT_THAT(machine.cpus_of.at(left_gpu), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(machine.cpus_of.at(right_gpu), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(machine.interfaces.size(), 3u);
  EXPECT_EQ(machine.interfaces.at("eth0").at(left_gpu), Nearness::same_switch);
  EXPECT_EQ(machine.interfaces.at("eth1").at(left_gpu), Nearness::same_cpus);
  EXPECT_EQ(machine.interfaces.at("eth2").at(left_gpu), Nearness::elsewhere);
  EXPECT_EQ(machine.interfaces.at("eth2").at(right_gpu), Nearness::same_cpus);
}

TEST(Locality, ReadsTopologyNamedByHwlocVariable) {
  Scratch files;
  ::setenv("HWLOC_XMLFILE", files.write("topology.xml", two_sockets()).c_str(), 1);
  const auto machine = locality_of({right_gpu});
  ::unsetenv("HWLOC_XMLFILE");
  ASSERT_TRUE(machine.ok());
  EXPECT_THAT(machine->cpus_of.at(right_gpu), ElementsAre(4, 5, 6, 7));
}

TEST(Locality, RejectsFileThatIsNoTopology) {
  EXPECT_FALSE(locality_of({left_gpu}, "/nowhere/topology.xml").ok());
}

TEST(NearCpus, IncludesOnlyAllowedCpus) {
  const CpuList near{0, 1, 2, 3};
  EXPECT_THAT(cpus_to_use(near, {0, 1, 2, 3, 4, 5, 6, 7}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(cpus_to_use(near, {2, 3, 4}), ElementsAre(2, 3)) << "taskset or a cgroup has fewer";
  EXPECT_THAT(cpus_to_use(near, {4, 5}), IsEmpty()) << "none of them: nothing is bound";
  EXPECT_THAT(cpus_to_use(near, {1, 2}), IsEmpty()) << "all of them: there is nothing to choose";
  EXPECT_THAT(cpus_to_use({}, {0, 1}), IsEmpty()) << "nothing is known";
}

TEST(NearCpus, LocalityUnknown_BindsNothing) {
  const MachineLocality machine = locality(false);
  EXPECT_THAT(cpus_to_use(machine.cpus_of.at(left_gpu), {0, 1, 2, 3, 4, 5, 6, 7}), IsEmpty());
}

TEST(NearCpus, FormatsListLikeTaskset) {
  EXPECT_EQ(to_text(CpuList{}), "");
  EXPECT_EQ(to_text({3}), "3");
  EXPECT_EQ(to_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

InterfaceQuestion question(const std::string& bound, const std::vector<std::string>& gpus) {
  return {.interfaces = {{"lo", "127.0.0.1", 8, true},
                         {"eth0", "10.1.0.1", 16, true},
                         {"eth1", "10.1.0.2", 16, true},
                         {"eth2", "10.1.0.3", 16, true},
                         {"eth2", "fd00::3", 64, true}},
          .bound = bound,
          .gpus = gpus};
}

std::string chosen(const InterfaceQuestion& query, const MachineLocality& machine = locality()) {
  const auto found = interface_to_use(machine, query);
  return found ? found->name + " " + found->address : "";
}

TEST(NearInterface, ChoosesInterfaceNearGpu) {
  EXPECT_EQ(chosen(question("10.1.0.2", {left_gpu})), "eth0 10.1.0.1")
      << "at its switch, not only at its socket";
  EXPECT_EQ(chosen(question("10.1.0.1", {right_gpu})), "eth2 10.1.0.3");
  EXPECT_EQ(chosen(question("10.1.0.3", {left_gpu})), "eth0 10.1.0.1");
}

TEST(NearInterface, KeepsBoundInterfaceUnlessAnotherIsNearer) {
  EXPECT_EQ(chosen(question("10.1.0.1", {left_gpu})), "");
  EXPECT_EQ(chosen(question("10.1.0.3", {right_gpu})), "");
  EXPECT_EQ(chosen(question("10.1.0.3", {})), "");
  EXPECT_EQ(chosen(question("10.1.0.2", {left_gpu}), locality(false)), "eth0 10.1.0.1")
      << "switches are known also where sockets are not";
  EXPECT_EQ(chosen(question("10.1.0.1", {right_gpu}), MachineLocality()), "");
}

TEST(NearInterface, PrefersInterfaceOnReachableNetwork) {
  InterfaceQuestion query = question("10.1.0.3", {left_gpu});
  query.interfaces[1].up = false;
  EXPECT_EQ(chosen(query), "eth1 10.1.0.2");
  query.interfaces[2].address = "10.2.0.2";
  EXPECT_EQ(chosen(query), "") << "another network, which others may not reach";
  query = question("fd00::3", {left_gpu});
  EXPECT_EQ(chosen(query), "") << "of another family";
  query.interfaces[1].address = "fd00::1";
  query.interfaces[1].prefix_bits = 64;
  EXPECT_EQ(chosen(query), "eth0 fd00::1");
  query.interfaces[1].prefix_bits = 200;
  query.interfaces[4].prefix_bits = 200;
  EXPECT_EQ(chosen(query), "") << "nonsense";
  EXPECT_EQ(chosen(question("192.0.2.1", {left_gpu})), "")
      << "the bound address is of no interface";
}

TEST(NearInterface, PrefersInterfaceNearestToAllGpus) {
  EXPECT_EQ(chosen(question("10.1.0.2", {left_gpu, left_gpu, right_gpu})), "eth0 10.1.0.1");
}

}  // namespace
}  // namespace mobula::internal
