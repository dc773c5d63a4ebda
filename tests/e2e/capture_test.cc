// Children of tasks in a placement group, after Ray's test_placement_group_2.py.
#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using test_placement_group_2 = ClusterTest;

TEST_F(test_placement_group_2, test_capture_child_tasks) {
  drive({"group_capture", "--mobula-num-cpus=2"});
}

}  // namespace
}  // namespace mobula::e2e
