// Nodes that are short of memory: by a limit on their executors, and in a memory control group.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Memory : public ClusterTest {
 protected:
  Json node() {
    const auto nodes = list("nodes");
    return nodes && !nodes->empty() ? (*nodes)[0] : Json::object();
  }
};

TEST_F(Memory, MemoryExceeded_RetriesThenFailsWithNumbers) {
  start_head({"--num-cpus", "4", "--executor-memory", "256MiB"});
  const Ended ended = drive({"eats_too_much", "440", "of 256 MiB", "this process: "});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("memory of the executors"), std::string::npos) << ended.out;
}

TEST_F(Memory, SparesNonRetryableTaskAndShowsPressure) {
  start_head({"--num-cpus", "4", "--executor-memory", "400MiB"});
  const std::string pipe = directory() + "/holds.pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process driver = start_driver({"holds_memory", "384", pipe});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  ASSERT_TRUE(eventually(Milliseconds(20'000), [&] { return node().contains("memory_pressure"); }))
      << node();
  EXPECT_EQ(node()["state"], "ALIVE");
  EXPECT_NE(mobula({"status"}).out.find("is short of memory: memory of the executors: 3"),
            std::string::npos)
      << mobula({"status"}).out;
  std::ofstream(pipe) << "go\n";
  EXPECT_TRUE(
      eventually(Milliseconds(20'000), [&] { return !node().contains("memory_pressure"); }));
  driver.say("end");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

TEST_F(Memory, ThresholdOff_KillsNothing) {
  start_head({"--num-cpus", "4", "--executor-memory", "100MiB", "--memory-threshold", "off"});
  const std::string pipe = directory() + "/holds.pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process driver = start_driver({"holds_memory", "200", pipe});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  std::ofstream(pipe) << "go\n";  // blocks until a reader opens the pipe
  driver.say("end");
  EXPECT_EQ(driver.wait().code, 0) << driver.err();
}

// A limited memory control group below the group of the test, if the test may create one. Processes
// started from within `inside` stay in the group.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::int64_t limit_bytes) {
    const std::string root = "/sys/fs/cgroup";
    const bool unified = std::filesystem::exists(root + "/cgroup.controllers");
    const std::string above = own_group(unified);
    if (above.empty()) return;
    home_ = (unified ? root : root + "/memory") + above;
    const std::string path = home_ + "/mobula-e2e-" + std::to_string(::getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(path, error)) return;
    path_ = path;
    std::ofstream limit(path + (unified ? "/memory.max" : "/memory.limit_in_bytes"));
    limit << limit_bytes << std::flush;
    usable_ = limit.good() && enter(path) && enter(home_);
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  ~MemoryGroup() {
    if (!path_.empty()) ::rmdir(path_.c_str());
  }

  bool usable() const { return usable_; }
  template <class F>
  void inside(const F& f) {
    enter(path_);
    f();
    enter(home_);
  }

 private:
  static bool enter(const std::string& directory) {
    std::ofstream file(directory + "/cgroup.procs");
    file << ::getpid() << std::flush;
    return file.good();
  }
  static std::string own_group(bool unified) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const auto first = line.find(':');
      const auto second = line.find(':', first + 1);
      const std::string controllers = line.substr(first + 1, second - first - 1);
      if (controllers == (unified ? "" : "memory")) return line.substr(second + 1);
    }
    return {};
  }

  std::string home_, path_;
  bool usable_ = false;
};

class MemoryOfAGroup : public Memory {
 protected:
  void SetUp() override {
    if (!group_.usable()) GTEST_SKIP() << "no memory control group can be made here";
    group_.inside([&] { start_head({"--num-cpus", "2", "--object-spilling-directory", "none"}); });
  }

  MemoryGroup group_{std::int64_t{400} << 20};  // outlives its processes
};

TEST_F(MemoryOfAGroup, StoreFull_RejectsBeforeKernelKills) {
  group_.inside([&] {
    const Ended ended = drive({"fills_the_store"});
    EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  });
  EXPECT_EQ(alive_nodes(), 1u);
}

TEST_F(MemoryOfAGroup, Agent_KillsExecutorBeforeKernel) {
  const Ended ended = drive({"eats_too_much", "640", "of 400 MiB", "this process: "});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("memory of control group"), std::string::npos) << ended.out;
  EXPECT_EQ(alive_nodes(), 1u);
}

// The kernel usually acts before the agent's next sample.
TEST_F(MemoryOfAGroup, KernelOomKill_ReportsNumbers) {
  const Ended ended =
      drive({"eats_too_much", "2000", "of 400 MiB", "killed for memory", "at once"});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_EQ(alive_nodes(), 1u);
}

}  // namespace
}  // namespace mobula::e2e
