// Pulls bytes of a simulated GPU to another place: to host memory of the reader, or to another
// device with or without peer access.
#include "device/gpu/gpu_fixture.h"
#include "transport/tensor/conformance.h"

namespace mobula::internal::direct_test {
namespace {

class DeviceBytesElsewhere : public PairConformance {
 protected:
  // Each test creates its nodes itself.
  void SetUp() override {}

  NodeOptions on_device(int which, const SimulatedMachine& machine,
                        const std::string& words = {}) const {
    NodeOptions made = options();
    made.machine = machine.environment(words);
    made.device = which;
    return made;
  }
  static std::string uuid_of(const SimulatedMachine& machine, std::size_t which) {
    const auto end = machine.run(
        [which] { std::fprintf(stderr, "%s", to_string(open_gpu(which)->uuid()).c_str()); });
    EXPECT_TRUE(end.ok) << end.said;
    return end.said;
  }
};

TEST_P(DeviceBytesElsewhere, CopiesToHostMemoryWithinBounds) {
  belongs_to(Part::mixed_devices);
  NodeOptions receiving = options();
  receiving.to_host = true;
  make(options(), receiving);
  open();
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, 64 * kib + 1, 4 * mib - 1, 4 * mib + 1, 37 * mib + 3}) {
    transfer(holder(), receiver(), 1, {{size, size + 1, size % 7}});
  }
  transfer(holder(), receiver(), 1,
           {{5, 1, 3}, {9 * mib, 2, 1}, {0, 3}, {4 * mib, 4}, {100, 5, 5}});
}

TEST_P(DeviceBytesElsewhere, Cancelled_HostMemoryIsNotWritten) {
  belongs_to(Part::cancelled);
  NodeOptions receiving = options();
  receiving.to_host = true;
  make(options(), receiving);
  open();
  transfer(holder(), receiver(), 1, {{mib, 1}});
  // The node protects the targets when it is quiet, and dies if they are written afterwards.
  for (const std::uint64_t delay : {0, 200, 1'000, 3'000, 10'000}) {
    const TransferId id = begin(holder(), receiver(), 1, {{64 * mib, delay + 1}});
    receiver().cancel_after(id, delay);
    (void)receiver().seen(id);
    holder().release(id);
    receiver().drop(id);
  }
  transfer(holder(), receiver(), 1, {{16 * mib, 9}});
}

TEST_P(DeviceBytesElsewhere, PinFailed_CopiesToHostMemory) {
  belongs_to(Part::failing_driver);
  NodeOptions receiving = options();
  receiving.to_host = true;
  receiving.machine = machine_.environment("fail=cuMemHostAlloc@1:2");
  make(options(), receiving);
  open();
  transfer(holder(), receiver(), 1, {{13 * mib + 1, 1, 1}});
}

TEST_P(DeviceBytesElsewhere, PeerReachable_CopiesAndMapsInPlace) {
  belongs_to(Part::mixed_devices);
  const SimulatedMachine machine("count=2 memory=8589934592 late_us=50");
  NodeOptions receiving = on_device(1, machine);
  receiving.reached = {uuid_of(machine, 0)};
  make(on_device(0, machine), receiving);
  open();
  transfer(holder(), receiver(), 1, {{1, 1}, {33 * mib + 5, 2, 3}});
  const std::vector<RegionSpec> region{{mib, 3}};
  const TransferId id = next();
  const auto ticket = holder().offer(id, receiver(), 1, region);
  ASSERT_TRUE(ticket) << ticket.error().text;
  EXPECT_TRUE(receiver().map(id, holder(), 1, *ticket, region).right);
}

TEST_P(DeviceBytesElsewhere, PeerUnreachable_FailsTypedWithoutWrites) {
  belongs_to(Part::failing_driver);
  // The agent reported peer access, but the driver denies it: NVML and CUDA may disagree.
  const SimulatedMachine machine("count=2 memory=8589934592 peers=");
  NodeOptions receiving = on_device(1, machine);
  receiving.reached = {uuid_of(machine, 0)};
  make(on_device(0, machine), receiving);
  open();
  const TransferId id = begin(holder(), receiver(), 1, {{mib, 1}});
  const Seen seen = receiver().seen(id);
  EXPECT_FALSE(seen.ok);
  EXPECT_NE(seen.text.find("cuMemSetAccess"), std::string::npos) << seen.text;
  EXPECT_TRUE(seen.poison && seen.guards);
  // It can still read its own device.
  const auto neighbour = node(on_device(1, machine));
  ASSERT_TRUE(receiver().open(*neighbour, 1));
  transfer(*neighbour, receiver(), 1, {{mib, 2}});
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceBytesElsewhere, testing::Values(Way::cuda_ipc), way_name);

}  // namespace
}  // namespace mobula::internal::direct_test
