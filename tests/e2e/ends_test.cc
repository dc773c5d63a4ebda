// Planned ends of executors: work that was submitted and not awaited, refs and actors that outlive their maker.
#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using PlannedEnds = ClusterTest;

TEST_F(PlannedEnds, UnawaitedCallsArrive) {
  start_head({"--num-cpus", "4", "--num-gpus", "1"});
  std::cout << drive({"unawaited", "cpu", "40"}).out;
  std::cout << drive({"unawaited", "gpu", "8"}).out;
  std::cout << drive({"unawaited", "once", "8"}).out;
  std::cout << drive({"unawaited", "tasks", "20"}).out;
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(PlannedEnds, UnawaitedTasksGetTheGpuOfTheirMaker) {
  start_head({"--num-cpus", "4", "--num-gpus", "1"});
  std::cout << drive({"unawaited", "gpu_tasks", "4"}).out;
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

TEST_F(PlannedEnds, DetachedActorGetsItsFirstCall) {
  start_head({"--num-cpus", "4", "--num-gpus", "1"});
  drive({"detached_first_call"});
}

TEST_F(PlannedEnds, CallsOfAnEndedActorArrive) {
  start_head();
  drive({"dropped_forwarder"});
}

TEST_F(PlannedEnds, RefOfPendingCallOutlivesItsCaller) {
  start_head();
  drive({"returned_call"});
}

TEST_F(PlannedEnds, ActorOutlivesTheTaskThatMadeIt) {
  start_head();
  drive({"factory"});
  EXPECT_TRUE(eventually(Milliseconds(5'000), [&] { return nothing_is_held(); }));
}

}  // namespace
}  // namespace mobula::e2e
