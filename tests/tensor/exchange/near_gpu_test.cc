// CPUs of the threads of a simulated GPU, on a machine that hwloc reads from a file. A thread is
// never bound to a CPU that the process may not use.
#include <sched.h>

#include <fstream>

#include <fmt/format.h>

#include "device/host.h"
#include "device/host_identity.h"
#include "simulated_gpu/machine.h"
#include "tensor/exchange/exchange_process.h"

namespace mobula::internal::exchange::near {
namespace {

// A machine with the CPUs `all`; the CPUs in `near` share a socket with the first simulated GPU.
std::string machine_with(const CpuList& all, const CpuList& near) {
  int index = 1;
  const auto set = [](const CpuList& cpus) {
    // Words of 32 bits, highest first, as hwloc writes them.
    std::vector<std::uint32_t> words(cpus.empty() ? 1 : cpus.back() / 32 + 1);
    for (const unsigned cpu : cpus) words[cpu / 32] |= 1U << (cpu % 32);
    std::string text;
    for (std::size_t i = words.size(); i-- > 0;)
      text += fmt::format("{}{:#010x}", text.empty() ? "" : ",", words[i]);
    return text;
  };
  const auto sets = [&](const CpuList& cpus, const std::string& nodes) {
    return fmt::format(
        "cpuset=\"{0}\" complete_cpuset=\"{0}\" nodeset=\"{1}\" complete_nodeset=\"{1}\" "
        "gp_index=\"{2}\"",
        set(cpus), nodes, index++);
  };
  CpuList far;
  std::ranges::set_difference(all, near, std::back_inserter(far));
  std::string text =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology "
      "version=\"2.0\"><object type=\"Machine\" os_index=\"0\" ";
  text += sets(all, "0x00000003") +
          fmt::format(" allowed_cpuset=\"{}\" allowed_nodeset=\"0x00000003\">", set(all));
  for (int which = 0; which < 2; ++which) {
    const CpuList& cpus = which == 0 ? near : far;
    if (cpus.empty()) continue;
    const std::string node = which == 0 ? "0x00000001" : "0x00000002";
    text += fmt::format(
        "<object type=\"Package\" os_index=\"{0}\" {1}><object type=\"NUMANode\" os_index=\"{0}\" "
        "{2} local_memory=\"1000000\"/>",
        which, sets(cpus, node), sets(cpus, node));
    for (const unsigned cpu : cpus)
      text += fmt::format("<object type=\"PU\" os_index=\"{}\" {}/>", cpu, sets({cpu}, node));
    if (which == 0) {
      text += fmt::format(
          "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" "
          "bridge_pci=\"0000:[01-02]\"><object type=\"PCIDev\" gp_index=\"{}\" "
          "pci_busid=\"0000:01:00.0\" pci_type=\"0302 [10de:2330] [0000:0000] 00\" "
          "pci_link_speed=\"0.0\"/></object>",
          index, index + 1);
      index += 2;
    }
    text += "</object>";
  }
  return text + "</object></topology>";
}

void be_on(const std::string& directory, const std::string& xml) {
  const std::string file = directory + "/topology.xml";
  std::ofstream(file) << xml;
  ::setenv("HWLOC_XMLFILE", file.c_str(), 1);
}

Member with_first_gpu() {
  Member member;
  member.number = 1;
  member.gpus = std::make_shared<GpuDevices>(std::vector{GpuTerms{.memory_bytes = 64u << 20}},
                                             [](const std::string&) {});
  EXPECT_TRUE(member.gpus->open().ok()) << member.gpus->why_none();
  return member;
}

// CPUs of each thread of this process with this name.
std::vector<CpuList> cpus_of_threads(const std::string& name) {
  std::vector<CpuList> all;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(each.path() / "comm"), comm);
    if (comm != name) continue;
    cpu_set_t mask;
    EXPECT_EQ(::sched_getaffinity(std::stoi(each.path().filename()), sizeof mask, &mask), 0);
    CpuList& cpus = all.emplace_back();
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
    }
  }
  return all;
}

TEST(SimulatedNearGpu, BindsItsThreadsToNearbyCpus) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    const CpuList all = allowed_cpus();
    be_on(directory.path(), machine_with(all, {all.front()}));
    Process one(directory.path(), with_first_gpu());
    const CpuList expected = all.size() > 1 ? CpuList{all.front()} : all;
    // Threads bind themselves shortly after their start.
    EXPECT_TRUE(soon([&] {
      const auto seen = cpus_of_threads("mobula-device");
      return !seen.empty() &&
             std::ranges::all_of(seen, [&](const CpuList& each) { return each == expected; });
    }));
    EXPECT_EQ(allowed_cpus(), all) << "the threads of the user keep their CPUs";
  });
}

TEST(SimulatedNearGpu, NoAllowedCpuNearby_BindsNothing) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    const CpuList all = allowed_cpus();
    // A socket without CPUs of this process.
    CpuList larger = all;
    larger.push_back(all.back() + 1);
    be_on(directory.path(), machine_with(larger, {larger.back()}));
    Process one(directory.path(), with_first_gpu());
    EXPECT_TRUE(soon([&] {
      const auto seen = cpus_of_threads("mobula-device");
      return !seen.empty() &&
             std::ranges::all_of(seen, [&](const CpuList& each) { return each == all; });
    }));
  });
}

TEST(SimulatedNearGpu, LocalityUnknown_BindsNothing) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    ::setenv("HWLOC_XMLFILE", (directory.path() + "/not-there.xml").c_str(), 1);
    const Member member = with_first_gpu();
    EXPECT_TRUE(member.gpus->devices().front().cpus.empty());
    const CpuList all = allowed_cpus();
    Process one(directory.path(), member);
    for (const CpuList& each : cpus_of_threads("mobula-device")) EXPECT_EQ(each, all);
  });
}

TEST(Interfaces, ListsInterfacesAndKeepsBoundAddress) {
  const auto all = interfaces_here();
  const auto loopback = std::ranges::find(all, "127.0.0.1", &InterfaceFacts::address);
  ASSERT_NE(loopback, all.end());
  EXPECT_TRUE(loopback->up);
  EXPECT_EQ(loopback->prefix_bits, 8);
  EXPECT_EQ(near_address("127.0.0.1:0", {}, {"0000:01:00.0"}), "127.0.0.1:0");
  EXPECT_EQ(near_address("[::1]:0", {}, {"0000:01:00.0"}), "[::1]:0");
  EXPECT_EQ(near_address("nonsense", {}, {"0000:01:00.0"}), "nonsense");
}

}  // namespace
}  // namespace mobula::internal::exchange::near
