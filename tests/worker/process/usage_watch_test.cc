// CPU and memory use of executors according to /proc.
#include "worker/process/watch/usage_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

class UsageWatchTest : public testing::Test {
 protected:
  UsageWatchTest() {
    std::string pattern = (fs::temp_directory_path() / "usage-XXXXXX").string();
    directory = ::mkdtemp(pattern.data());
    paths.proc = directory;
    write("stat", "cpu  100 10 50 10000 500 5 5 0 0 0\ncpu0 1 2 3\n");
    write("meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n");
  }
  ~UsageWatchTest() override { fs::remove_all(directory); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(directory + "/" + name).parent_path());
    std::ofstream(directory + "/" + name) << text;
  }
  void process(int pid, const std::string& name, int user, int system) const {
    write(std::to_string(pid) + "/stat", std::to_string(pid) + " (" + name +
                                             ") S 1 1 1 0 -1 4194304 9 9 0 0 " +
                                             std::to_string(user) + " " + std::to_string(system) +
                                             " 7 7 20 0 5 0 100 1000 200 18446744073709551615\n");
    write(std::to_string(pid) + "/statm", "1000 300 100 1 0 50 0\n");
  }
  static UsageWatch::Executors executors(std::initializer_list<int> pids) {
    UsageWatch::Executors all;
    for (const int pid : pids)
      all.push_back({{SlotId::of(static_cast<unsigned>(pid)), 0, pid}, "f"});
    return all;
  }

  std::string directory;
  HostPaths paths;
  const std::int64_t tick_ns = 1'000'000'000 / ::sysconf(_SC_CLK_TCK);
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
};

TEST_F(UsageWatchTest, ReadsKernelNumbersDespiteProcessName) {
  process(7, "a) R 1 2 (b", 30, 12);
  UsageWatch watch(paths);
  const UsageReply reply = watch.sample(Time::from_ns(10'000'000'000), [] {
    return executors({7, 8});
  });
  EXPECT_EQ(reply.cpu.count(), 170 * tick_ns) << "but for idle and waiting for disks";
  EXPECT_EQ(reply.memory_bytes, 1000 * 1024);
  EXPECT_EQ(reply.memory_used_bytes, 600 * 1024);
  ASSERT_EQ(reply.executors.size(), 1u) << "8 has ended";
  EXPECT_EQ(reply.executors[0].cpu.count(), 56 * tick_ns) << "with children that have ended";
  EXPECT_EQ(reply.executors[0].threads, 5u);
  EXPECT_EQ(reply.executors[0].resident_bytes, 300 * page);
  EXPECT_EQ(reply.executors[0].own_bytes, 200 * page);
}

TEST_F(UsageWatchTest, RepeatedQuery_ReturnsCachedSample) {
  process(7, "f", 1, 1);
  UsageWatch watch(paths);
  int samples = 0;
  const auto sample = [&] {
    ++samples;
    return executors({7});
  };
  for (int i = 0; i < 100; ++i)
    (void)watch.sample(Time::from_ns(10'000'000'000 + i * 1'000'000), sample);
  EXPECT_EQ(samples, 1);
  (void)watch.sample(Time::from_ns(11'000'000'000), sample);
  EXPECT_EQ(samples, 2);
}

TEST_F(UsageWatchTest, ReportsGpuBytesOfLastSample) {
  process(7, "f", 1, 1);
  UsageWatch watch(paths);
  watch.took({{{2, "uuid", true, 900, {{SlotId::of(7), 0, 500}, {SlotId::of(8), 0, 400}}, 60}}});
  const UsageReply reply =
      watch.sample(Time::from_ns(1'000'000'000), [] { return executors({7}); });
  ASSERT_EQ(reply.devices.size(), 1u);
  EXPECT_EQ(reply.devices[0].used_bytes, 900);
  EXPECT_EQ(reply.devices[0].busy_percent, 60);
  ASSERT_EQ(reply.executors[0].devices.size(), 1u);
  EXPECT_EQ(reply.executors[0].devices[0].device, 2u);
  EXPECT_EQ(reply.executors[0].devices[0].used_bytes, 500);
}

TEST_F(UsageWatchTest, CountsDescendantsWithExecutor) {
  // Process 7 has child 8 in one thread and child 9 in another, 9 has child 10. 11 has exited, and
  // 12 belongs to another tree.
  for (const int pid : {7, 8, 9, 10, 12}) process(pid, "f", 10, 5);
  write("7/task/7/children", "8 11 ");
  write("7/task/70/children", "9 ");
  write("9/task/9/children", "10 ");
  UsageWatch watch(paths);
  const UsageReply reply =
      watch.sample(Time::from_ns(1'000'000'000), [] { return executors({7}); });
  ASSERT_EQ(reply.executors.size(), 1u);
  EXPECT_EQ(reply.executors[0].pid, 7);
  EXPECT_EQ(reply.executors[0].cpu.count(), 4 * 29 * tick_ns);
  EXPECT_EQ(reply.executors[0].threads, 4 * 5u);
  EXPECT_EQ(reply.executors[0].resident_bytes, 4 * 300 * page);
  EXPECT_EQ(reply.executors[0].own_bytes, 4 * 200 * page);
  EXPECT_FALSE(reply.executors[0].partial);
}

TEST_F(UsageWatchTest, LimitsCountedDescendantsAndMarksPartial) {
  constexpr int more = 50;
  std::string children;
  for (int pid = 1000; pid < 1000 + static_cast<int>(UsageWatch::max_below) + more; ++pid) {
    process(pid, "f", 1, 0);
    children += std::to_string(pid) + " ";
  }
  process(7, "f", 1, 0);
  write("7/task/7/children", children);
  write("1000/task/1000/children", "7 ");  // a cycle instead of a tree: the walk ends nevertheless
  UsageWatch watch(paths);
  const UsageReply reply =
      watch.sample(Time::from_ns(1'000'000'000), [] { return executors({7}); });
  ASSERT_EQ(reply.executors.size(), 1u);
  EXPECT_EQ(reply.executors[0].threads, (UsageWatch::max_below + 1) * 5);
  EXPECT_TRUE(reply.executors[0].partial) << "and it is said";
}

TEST_F(UsageWatchTest, LimitsSampledExecutors) {
  UsageWatch::Executors many;
  for (unsigned i = 0; i < UsageWatch::max_executors + 5; ++i)
    many.push_back({{SlotId::of(i + 1), 0, 7}, "f"});
  process(7, "f", 1, 1);
  UsageWatch watch(paths);
  const UsageReply reply = watch.sample(Time::from_ns(1'000'000'000), [&] { return many; });
  EXPECT_EQ(reply.executors.size(), UsageWatch::max_executors);
  EXPECT_EQ(reply.left_out, 5u);
}

}  // namespace
}  // namespace mobula::internal::worker
