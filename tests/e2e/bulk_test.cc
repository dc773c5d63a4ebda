// Large values between nodes whose holders are killed or stopped while they are read.
#include <csignal>

#include "e2e/cluster.h"
#include "matrix/cells.h"

namespace mobula::e2e {
namespace {

class Bulk : public ClusterTest {
 protected:
  void start_nodes(Words head_flags = {}) {
    Words flags{"--num-cpus", "2"};
    flags.insert(flags.end(), head_flags.begin(), head_flags.end());
    start_head(flags);
    for (const char* name : {"b", "c", "d"}) start_node(name, {"--num-cpus", "1", "--bulk-connections", "2"});
  }
  void read_while(int signal) {
    start_nodes();
    const pid_t holder = agent_pid("b");
    Process driver = start_driver({"read_while_a_holder_goes", node_id("b"), node_id("c"), node_id("d")});
    ASSERT_TRUE(driver.prints("ready", Milliseconds(90'000))) << driver.err();
    driver.say("go");
    // Some of it has come; all of it must, even if it has by now.
    const pid_t reader = agent_pid("d");
    const std::size_t before = resident_bytes(reader);
    EXPECT_TRUE(eventually(Milliseconds(60'000), [&] {
      return resident_bytes(reader) > before + (std::size_t{24} << 20);
    }));
    ::kill(holder, signal);
    const Ended ended = driver.wait(Milliseconds(90'000));
    if (signal == SIGSTOP) ::kill(holder, SIGCONT);
    EXPECT_EQ(ended.code, 0) << ended.err;
  }
};

TEST_F(Bulk, WhatAKilledHolderHasNotSentComesFromAnother) {
  matrix::belongs_to(matrix::Part::killed_holder, matrix::Column::staged, matrix::Proof::real);
  read_while(SIGKILL);
}

TEST_F(Bulk, WhatAStoppedHolderHasNotSentComesFromAnother) {
  matrix::belongs_to(matrix::Part::stopped, matrix::Column::staged, matrix::Proof::real);
  read_while(SIGSTOP);
}

TEST_F(Bulk, OneValueIsReadOnAllNodesAtOnce) {
  start_nodes();
  EXPECT_EQ(drive({"broadcast", node_id("b"), node_id("c"), node_id("d")}, Milliseconds(90'000)).code, 0);
}

TEST_F(Bulk, OnATrustedFabricBytesTravelPlain) {
  start_nodes({"--trusted-fabric"});
  EXPECT_EQ(drive({"broadcast", node_id("b"), node_id("c"), node_id("d")}, Milliseconds(90'000)).code, 0);
}

}  // namespace
}  // namespace mobula::e2e
