// More values than a node's store holds, on real disks, and failing disks.
#include <sched.h>
#include <sys/mount.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

namespace fs = std::filesystem;

class Spilling : public ClusterTest {
 protected:
  std::string default_dir(const std::string& node = "a") const {
    return state_of(node) + "/default/agent/spill";
  }
  static std::vector<fs::path> files_in(const std::string& directory) {
    std::vector<fs::path> files;
    std::error_code code;
    for (fs::recursive_directory_iterator at(directory, code), end; !code && at != end;
         at.increment(code)) {
      if (at->is_regular_file(code)) files.push_back(at->path());
    }
    return files;
  }
  static std::uintmax_t bytes_in(const std::string& directory) {
    std::uintmax_t bytes = 0;
    std::error_code code;
    for (const auto& path : files_in(directory)) bytes += fs::file_size(path, code);
    return bytes;
  }
};

TEST_F(Spilling, ReadsSpilledObjectsBackAndRemovesFiles) {
  start_head({"--num-cpus", "2", "--object-store-memory", "24MiB"});
  Process driver = start_driver({"hoards", "48"});
  ASSERT_TRUE(driver.prints("ready", Milliseconds(60'000))) << driver.err();
  EXPECT_GE(bytes_in(default_dir()), 20u << 20);

  const Ended report = mobula({"memory", "-o", "json"});
  ASSERT_EQ(report.code, 0) << report.err;
  const Json memory = Json::parse(report.out, nullptr, false);
  ASSERT_TRUE(memory.is_object()) << report.out;
  EXPECT_EQ(memory["nodes"][0]["capacity_bytes"], 24 << 20) << report.out;
  EXPECT_GE(memory["nodes"][0]["spilled_bytes"], 20 << 20) << report.out;
  EXPECT_EQ(memory["items"].size(), 48u);
  const Json& object = memory["items"][0];
  EXPECT_EQ(object["holders"][0]["role"], "driver") << report.out;
  EXPECT_EQ(object["holders"][0]["pid"], driver.pid()) << report.out;
  const Ended table = mobula({"memory"});
  EXPECT_NE(table.out.find("SPILLED"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("driver " + std::to_string(driver.pid())), std::string::npos);

  driver.say("go");
  const Ended ended = driver.wait(Milliseconds(120'000));
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] { return files_in(default_dir()).empty(); }));
}

TEST_F(Spilling, TasksReadResultsLargerThanStore) {
  start_head({"--num-cpus", "2", "--object-store-memory", "24MiB"});
  drive({"makes", "48"}, Milliseconds(120'000));
}

TEST_F(Spilling, ReadsRemoteResultsThroughSmallStores) {
  start_head({"--num-cpus", "1", "--object-store-memory", "16MiB"});
  start_node("b", {"--num-cpus", "2", "--object-store-memory", "16MiB"});
  drive({"makes", "40"}, Milliseconds(120'000));
}

TEST_F(Spilling, PinsMappedObjects) {
  start_head({"--num-cpus", "1", "--object-store-memory", "16MiB"});
  drive({"views", "40"}, Milliseconds(120'000));
}

TEST_F(Spilling, UsesGivenDirectory) {
  const std::string given = directory() + "/elsewhere";
  start_head(
      {"--num-cpus", "1", "--object-store-memory", "16MiB", "--object-spilling-directory", given});
  Process driver = start_driver({"hoards", "24"});
  ASSERT_TRUE(driver.prints("ready", Milliseconds(60'000))) << driver.err();
  EXPECT_FALSE(files_in(given).empty());
  driver.say("go");
  EXPECT_EQ(driver.wait().code, 0);
}

TEST_F(Spilling, AgentKilled_NextAgentRemovesFiles) {
  start_head({"--no-worker"});
  start_node("a", {"--num-cpus", "1", "--object-store-memory", "16MiB"});
  Process driver = start_driver({"hoards", "32"});
  ASSERT_TRUE(driver.prints("ready", Milliseconds(60'000))) << driver.err();
  const auto old = files_in(default_dir());
  ASSERT_FALSE(old.empty());
  ASSERT_EQ(::kill(agent_pid("a"), SIGKILL), 0);
  driver.signal(SIGKILL);
  driver.wait();
  ASSERT_FALSE(files_in(default_dir()).empty());
  start_node("a", {"--num-cpus", "1", "--object-store-memory", "16MiB"});
  EXPECT_TRUE(eventually(Milliseconds(10'000), [&] { return files_in(default_dir()).empty(); }));
}

TEST_F(Spilling, FilesDamaged_RecomputesResultsOrReportsLoss) {
  start_head({"--num-cpus", "1", "--object-store-memory", "16MiB"});
  Process driver = start_driver({"loses", "16"});
  ASSERT_TRUE(driver.prints("ready", Milliseconds(60'000))) << driver.err();
  const auto files = files_in(default_dir());
  ASSERT_FALSE(files.empty());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i % 2 == 0) {
      fs::resize_file(files[i], 100);
    } else {
      std::fstream file(files[i], std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(5000);
      file.put('\x55');
      file.put('\xaa');
    }
  }
  driver.say("go");
  const Ended ended = driver.wait(Milliseconds(120'000));
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_EQ(ended.out.find("lost 0\n"), std::string::npos) << ended.out;
}

TEST_F(Spilling, NamesUnwritableDirectoryInError) {
  const Ended refused =
      mobula({"start", "--head", "--object-spilling-directory", "/proc/version/none"});
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("--object-spilling-directory"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("/proc/version/none"), std::string::npos) << refused.err;
  // The directory exists at the start and is replaced by a file later.
  const std::string given = directory() + "/made/spill";
  start_head(
      {"--num-cpus", "1", "--object-store-memory", "16MiB", "--object-spilling-directory", given});
  EXPECT_TRUE(fs::is_directory(given));
  fs::remove_all(given);
  std::ofstream(given) << "in the way\n";
  const Ended ended = drive({"overfills"}, Milliseconds(120'000));
  EXPECT_NE(ended.out.find("nothing can be spilled"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find(given), std::string::npos) << ended.out;
}

TEST_F(Spilling, RejectsStoreSizeBeyondMachine) {
  for (const char* size : {"1", "99999GiB"}) {
    const Ended refused = mobula({"start", "--head", "--object-store-memory", size});
    EXPECT_NE(refused.code, 0) << size;
    EXPECT_NE(refused.err.find("--object-store-memory"), std::string::npos) << refused.err;
  }
}

TEST_F(Spilling, SpillingDisabled_StoreFillsAtCapacity) {
  start_head(
      {"--num-cpus", "1", "--object-store-memory", "16MiB", "--object-spilling-directory", "none"});
  const Ended ended = drive({"overfills"}, Milliseconds(60'000));
  EXPECT_NE(ended.out.find("no space for object"), std::string::npos) << ended.out;
}

TEST_F(Spilling, DiskFull_LosesNoObject) {
  const std::string disk = directory() + "/disk";
  fs::create_directory(disk);
  // Mounts in a namespace of this process and its children.
  const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                       ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       ::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=12m") == 0;
  if (!mounted) GTEST_SKIP() << "file systems cannot be mounted here";
  start_head(
      {"--num-cpus", "1", "--object-store-memory", "16MiB", "--object-spilling-directory", disk});
  const Ended ended = drive({"overfills"}, Milliseconds(120'000));
  EXPECT_NE(ended.out.find("nothing can be spilled"), std::string::npos) << ended.out;
  const auto kept = ended.out.find("kept ");
  ASSERT_NE(kept, std::string::npos);
  EXPECT_GT(std::stoi(ended.out.substr(kept + 5)), 16) << "the disk has taken some";
  ::umount2(disk.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace mobula::e2e
