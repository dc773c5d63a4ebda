#include "client/init/running_cluster.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "protocol/process_identity.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::runtime {
namespace {

namespace fs = std::filesystem;

class RunningClusters : public ::testing::Test {
 protected:
  RunningClusters() {
    std::string pattern = (fs::temp_directory_path() / "mobula-running-XXXXXX").string();
    state_ = ::mkdtemp(pattern.data());
  }
  ~RunningClusters() override { fs::remove_all(state_); }

  void add_head(const std::string& name, const std::string& address, bool alive = true) {
    fs::create_directories(state_ + "/" + name + "/head");
    const auto mark = ProcessIdentity::of_this_process();
    HeadFile file{.cluster = name, .address = address, .pid = mark.pid};
    file.start_time = mark.start_time + (alive ? 0 : 1);
    file.boot_id = mark.boot_id;
    ASSERT_TRUE(save(file, state_ + "/" + name + "/head/head.json").ok());
  }
  void add_agent(const std::string& name, const std::string& head, bool driver_agent = false) {
    fs::create_directories(state_ + "/" + name + "/agent");
    const auto mark = ProcessIdentity::of_this_process();
    AgentFile file;
    file.cluster = name;
    file.head_address = head;
    file.node = NodeId::random();
    file.pid = mark.pid;
    file.driver_agent = driver_agent;
    file.start_time = mark.start_time;
    file.boot_id = mark.boot_id;
    ASSERT_TRUE(save(file, state_ + "/" + name + "/agent/agent.json").ok());
  }
  std::string found(const std::string& name = {}) {
    const auto cluster = running_cluster(state_, name);
    if (!cluster) return cluster.error().text;
    return *cluster ? (*cluster)->name + " " + (*cluster)->address : "none";
  }

  std::string state_;
};

TEST_F(RunningClusters, FindsHeadOrAgent) {
  EXPECT_EQ(found(), "none");
  EXPECT_EQ(running_cluster(state_ + "/missing", "")->has_value(), false);
  add_head("default", "127.0.0.1:1");
  add_agent("default", "127.0.0.1:1");
  EXPECT_EQ(found(), "default 127.0.0.1:1");
  EXPECT_EQ(found("another"), "none");
  fs::remove(state_ + "/default/head/head.json");
  EXPECT_EQ(found(), "default 127.0.0.1:1") << "an agent of a head elsewhere";
}

TEST_F(RunningClusters, IgnoresDeadAndDriverProcesses) {
  add_head("dead", "127.0.0.1:1", false);
  add_agent("driver", "127.0.0.1:2", true);
  EXPECT_EQ(found(), "none");
}

TEST_F(RunningClusters, IgnoresLinks) {
  add_head("default", "127.0.0.1:1");
  const std::string path = state_ + "/default/head/head.json";
  fs::rename(path, state_ + "/elsewhere.json");
  fs::create_symlink(state_ + "/elsewhere.json", path);
  EXPECT_EQ(found(), "none");
}

TEST_F(RunningClusters, RejectsSeveralAndNamesThem) {
  add_head("red", "127.0.0.1:1");
  add_head("blue", "127.0.0.1:2");
  const std::string text = found();
  EXPECT_NE(text.find("2 clusters run from " + state_ + " (blue, red)"), std::string::npos) << text;
  EXPECT_NE(text.find("--mobula-address=local"), std::string::npos) << text;
  EXPECT_EQ(found("red"), "red 127.0.0.1:1");
}

}  // namespace
}  // namespace mobula::internal::runtime
