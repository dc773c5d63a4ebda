// A program alone: init starts a cluster on this machine and ends it.
#include <csignal>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Local = ClusterTest;

TEST_F(Local, InitIsQuickAndLeavesNothing) {
  const Ended ended = drive({"init"});
  std::cout << ended.out;
  expect_nothing_left();
}

TEST_F(Local, TasksRunOnOneCpu) { drive({"hello", "--mobula-num-cpus=1"}); }

TEST_F(Local, NestedTasksGoDeeperThanThereAreCpus) {
  drive({"nested", "5", "--mobula-num-cpus=1"});
}

TEST_F(Local, AnExecutorThatEndsHandsOverWhatItsResultsReferTo) {
  drive({"promised", "--mobula-num-cpus=2"});
}

TEST_F(Local, ACrashIsRetriedOrTold) { drive({"crashes", "--mobula-num-cpus=2"}); }

TEST_F(Local, AGpuTaskHasAProcessOfItsOwn) {
  drive({"gpu_processes", "--mobula-num-cpus=1", "--mobula-num-gpus=1"});
}

TEST_F(Local, BadRequestsAreRefused) { drive({"bad_requests", "--mobula-num-gpus=1"}); }

TEST_F(Local, AKilledDriverTakesItsClusterWithIt) {
  Process driver = start_driver({"holds", "--mobula-num-cpus=4"});
  ASSERT_TRUE(driver.prints("ready")) << driver.err();
  driver.signal(SIGKILL);
  driver.wait();
  expect_nothing_left();
}

}  // namespace
}  // namespace mobula::e2e
