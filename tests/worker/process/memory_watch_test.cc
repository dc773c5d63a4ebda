// Memory use, from files in the format of the kernel.
#include "worker/process/watch/memory_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "device/scratch.h"

namespace mobula::internal::worker {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

class MemoryWatchTest : public testing::Test {
 protected:
  MemoryWatchTest() { machine(4000, 2000); }

  void machine(std::int64_t total_mib, std::int64_t available_mib) {
    files.write("proc/meminfo", "MemTotal:       " + std::to_string(total_mib * 1024) +
                                    " kB\nMemFree:        1 kB\nMemAvailable:   " +
                                    std::to_string(available_mib * 1024) + " kB\nBuffers: 2 kB\n");
  }
  void process(pid_t pid, std::int64_t resident_mib, std::int64_t shared_mib) {
    const std::int64_t pages = mib / ::sysconf(_SC_PAGESIZE);
    files.write("proc/" + std::to_string(pid) + "/statm",
                "999999 " + std::to_string(resident_mib * pages) + " " +
                    std::to_string(shared_mib * pages) + " 1 0 1 0\n");
  }
  MemoryWatch watch(std::optional<std::int64_t> executors_limit = std::nullopt) const {
    return MemoryWatch({{files.path("proc"), files.path("cgroup")}, 950, executors_limit});
  }
  static std::vector<WatchedExecutor> nobody() { return {}; }

  Scratch files;
};

TEST_F(MemoryWatchTest, ReportsPressureUntilOnceAfterItEnds) {
  MemoryWatch watched = watch();
  EXPECT_FALSE(watched.sample(nobody)) << "half is in use";
  machine(4000, 100);
  for (int i = 0; i < 2; ++i) {
    const auto sample = watched.sample(nobody);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->of, "memory of the node");
    EXPECT_EQ(sample->used_bytes, 3900 * mib);
    EXPECT_EQ(sample->limit_bytes, 4000 * mib);
  }
  machine(4000, 2000);
  const auto over = watched.sample(nobody);
  ASSERT_TRUE(over);
  EXPECT_EQ(over->used_bytes, 2000 * mib);
  EXPECT_EQ(watched.lately().used_bytes, 3900 * mib) << "a look before";
  EXPECT_FALSE(watched.sample(nobody));
  EXPECT_EQ(watched.lately().used_bytes, 2000 * mib);
}

TEST_F(MemoryWatchTest, UsesNearestCgroupV2WithoutReclaimable) {
  files.write("proc/self/cgroup", "0::/slice/job\n");
  files.write("cgroup/slice/memory.max", std::to_string(1000 * mib) + "\n");
  files.write("cgroup/slice/memory.current", std::to_string(990 * mib) + "\n");
  files.write("cgroup/slice/memory.stat", "anon 5\ninactive_file " + std::to_string(60 * mib) +
                                              "\nactive_file " + std::to_string(40 * mib) + "\n");
  files.write("cgroup/slice/job/memory.max", "max\n");
  files.write("cgroup/slice/job/memory.current", "1\n");
  MemoryWatch watched = watch();
  EXPECT_FALSE(watched.sample(nobody)) << "890 MiB cannot be dropped";
  files.write("cgroup/slice/memory.stat",
              "anon 5\ninactive_file " + std::to_string(10 * mib) + "\n");
  const auto sample = watched.sample(nobody);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->of, "memory of control group /slice");
  EXPECT_EQ(sample->used_bytes, 980 * mib);
  EXPECT_EQ(sample->limit_bytes, 1000 * mib);
}

TEST_F(MemoryWatchTest, UsesCgroupV1AndLaterLimits) {
  files.write("proc/self/cgroup", "4:memory:/a\n0::/\n");
  files.write("cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  files.write("cgroup/memory/a/memory.usage_in_bytes", std::to_string(99 * mib) + "\n");
  MemoryWatch watched = watch();
  EXPECT_FALSE(watched.sample(nobody));
  files.write("cgroup/memory/a/memory.limit_in_bytes", std::to_string(100 * mib) + "\n");
  const auto sample = watched.sample(nobody);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->limit_bytes, 100 * mib);
}

