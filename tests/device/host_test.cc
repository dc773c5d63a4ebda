#include "device/host.h"

#include <gtest/gtest.h>

#include "device/scratch.h"

namespace mobula::internal {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

class HostTest : public testing::Test {
 protected:
  HostTest() {
    files.write("proc/meminfo",
                "MemTotal:       4096000 kB\nMemFree: 1 kB\nMemAvailable:   2048000 kB\n");
  }
  HostPaths paths() const { return {.proc = files.path("proc"), .cgroup = files.path("cgroup")}; }

  Scratch files;
};

TEST_F(HostTest, NoCgroups_UsesMachine) {
  const auto memory = probe_memory(paths());
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->total_bytes, 4000 * mib);
  EXPECT_EQ(memory->available_bytes, 2000 * mib);
  EXPECT_FALSE(memory->cgroup_headroom_bytes.has_value());
  EXPECT_EQ(default_node_memory(*memory), 1400 * mib);
  EXPECT_FALSE(probe_cpus(paths()).quota.has_value());
}

TEST_F(HostTest, UsesTightestCgroupV2) {
  files.write("proc/self/cgroup", "0::/slice/job\n");
  files.write("cgroup/slice/cpu.max", "150000 100000\n");
  files.write("cgroup/slice/job/cpu.max", "max 100000\n");
  files.write("cgroup/slice/memory.max", "1048576000\n");
  files.write("cgroup/slice/memory.current", "524288000\n");
  files.write("cgroup/slice/memory.stat", "anon 1\ninactive_file 104857600\n");
  files.write("cgroup/slice/job/memory.max", "max\n");
  files.write("cgroup/slice/job/memory.current", "1\n");
  EXPECT_DOUBLE_EQ(probe_cpus(paths()).quota.value(), 1.5);
  EXPECT_EQ(probe_memory(paths())->cgroup_headroom_bytes, 600 * mib);
  EXPECT_EQ(probe_memory(paths())->usable_bytes(), 600 * mib);
}

TEST_F(HostTest, UsesCgroupV1) {
  files.write("proc/self/cgroup", "4:memory:/a\n2:cpu,cpuacct:/a\n0::/\n");
  files.write("cgroup/cpu/a/cpu.cfs_quota_us", "250000\n");
  files.write("cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  files.write("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  files.write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  files.write("cgroup/memory/a/memory.limit_in_bytes", "67108864\n");
  files.write("cgroup/memory/a/memory.usage_in_bytes", "1048576\n");
  files.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  files.write("cgroup/memory/memory.usage_in_bytes", "99999999\n");
  EXPECT_DOUBLE_EQ(probe_cpus(paths()).quota.value(), 2.5);
  EXPECT_EQ(probe_memory(paths())->cgroup_headroom_bytes, 63 * mib);
}

TEST_F(HostTest, CgroupOverLimit_HasNoMemory) {
  files.write("proc/self/cgroup", "0::/\n");
  files.write("cgroup/memory.max", "1000\n");
  files.write("cgroup/memory.current", "2000\n");
  EXPECT_EQ(probe_memory(paths())->usable_bytes(), 0u);
}

TEST_F(HostTest, UsesRootGroupWhenContainerPathIsOfHost) {
  files.write("proc/self/cgroup", "0::/host/side/path\n");
  files.write("cgroup/cpu.max", "50000 100000\n");
  const HostCpus cpus = probe_cpus(paths());
  EXPECT_DOUBLE_EQ(cpus.quota.value(), 0.5);
  EXPECT_EQ(cpus.usable(), 1u) << "a node has at least one";
}

TEST_F(HostTest, UnreadableMemory_FailsWithAdvice) {
  const auto memory = probe_memory({.proc = files.path("nowhere"), .cgroup = files.path()});
  EXPECT_EQ(memory.error().code, ErrorCode::corrupt);
  EXPECT_NE(memory.error().text.find("--memory"), std::string::npos);
}

TEST(HostCpus, UsesSmallestLimit) {
  EXPECT_EQ((HostCpus{.online = 8, .affinity = 4}.usable()), 4u);
  EXPECT_EQ((HostCpus{.online = 8, .affinity = 8, .quota = 2.9}.usable()), 2u);
  EXPECT_EQ((HostCpus{.online = 8, .affinity = 8, .quota = 64.0}.usable()), 8u);
}

TEST(Host, ProbesThisMachine) {
  const HostCpus cpus = probe_cpus();
  EXPECT_GE(cpus.online, 1u);
  EXPECT_LE(cpus.usable(), cpus.online);
  const auto memory = probe_memory();
  ASSERT_TRUE(memory.ok()) << memory.error().text;
  EXPECT_GT(memory->usable_bytes(), 0u);
  EXPECT_LE(memory->available_bytes, memory->total_bytes);
}

}  // namespace
}  // namespace mobula::internal
