// Tensors through the object store, between real processes.
#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Tensors = ClusterTest;

TEST_F(Tensors, PassesTensorsAsArgumentsAndResults) { drive({"tensors", "--mobula-num-cpus=2"}); }

TEST_F(Tensors, RejectsWritesToTensorsOfOthers) {
  drive({"tensors_are_frozen", "--mobula-num-cpus=1"});
}

TEST_F(Tensors, KeepsTensorsInActorState) { drive({"tensors_in_actors", "--mobula-num-cpus=1"}); }

TEST_F(Tensors, ReadsInPlaceAndPinsMemory) {
  drive({"tensors_in_place", "--mobula-num-cpus=1",
         "--mobula-object-store-memory=" + std::to_string(320 << 20)});
}

TEST_F(Tensors, RejectsRawPointerWritesToStore) {
  drive({"tensors_are_protected", "--mobula-num-cpus=1"});
}

TEST_F(Tensors, TransfersBetweenNodes) {
  start_head({"--num-cpus", "0"});
  start_node("b", {"--num-cpus", "2"});
  drive({"tensors"});
  drive({"tensors_in_actors"});
}

}  // namespace
}  // namespace mobula::e2e