// A peak between two samples is never sampled, but the counter of the group shows that it reached
// its limit.
TEST_F(MemoryWatchTest, NamesGroupThatHitLimitBetweenSamples) {
  const auto group_of = [&](const std::string& self, const std::string& failures_file,
                            const std::string& none, const std::string& one) {
    files.write("proc/self/cgroup", self);
    files.write("cgroup/" + failures_file, none);
    MemoryWatch watched = watch();
    EXPECT_FALSE(watched.sample(nobody));
    EXPECT_FALSE(watched.sample(nobody));
    EXPECT_EQ(watched.lately().of, "memory of the node");
    files.write("cgroup/" + failures_file, one);
    MemorySampled sample = watched.lately();
    EXPECT_FALSE(watched.sample(nobody));
    EXPECT_EQ(watched.lately(), sample) << "its end may be reported one sample later";
    EXPECT_FALSE(watched.sample(nobody));
    EXPECT_EQ(watched.lately().of, "memory of the node");
    return sample;
  };
  machine(4000, 2000);
  files.write("cgroup/memory/a/memory.limit_in_bytes", std::to_string(100 * mib) + "\n");
  files.write("cgroup/memory/a/memory.usage_in_bytes", std::to_string(9 * mib) + "\n");
  EXPECT_EQ(group_of("4:memory:/a\n0::/\n", "memory/a/memory.failcnt", "3\n", "5\n"),
            (MemorySampled{"memory of control group /memory/a", 100 * mib, 100 * mib, {}}));
  files.write("cgroup/slice/memory.max", std::to_string(70 * mib) + "\n");
  files.write("cgroup/slice/memory.current", std::to_string(9 * mib) + "\n");
  EXPECT_EQ(group_of("0::/slice\n", "slice/memory.events", "low 0\nmax 7\noom 0\noom_kill 0\n",
                     "low 0\nmax 9\noom 1\noom_kill 1\n"),
            (MemorySampled{"memory of control group /slice", 70 * mib, 70 * mib, {}}));
}

TEST_F(MemoryWatchTest, CountsOnlyPrivateMemoryOfExecutor) {
  process(7, 300, 100);
  EXPECT_EQ(watch().own_bytes(7), 200 * mib);
  EXPECT_FALSE(watch().own_bytes(8)) << "it has left";
  process(9, 0, 0);
  EXPECT_FALSE(watch().own_bytes(9)) << "it has ended, and its parent was not told yet";
}

TEST_F(MemoryWatchTest, LimitsExecutorsSeparately) {
  process(7, 300, 100);
  process(8, 90, 0);
  const auto both = [] {
    return std::vector<WatchedExecutor>{{SlotId::of(1), 3, 7}, {SlotId::of(2), 0, 8}};
  };
  EXPECT_FALSE(watch(400 * mib).sample(both));
  const auto sample = watch(300 * mib).sample(both);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->of, "memory of the executors");
  EXPECT_EQ(sample->used_bytes, 290 * mib);
  EXPECT_EQ(sample->executors, (std::vector<ExecutorMemory>{{SlotId::of(1), 3, 200 * mib},
                                                            {SlotId::of(2), 0, 90 * mib}}));
}

TEST_F(MemoryWatchTest, MarksExitedExecutor) {
  process(7, 300, 100);
  process(8, 0, 0);
  machine(4000, 100);
  const auto sample = watch().sample([] {
    return std::vector<WatchedExecutor>{{SlotId::of(1), 3, 7}, {SlotId::of(2), 0, 8}};
  });
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->executors, (std::vector<ExecutorMemory>{{SlotId::of(1), 3, 200 * mib, false},
                                                            {SlotId::of(2), 0, 0, true}}));
}

TEST_F(MemoryWatchTest, SamplesExecutorsOnlyUnderPressure) {
  int samples = 0;
  const auto counted = [&samples] {
    ++samples;
    return std::vector<WatchedExecutor>{{SlotId::of(1), 0, 7}};
  };
  process(7, 300, 100);
  MemoryWatch watched = watch();
  EXPECT_FALSE(watched.sample(counted));
  EXPECT_EQ(samples, 0);
  machine(4000, 100);
  EXPECT_EQ(watched.sample(counted)->executors.size(), 1u);
  EXPECT_EQ(samples, 1);
}

TEST(MemoryWatchHere, ReportsMemoryOfThisMachine) {
  MemoryWatch watched({{}, 1, std::nullopt});
  const auto sample = watched.sample([] { return std::vector<WatchedExecutor>(); });
  ASSERT_TRUE(sample) << "a thousandth of it is in use";
  EXPECT_GT(sample->limit_bytes, sample->used_bytes / 2);
  EXPECT_GT(watched.own_bytes(::getpid()), mib / 2);
}

}  // namespace
}  // namespace mobula::internal::worker
