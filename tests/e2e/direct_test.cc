// Tensors that stay where they were made until somebody needs them, between real processes.
#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Direct = ClusterTest;

TEST_F(Direct, AreSeenInPlaceOnOneMachine) { drive({"direct_tensors", "shm", "--mobula-num-cpus=2"}); }

TEST_F(Direct, GoByTheNamedTransportAlone) { drive({"direct_paths", "--mobula-num-cpus=2"}); }

TEST_F(Direct, AreNotWrittenWhileOthersMayReadThem) { drive({"direct_sharing", "--mobula-num-cpus=2"}); }

TEST_F(Direct, OutliveAPlannedEndOfTheirHolder) { drive({"direct_ends", "--mobula-num-cpus=3"}); }

TEST_F(Direct, GoBetweenNodes) {
  start_head({"--num-cpus", "2"});
  start_node("b", {"--num-cpus", "2", "--resources", R"({"there": 1})"});
  drive({"direct_tensors", "shm", "there"});
}

TEST_F(Direct, LargeOnesAreGivenOnByTheirReaders) {
  start_head({"--num-cpus", "1", "--resources", R"({"a": 9})"});
  for (const std::string name : {"b", "c", "d"}) {
    start_node(name, {"--num-cpus", "1", "--resources", "{\"" + name + "\": 9}"});
  }
  drive({"direct_broadcast"}, Milliseconds(150'000));
}

}  // namespace
}  // namespace mobula::e2e
