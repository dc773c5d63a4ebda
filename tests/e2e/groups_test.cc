// Placement groups on real processes.
#include <csignal>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Groups = ClusterTest;

TEST_F(Groups, AllocatesDevicesAndNamesOfBundles) {
  drive({"group_basics", "--mobula-num-cpus=4", "--mobula-num-gpus=2"});
}

TEST_F(Groups, AllocatesGpuMemoryOfBundles) {
  start_head({"--num-cpus", "2", "--num-gpus", "1", "--gpu-memory", "80GiB"});
  Process driver = start_driver({"group_memory"});
  ASSERT_TRUE(driver.prints("waits ")) << driver.err();
  const std::string id = driver.out().substr(driver.out().find("waits ") + 6, 32);
  Json why;
  const bool waits = eventually(Milliseconds(20'000), [&] {
    why = Json::parse(mobula({"explain", id, "-o", "json"}).out, nullptr, false);
    return why.is_object() && why["items"].size() == 1;
  });
  ASSERT_TRUE(waits) << why;
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  const Json& reason = why["items"][0];
  EXPECT_EQ(reason["code"], "GpuMemoryBusy") << why;
  EXPECT_EQ(reason["needed"], 41 * gib);
  EXPECT_EQ(reason["available"], 40 * gib);
  EXPECT_EQ(why["subject"]["bundles"][0]["gpu_memory"], 41 * gib);
  driver.say("go");
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

TEST_F(Groups, Removal_EndsRunningAndPendingWork) {
  drive({"group_removal", "--mobula-num-cpus=2"});
}

TEST_F(Groups, RejectsInvalidRequests) { drive({"group_bad_requests", "--mobula-num-cpus=2"}); }

TEST_F(Groups, BundlesLost_MoveToAnotherNode) {
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

TEST_F(Groups, HeadRestarted_GroupsSurvive) {
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
