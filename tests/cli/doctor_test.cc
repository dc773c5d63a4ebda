#include "cli/doctor/cluster_checks.h"
#include "cli/doctor/gpu_checks.h"
#include "cli/doctor/machine_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal::cli::doctor {
namespace {

using ::testing::HasSubstr;

Finding named(const Findings& found, const std::string& name) {
  for (const auto& each : found) {
    if (each.name == name) return each;
  }
  ADD_FAILURE() << "no finding is named " << name;
  return {};
}

// Each fault comes with a command to type.
void expect_fix(const Finding& finding, const std::string& seen, const std::string& fix) {
  EXPECT_EQ(finding.verdict, Verdict::fix) << finding.seen;
  EXPECT_THAT(finding.seen, HasSubstr(seen));
  EXPECT_THAT(finding.fix, HasSubstr(fix));
}

Measures good() {
  Measures seen;
  seen.shared_bytes = seen.shared_free_bytes = std::uint64_t{1} << 30;
  seen.memory_bytes = std::uint64_t{8} << 30;
  seen.host = "rack7";
  seen.host_addresses = {"10.0.0.7"};
  return seen;
}

TEST(Doctor, CompleteMachine_HasNoFindings) {
  Findings found = check_limits(good());
  for (auto each : {check_memory(good()), check_names(good(), "10.0.0.7")})
    found.insert(found.end(), each.begin(), each.end());
  for (const auto& each : found)
    EXPECT_EQ(each.verdict, Verdict::ok) << each.name << ": " << each.seen;
}

TEST(Doctor, LowLimits_AreReportedWithFix) {
  Measures seen = good();
  seen.files = 256;
  seen.processes = 100;
  seen.locked_bytes = 64 * 1024;
  auto found = check_limits(seen);
  expect_fix(named(found, "open files"), "256", "ulimit -n 65536");
  expect_fix(named(found, "processes"), "100", "ulimit -u");
  EXPECT_EQ(named(found, "locked memory").verdict, Verdict::note) << "nothing pins memory here";
  seen.plugins = "gloo:ucx";
  expect_fix(named(check_limits(seen), "locked memory"), "64 KiB", "LimitMEMLOCK=infinity");
  seen.root = true;
  EXPECT_EQ(named(check_limits(seen), "processes").verdict, Verdict::ok)
      << "root has no such limit";
  seen.group_processes_left = 12;
  expect_fix(named(check_limits(seen), "processes"), "12 processes", "pids.max");
}

TEST(Doctor, SmallSharedMemory_MattersWhenUsed) {
  Measures seen = good();
  seen.shared_free_bytes = std::uint64_t{1} << 20;
  EXPECT_EQ(named(check_memory(seen), "shared memory").verdict, Verdict::note);
  EXPECT_THAT(named(check_memory(seen), "shared memory").seen,
              HasSubstr("Mobula's objects are elsewhere"));
  seen.has_gpus = true;
  expect_fix(named(check_memory(seen), "shared memory"), "1 of 1024 MiB", "--shm-size");
  seen.shared_writable = false;
  expect_fix(named(check_memory(seen), "shared memory"), "is not writable", "chmod 1777");
  seen.shared_bytes.reset();
  expect_fix(named(check_memory(seen), "shared memory"), "is missing", "mount -t tmpfs");
}

TEST(Doctor, ReportsOvercommitAndSwap) {
  Measures seen = good();
  seen.overcommit = 2;
  EXPECT_EQ(named(check_memory(seen), "overcommit").verdict, Verdict::ok)
      << "there is enough of it";
  seen.commit_left_bytes = std::uint64_t{100} << 20;
  expect_fix(named(check_memory(seen), "overcommit"), "100 MiB", "sysctl vm.overcommit_memory=0");
  seen.group_memory_left = std::uint64_t{200} << 20;
  expect_fix(named(check_memory(seen), "memory limit"), "200 MiB", "memory.max");
  seen.swap_bytes = std::uint64_t{4} << 30;
  EXPECT_EQ(named(check_memory(seen), "swap").verdict, Verdict::note);
}

TEST(Doctor, LoopbackHostName_IsWrongWhenAdvertised) {
  Measures seen = good();
  seen.host_addresses = {"127.0.1.1", "::1"};
  EXPECT_EQ(named(check_names(seen, "10.0.0.7"), "host name").verdict, Verdict::note);
  expect_fix(named(check_names(seen, "rack7"), "host name"), "127.0.1.1", "--advertise");
  seen.host_addresses = {"127.0.1.1", "10.0.0.7"};
  EXPECT_EQ(named(check_names(seen, "rack7"), "host name").verdict, Verdict::ok);
  seen.host_addresses.clear();
  expect_fix(named(check_names(seen, "rack7"), "host name"), "no address", "/etc/hosts");
}

TEST(Doctor, DistinguishesRefusedFromSilentPorts) {
  const std::vector<PortSeen> seen{
      {"agent of node a", "10.0.0.1:7", PortAnswer::open, {}},
      {"agent of node b", "10.0.0.2:7", PortAnswer::refused, {}},
      {"bytes of node c", "10.0.0.3:8", PortAnswer::silent, {}},
      {"agent of node d", "nowhere:9", PortAnswer::unknown, "host nowhere is unknown"}};
  const auto found = check_ports("node ports", seen);
  ASSERT_EQ(found.size(), 3u);
  expect_fix(found[0], "connection refused", "mobula doctor");
  EXPECT_THAT(found[0].seen, HasSubstr("10.0.0.2:7 (agent of node b)"));
  expect_fix(found[1], "no reply within 3 s from 10.0.0.3:8", "allow TCP to port 8 at 10.0.0.3");
  expect_fix(found[2], "host nowhere is unknown", "--advertise");
  const auto head = check_ports("head port", {{"head", "h:1", PortAnswer::refused, {}}});
  expect_fix(head.front(), "connection refused at h:1", "mobula start --head");
}

TEST(Doctor, ShowsBothClocks) {
  constexpr std::int64_t at = 1'795'500'000'000;  // 2026-11-24T06:00:00Z
  EXPECT_EQ(check_clock(at, at + 1, at + 2).verdict, Verdict::ok);
  EXPECT_EQ(check_clock(at, at + 1'500, at + 2).verdict, Verdict::ok)
      << "which a tool cannot tell from a slow answer";
  EXPECT_EQ(check_clock(at, at - 10'000, at + 5).verdict, Verdict::note);
  const auto behind = check_clock(at, at + 7'200'000, at + 5);
  expect_fix(behind,
             "2026-11-24T06:00:00Z, of the head: 2026-11-24T08:00:00Z: 7200.0 s behind the head",
             "set-ntp");
  expect_fix(check_clock(at, at - 7'200'000, at + 5), "7200.0 s ahead of the head", "set-ntp");
}

TEST(Doctor, ComparesNodeClocks) {
  static constexpr std::int64_t at = 1'795'500'000'000;  // 2026-11-24T06:00:00Z
  const auto node = [](const std::string& id, const nlohmann::json& clock_ms) {
    return nlohmann::json{
        {"node_id", id}, {"host", "h" + id}, {"clock_ms", clock_ms}, {"head_clock_ms", at}};
  };
  auto nodes = nlohmann::json::array({node("1", at + 100), node("2", nullptr)});
  EXPECT_EQ(check_node_clocks(nodes).verdict, Verdict::ok);
  EXPECT_THAT(check_node_clocks(nodes).seen, HasSubstr("1 of 2 nodes compared"));
  nodes.push_back(node("3", at - 10'000));
  EXPECT_EQ(check_node_clocks(nodes).verdict, Verdict::note);
  nodes.push_back(node("4", at + 7'200'000));
  expect_fix(check_node_clocks(nodes),
             "2026-11-24T08:00:00Z, the head's 2026-11-24T06:00:00Z: 7200.0 s ahead of the head",
             "set-ntp");
  EXPECT_THAT(check_node_clocks(nodes).seen, HasSubstr("10.0 s behind the head"));
}

TEST(Doctor, ReportsDifferencesBetweenNodes) {
  const auto node = [](const std::string& id, const std::string& host, const std::string& driver,
                       const std::string& address) {
    return nlohmann::json{{"node_id", id},
                          {"host", host},
                          {"address", address},
                          {"resources", {{"CPU", 1}}},
                          {"labels", {{"mobula.io/nvidia-driver", driver}}}};
  };
  EXPECT_TRUE(
      check_nodes({node("a", "x", "550.1", "10.0.0.1:1"), node("b", "y", "550.1", "10.0.0.2:1")},
                  "x")
          .empty());
  const auto found = check_nodes(
      {node("a", "x", "550.1", "127.0.0.1:1"), node("b", "y", "535.2", "127.0.0.1:1")}, "x");
  expect_fix(named(found, "GPU drivers of nodes"), "535.2 on b (y); 550.1 on a (x)",
             "one driver version");
  expect_fix(named(found, "node addresses"), "b (y)", "--advertise");
}

TEST(Doctor, NamesDifferentGpuLibraries) {
  const auto node = [](const std::string& id, nlohmann::json labels) {
    return nlohmann::json{{"node_id", id},
                          {"host", "h"},
                          {"address", "10.0.0.1:1"},
                          {"resources", {{"CPU", 1}}},
                          {"labels", std::move(labels)}};
  };
  const std::string driver = "mobula.io/nvidia-driver", cuda = "mobula.io/nvidia-cuda",
                    nccl = "mobula.io/nvidia-nccl";
  const auto without_gpus = node("z", nlohmann::json::object());
  const auto one = node("a", {{driver, "550.1"}, {cuda, "12.4"}, {nccl, "2.21.5"}});
  EXPECT_TRUE(check_nodes({one, node("b", {{driver, "550.1"}, {cuda, "12.4"}, {nccl, "2.21.5"}}),
                           without_gpus},
                          "x")
                  .empty());
  auto found = check_nodes(
      {one, node("b", {{driver, "550.1"}, {cuda, "12.4"}, {nccl, "2.28.9"}}), without_gpus}, "x");
  ASSERT_EQ(found.size(), 1u);
  expect_fix(named(found, "NCCL of nodes"), "2.21.5 on a (h); 2.28.9 on b (h)",
             "MOBULA_NCCL_LIBRARY");
  found = check_nodes({one, node("b", {{driver, "550.1"}, {cuda, "12.4"}})}, "x");
  expect_fix(named(found, "NCCL of nodes"), "no usable library on b (h)", "libnccl2");
  found = check_nodes({one, node("b", {{driver, "550.1"}, {cuda, "12.6"}, {nccl, "2.21.5"}})}, "x");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(named(found, "CUDA drivers of nodes").verdict, Verdict::note);
  EXPECT_EQ(named(found, "CUDA drivers of nodes").seen, "12.4 on a (h); 12.6 on b (h)");
  found = check_nodes({one, node("b", {{driver, "570.1"}, {cuda, "12.8"}, {nccl, "2.21.5"}})}, "x");
  ASSERT_EQ(found.size(), 1u) << "which comes with the driver";
  EXPECT_TRUE(check_nodes({one, node("old", {{driver, "550.1"}})}, "x").empty())
      << "an agent that does not say";
}

TEST(Doctor, ReadsVersionOfBothKernelDrivers) {
  EXPECT_EQ(kernel_driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat "
                                  "Aug 19 01:15:15 UTC 2023\n"),
            "535.104.05");
  EXPECT_EQ(
      kernel_driver_version(
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n"),
      "550.54.15");
  EXPECT_EQ(kernel_driver_version("GCC version: 12.2.0"), "");
  EXPECT_EQ(kernel_driver_version(""), "");
}

}  // namespace
}  // namespace mobula::internal::cli::doctor
