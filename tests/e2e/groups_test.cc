// Placement groups on real processes.
#include <csignal>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Groups = ClusterTest;

TEST_F(Groups, BundlesHaveTheirDevicesAndTheirNames) {
  drive({"group_basics", "--mobula-num-cpus=4", "--mobula-num-gpus=2"});
}

TEST_F(Groups, RemovalEndsWhatRunsAndWhatWaits) {
  drive({"group_removal", "--mobula-num-cpus=2"});
}

TEST_F(Groups, BadRequestsAreRefused) { drive({"group_bad_requests", "--mobula-num-cpus=2"}); }

TEST_F(Groups, LostBundlesFindAnotherNode) {
  start_head();
  start_node("b");
  Process driver = start_driver({"group_over_nodes"});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  ASSERT_EQ(::kill(agent_pid("b"), SIGKILL), 0);
  start_node("c");
  driver.say("go");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

TEST_F(Groups, TheyOutliveTheHead) {
  start_head();
  start_node("b");
  Process driver = start_driver({"group_over_nodes"});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  ASSERT_EQ(::kill(head_pid(), SIGKILL), 0);
  start_head({"--no-worker"});
  driver.say("go");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

}  // namespace
}  // namespace mobula::e2e
