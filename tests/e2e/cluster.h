// A cluster of real processes on this machine. Each node has its own state directory, all under one
// temporary directory that also identifies the processes. Every process records the events of its
// core. A test passes only if the recordings replay to the same commands. A failed test keeps the
// directory and prints its path.
// Thread: the test thread.
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
  // Stops the cluster, expects that no process or file is left, and replays the recordings.
  void TearDown() override;
  ~ClusterTest() override;

  // Starts the head and the agent of the first node, "a".
  void start_head(Words flags = {"--num-cpus", "4"});
  // Starts an agent with its own state directory. `by`: the head's address, if not the advertised
  // one.
  void start_node(const std::string& name, Words flags = {"--num-cpus", "2"},
                  const std::string& by = {});
  void stop(const std::string& name);

  // Runs the `mobula` program with the node's state directory.
  Ended mobula(const Words& arguments, const std::string& node = "a");
  // Returns the items of `mobula list KIND -o json`, or nothing if the command fails.
  std::optional<Json> list(const std::string& kind);
  std::size_t alive_nodes();
  // True if no slot is allocated and no executor runs.
  bool nothing_is_held();

  // Starts a program that joins the cluster from the first node.
  Process start_driver(const Words& arguments);
  // Runs a program of the build, or a path, that joins the cluster from the first node.
  Ended run_program(const std::string& program, const Words& arguments);
  Ended drive(const Words& arguments, Milliseconds within = Milliseconds(60'000));

  pid_t head_pid() const;
  pid_t agent_pid(const std::string& name) const;
  std::string node_id(const std::string& name) const;
  const std::string& address() const { return address_; }
  std::string state_of(const std::string& name) const { return directory_ + "/" + name; }
  const std::string& directory() const { return directory_; }
  std::map<std::string, std::string> environment_of(const std::string& name) const;
  std::map<std::string, std::string> more_environment;  // for every started process

  // Running processes that were started under this test's directory.
  std::set<pid_t> processes() const;
  void expect_nothing_left();
  // Skips recordings beyond a size limit that keeps the suite fast, and prints how many it skipped.
  void expect_same_in_replay();

 private:
  std::string next_log(const std::string& of);

  std::string directory_;
  std::string address_;
  std::vector<std::string> nodes_;
  int logs_ = 0;
};

// Resident bytes and open descriptors of a process; 0 if it does not exist.
std::size_t resident_bytes(pid_t pid);
std::size_t descriptors(pid_t pid);
bool runs(pid_t pid);

inline const std::string programs = std::string(MOBULA_BINARY_DIR) + "/bin";

}  // namespace mobula::e2e
