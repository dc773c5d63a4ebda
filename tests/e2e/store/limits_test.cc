// Clusters at the limits of their machine: refs, descriptors, and processes.
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Limits : public ClusterTest {
 protected:
  // Returns the number after `what` in the driver's output, or -1.
  static int number_after(const std::string& out, const std::string& what) {
    const auto at = out.find(what);
    return at == std::string::npos ? -1 : std::stoi(out.substr(at + what.size()));
  }
};

// Recording is off: a hundred thousand calls are too many to record and replay in each run.
class ManyActors : public ClusterTest {
 protected:
  ManyActors() { more_environment["MOBULA_RECORD"] = ""; }
};

TEST_F(ManyActors, RunsCallsBeyondQueueInOrder) {
  start_head({"--num-cpus", "2"});
  Process driver = start_driver({"calls_beyond_limit", directory() + "/go"});
  ASSERT_TRUE(driver.prints("submitted", Milliseconds(60'000))) << driver.err();
  EXPECT_TRUE(eventually(Milliseconds(60'000), [&] {
    const Words words{"list",     "tasks",
                      "--filter", "state=PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
                      "-o",       "json"};
    const Json waiting = Json::parse(mobula(words).out, nullptr, false);
    return waiting.is_object() && !waiting["items"].empty();
  })) << "no call was returned";
  driver.say("go on");
  const Ended ended = driver.wait(Milliseconds(120'000));
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(Limits, TenThousandRefsDropped_LeaveNothing) {
  start_head();
  Process driver = start_driver({"drops_refs", "10000"});
  ASSERT_TRUE(driver.prints("held", Milliseconds(60'000))) << driver.err();
  EXPECT_TRUE(eventually(Milliseconds(60'000), [&] {
    const auto held = list("objects");
    return held && held->size() > 1'000;
  }));
  driver.say("drop");
  ASSERT_TRUE(driver.prints("dropped", Milliseconds(60'000))) << driver.err();
  std::size_t still_there = 0;
  EXPECT_TRUE(eventually(Milliseconds(60'000),
                         [&] {
                           const auto left = list("objects");
                           still_there = left ? left->size() : 0;
                           return left && left->empty();
                         }))
      << still_there << " objects are left";
  std::cout << driver.out();
  driver.say("end");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

// Limits the test process and all its children.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit low{most, ::getuid() == 0 ? before_.rlim_max : most};
    usable_ = ::setrlimit(RLIMIT_NOFILE, &low) == 0;
    const rlimit hard{most, most};
    usable_ = usable_ && ::setrlimit(RLIMIT_NOFILE, &hard) == 0;
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }  // root may raise it again
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
  bool usable_ = false;
};

// Some actors get no ring, and some cannot start until others have ended. No call is lost.
TEST_F(Limits, NoDescriptors_CallsUseSocketsAndActorsWait) {
  const DescriptorLimit limit(1'024);
  start_head({"--num-cpus", "4"});
  const Ended ended = drive({"makes_actors", "300"}, Milliseconds(150'000));
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_GT(number_after(ended.out, "answered at first: "), 50) << ended.out;
  std::cout << ended.out;
  EXPECT_EQ(alive_nodes(), 1u);
  const std::string said = "no descriptors are left for rings";
  std::string log;
  // Reading a log needs descriptors, which dropped actors may still hold.
  EXPECT_TRUE(eventually(Milliseconds(60'000), [&] {
    const Ended shown = mobula({"logs", "agent"});
    log = shown.out;
    return shown.code == 0 && log.find(said) != std::string::npos;
  })) << log;
  EXPECT_EQ(log.find(said), log.rfind(said)) << "said once";
}

// A control group that limits the number of processes and threads.
class ProcessLimit {
 public:
  ProcessLimit() {
    const std::string root = "/sys/fs/cgroup";
    const bool unified = std::filesystem::exists(root + "/cgroup.controllers");
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const auto first = line.find(':');
      const auto second = line.find(':', first + 1);
      if (line.substr(first + 1, second - first - 1) != (unified ? "" : "pids")) continue;
      home_ = root + (unified ? "" : "/pids") + line.substr(second + 1);
    }
    if (home_.empty()) return;
    while (home_.back() == '/') home_.pop_back();
    const std::string path = home_ + "/mobula-e2e-" + std::to_string(::getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(path, error)) return;
    path_ = path;
    usable_ = set("max") && write(path_ + "/cgroup.procs", std::to_string(::getpid())) &&
              write(home_ + "/cgroup.procs", std::to_string(::getpid()));
  }
  ~ProcessLimit() {
    if (!path_.empty()) ::rmdir(path_.c_str());
  }
  ProcessLimit(const ProcessLimit&) = delete;
  ProcessLimit& operator=(const ProcessLimit&) = delete;

  bool usable() const { return usable_; }
  bool set(const std::string& most) const { return write(path_ + "/pids.max", most); }
  bool set_beyond_what_is_there(int more) const {
    std::ifstream file(path_ + "/pids.current");
    int there = 0;
    return file >> there && set(std::to_string(there + more));
  }
  template <class F>
  void inside(const F& f) const {
    write(path_ + "/cgroup.procs", std::to_string(::getpid()));
    f();
    write(home_ + "/cgroup.procs", std::to_string(::getpid()));
  }

 private:
  static bool write(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
  }
  std::string home_, path_;
  bool usable_ = false;
};

class LimitsOfAGroup : public Limits {
 protected:
  ProcessLimit group_;  // outlives its processes
};

TEST_F(LimitsOfAGroup, ForkFails_RetriesLater) {
  if (!group_.usable()) GTEST_SKIP() << "no group with a limit of processes can be made here";
  group_.inside([&] { start_head({"--num-cpus", "8"}); });
  // The fork server runs, and about one executor.
  ASSERT_EQ(drive({"makes_processes", "1"}).code, 0);
  ASSERT_TRUE(group_.set_beyond_what_is_there(6));
  Process driver = start_driver({"makes_processes", "24"});
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    return driver.err().find("Resource temporarily unavailable") != std::string::npos ||
           driver.out().find("answered") != std::string::npos;
  }));
  ASSERT_TRUE(group_.set("max"));
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_EQ(number_after(ended.out, "answered: "), 24);
  EXPECT_EQ(alive_nodes(), 1u);
  EXPECT_EQ(mobula({"logs", "agent"}).out.find("Broken pipe"), std::string::npos)
      << "a log line of the fork server";
}

}  // namespace
}  // namespace mobula::e2e
