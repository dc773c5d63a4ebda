// Tests that every transport path of tensors must pass, with the path as the parameter.
#include <cstdlib>
#include <ostream>

#include "e2e/gpu_cluster.h"
#include "matrix/cells.h"

namespace mobula::e2e {
namespace {

using matrix::Column;
using matrix::Part;

struct WayCase {
  const char* name;
  Column column;
  friend void PrintTo(const WayCase& each, std::ostream* out) { *out << each.name; }
};
const WayCase inproc{"inproc", Column::inproc}, shm{"shm", Column::shm}, tcp{"tcp", Column::tcp},
    store{"store", Column::staged}, gloo{"gloo", Column::gloo}, ucx{"ucx", Column::ucx},
    nixl{"nixl", Column::nixl}, cuda_ipc{"cuda_ipc", Column::cuda_ipc}, nccl{"nccl", Column::nccl},
    staged{"staged", Column::staged};

class TensorWays : public GpuClusterTest, public ::testing::WithParamInterface<WayCase> {
 protected:
  bool on_gpus() const { return name() == "cuda_ipc" || name() == "nccl" || name() == "staged"; }
  std::string name() const { return GetParam().name; }
  void proves(Part part) const {
    matrix::belongs_to(part, GetParam().column,
                       on_gpus() ? matrix::Proof::simulated : matrix::Proof::real);
  }
  void start() {
    if (name() == "staged") return start_without_ways();
    if (on_gpus()) return start_with_gpus(2);
    start_head({"--num-cpus", "4"});
  }
};

std::vector<WayCase> all_ways() {
  std::vector<WayCase> found{inproc, shm, tcp, store, cuda_ipc, nccl, staged};
  for (const WayCase& each : {gloo, ucx, nixl}) {
    const std::string file = programs + "/../lib/mobula/mobula_transport_" + each.name + ".so";
    if (::access(file.c_str(), R_OK) == 0) found.push_back(each);
  }
  return found;
}
std::string way_name(const ::testing::TestParamInfo<WayCase>& each) { return each.param.name; }

TEST_P(TensorWays, CarriesEverySizeTypeAndLayout) {
  for (const Part each : {Part::sizes, Part::layouts, Part::regions}) proves(each);
  if (on_gpus()) proves(Part::mixed_devices);
  if (name() == "inproc") proves(Part::budget);  // nothing is received, so the budget always holds
  start();
  drive({"way_layouts", name()}, Milliseconds(120'000));
}

TEST_P(TensorWays, ServesRefsHoweverPassed) {
  proves(Part::refs);
  start();
  drive({"way_refs", name()}, Milliseconds(120'000));
}

TEST_P(TensorWays, FollowsSharedMemoryAndLeavingHolderRules) {
  proves(Part::shared_memory);
  proves(Part::holder_leaves);
  if (name() != "inproc") proves(Part::busy_holder);
  start();
  drive({"way_life", name(), directory()}, Milliseconds(120'000));
}

INSTANTIATE_TEST_SUITE_P(Each, TensorWays, ::testing::ValuesIn(all_ways()), way_name);

using StoreWay = TensorWays;

TEST_P(StoreWay, DrainsRingsAndGraphs) {
  proves(Part::graphs);
  start();
  drive({"way_graph", name()}, Milliseconds(120'000));
}

TEST_P(StoreWay, LeavesNothingAfterAThousandCycles) {
  proves(Part::cycles);
  start();
  Process driver = start_driver({"way_cycles", name()});
  ASSERT_TRUE(driver.prints("warm", Milliseconds(60'000))) << driver.err();
  const std::size_t descriptors_before = descriptors(agent_pid("a"));
  const std::size_t bytes_before = resident_bytes(agent_pid("a"));
  driver.say("go on");
  ASSERT_TRUE(driver.prints("done", Milliseconds(120'000))) << driver.err();
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] {
    const auto objects = list("objects");
    return objects && objects->size() <= 4;  // the latest objects only
  })) << mobula({"list", "objects"}).out;
  EXPECT_TRUE(eventually(Milliseconds(30'000),
                         [&] { return descriptors(agent_pid("a")) <= descriptors_before + 4; }));
  EXPECT_LT(resident_bytes(agent_pid("a")), bytes_before + (std::size_t{32} << 20));
  driver.say("go on");
  EXPECT_EQ(driver.wait(Milliseconds(60'000)).code, 0) << driver.err();
}

INSTANTIATE_TEST_SUITE_P(Each, StoreWay, ::testing::Values(store), way_name);

using LargeWay = TensorWays;

TEST_P(LargeWay, CarriesOneGibibyte) {
  proves(Part::gibibyte);
  start();
  drive({"way_gibibyte", name()}, Milliseconds(170'000));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LargeWay);
INSTANTIATE_TEST_SUITE_P(Each, LargeWay,
                         ::testing::ValuesIn(std::getenv("MOBULA_TEST_LARGE") == nullptr
                                                 ? std::vector<WayCase>()
                                                 : std::vector<WayCase>{store}),
                         way_name);

}  // namespace
}  // namespace mobula::e2e
