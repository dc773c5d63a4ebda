// A standalone program: init starts a cluster on this machine and ends it.
#include <csignal>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Local = ClusterTest;

TEST_F(Local, InitIsFast_LeavesNothing) {
  const Ended ended = drive({"init"});
  std::cout << ended.out;
  expect_nothing_left();
}

TEST_F(Local, RunsTasksOnOneCpu) { drive({"hello", "--mobula-num-cpus=1"}); }

TEST_F(Local, NestsTasksDeeperThanCpus) { drive({"nested", "5", "--mobula-num-cpus=1"}); }

TEST_F(Local, ExecutorExits_HandsOverRefsInResults) { drive({"promised", "--mobula-num-cpus=2"}); }

TEST_F(Local, RetriesCrashOrReportsIt) { drive({"crashes", "--mobula-num-cpus=2"}); }

TEST_F(Local, RunsGpuTaskInSeparateProcess) {
  drive({"gpu_processes", "--mobula-num-cpus=1", "--mobula-num-gpus=1"});
}

TEST_F(Local, RejectsInvalidRequests) { drive({"bad_requests", "--mobula-num-gpus=1"}); }

TEST_F(Local, DriverKilled_LocalClusterExits) {
  Process driver = start_driver({"holds", "--mobula-num-cpus=4"});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  driver.signal(SIGKILL);
  driver.wait();
  expect_nothing_left();
}

TEST_F(Local, LimitsLibraryThreadsToGrantedCpus) {
  drive({"thread_variables", "--mobula-num-cpus=2"});
}

// Programs without an address, next to a cluster that runs from their state directory.
class WithoutAddress : public ClusterTest {
 protected:
  Ended run(Words flags, const std::map<std::string, std::string>& variables = {}) {
    flags.insert(flags.begin(), {programs + "/e2e_driver", "init"});
    auto environment = environment_of("a");
    for (const auto& [name, value] : variables) environment[name] = value;
    return Process(flags, environment, state_of("program-" + std::to_string(++runs_))).wait();
  }

 private:
  int runs_ = 0;
};

TEST_F(WithoutAddress, JoinsTheRunningCluster) {
  const Ended alone = run({});
  EXPECT_NE(alone.out.find("started "), std::string::npos) << alone.out << alone.err;
  EXPECT_EQ(alone.err, "");
  start_head({"--num-cpus", "1"});
  const Ended joined = run({});
  EXPECT_NE(joined.out.find("joined " + address() + "\n"), std::string::npos)
      << joined.out << joined.err;
  EXPECT_EQ(joined.err, "mobula: joined the running cluster 'default' at " + address() +
                            " (--mobula-address=local starts a new one)\n");
  EXPECT_EQ(run({"--mobula-log-level=warn"}).err, "");
}

TEST_F(WithoutAddress, StartsClusterWhenLocalIsRequested) {
  start_head({"--num-cpus", "1"});
  for (const Ended& ended :
       {run({"--mobula-address=local"}), run({}, {{"MOBULA_ADDRESS", "local"}}),
        run({"--mobula-num-cpus=1"}), run({}, {{"MOBULA_CLUSTER", "another"}})}) {
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.out.find("started "), std::string::npos) << ended.out << ended.err;
  }
}

}  // namespace
}  // namespace mobula::e2e
