// A cluster of real processes on this machine, each node with a state folder of its own; everything
// lies under one temporary folder, by which its processes are known too. All of them record what their
// cores are told, and a test has passed only when the recordings replay to the same commands. What has
// failed keeps the folder and says where it is. Test thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "e2e/process.h"

namespace mobula::e2e {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest();
  // Stops what runs, expects that nothing of it is left, and replays what was recorded.
  void TearDown() override;
  ~ClusterTest() override;

  // Head and agent of the first node, "a".
  void start_head(Words flags = {"--num-cpus", "4"});
  // An agent with a state folder of its own; `by`: where it finds the head, if not where that is.
  void start_node(const std::string& name, Words flags = {"--num-cpus", "2"}, const std::string& by = {});
  void stop(const std::string& name);

  // The `mobula` program at the node's state folder.
  Ended mobula(const Words& arguments, const std::string& node = "a");
  // Items of `mobula list KIND -o json`; nothing where it failed.
  std::optional<Json> list(const std::string& kind);
  std::size_t alive_nodes();
  // Slots that are booked and executors that run are none.
  bool nothing_is_held();

  // A program that joins the cluster from the first node.
  Process start_driver(const Words& arguments);
  Ended drive(const Words& arguments, Milliseconds within = Milliseconds(60'000));

  pid_t head_pid() const;
  pid_t agent_pid(const std::string& name) const;
  std::string node_id(const std::string& name) const;
  const std::string& address() const { return address_; }
  std::string state_of(const std::string& name) const { return folder_ + "/" + name; }
  const std::string& folder() const { return folder_; }
  std::map<std::string, std::string> environment_of(const std::string& name) const;
  std::map<std::string, std::string> more_environment;  // of every process that is started

  // Processes started under this test's folder that still run.
  std::set<pid_t> processes() const;
  void expect_nothing_left();
  // Recordings beyond a bound that keeps the suite quick are left out, and counted in the output.
  void expect_same_in_replay();

 private:
  std::string next_log(const std::string& of);

  std::string folder_;
  std::string address_;
  std::vector<std::string> nodes_;
  int logs_ = 0;
};

// Resident bytes and descriptors of a process; 0 where there is none.
std::size_t resident_bytes(pid_t pid);
std::size_t descriptors(pid_t pid);
bool runs(pid_t pid);

inline const std::string programs = std::string(MOBULA_BINARY_DIR) + "/bin";

}  // namespace mobula::e2e
