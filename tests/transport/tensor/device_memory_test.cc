// Properties of device memory: its owner after the death of a holder, and the cost of a failing
// driver.
#include "device/gpu/gpu_fixture.h"
#include "transport/tensor/conformance.h"
#include "transport/tensor/gpu/cuda_ipc_transport.h"
#include "transport/tensor/gpu/nccl_transport.h"

namespace mobula::internal::direct_test {
namespace {

class DeviceBytesBetween : public PairConformance {
 protected:
  static constexpr std::uint64_t context = 32 * mib;
  static constexpr std::uint64_t device = 8'192 * mib;

  NodeOptions with(const std::string& words) const {
    NodeOptions made = options();
    made.machine = machine_.environment(words);
    return made;
  }
  // Device memory used by other processes, as a new process observes it.
  std::uint64_t taken() const {
    std::uint64_t bytes = 0;
    const auto end = machine_.run([] {
      const auto memory = open_gpu()->memory();
      std::fprintf(stderr, "%llu\n",
                   static_cast<unsigned long long>(memory->total_bytes - memory->free_bytes));
    });
    EXPECT_TRUE(end.ok) << end.said;
    bytes = std::strtoull(end.said.c_str(), nullptr, 10);
    return bytes - context;
  }
  // Retries for a while, because the end of a process becomes visible a little later.
  void expect_taken(std::uint64_t bytes) const {
    const Time deadline = monotonic_now() + 20s;
    std::uint64_t seen = taken();
    while (seen != bytes && monotonic_now() < deadline) seen = taken();
    EXPECT_EQ(seen, bytes);
  }
};

TEST_P(DeviceBytesBetween, HolderKilled_ReceiverUnmapsItsMemory) {
  belongs_to(Part::reachable_bytes);
  open();
  const std::vector<RegionSpec> regions{{40 * mib - 600, 1}};
  const TransferId id = begin(holder(), receiver(), 1, regions);
  expect_right(receiver(), id, regions);
  // One chunk of the holder, imported by the receiver, and one chunk of the receiver.
  EXPECT_EQ(taken(), 2 * context + 2 * 40 * mib);
  EXPECT_GE(receiver().figures().mapped, 40 * mib);
  holder().kill();
  expect_taken(context + 40 * mib);
  EXPECT_EQ(receiver().figures().mapped, 0u);
  receiver().drop(id);
}

TEST_P(DeviceBytesBetween, HolderFreesMemory_ReadersUnmapIt) {
  belongs_to(Part::reachable_bytes);
  open();
  // Each one in a chunk of its size. The holder keeps 128 MiB of empty chunks.
  for (const std::uint64_t size : {60 * mib, 62 * mib, 64 * mib, 66 * mib}) {
    transfer(holder(), receiver(), 1, {{size - 600, size}});
  }
  const Time deadline = monotonic_now() + 20s;
  while (receiver().figures().mapped > 128 * mib && monotonic_now() < deadline) {
  }
  EXPECT_LE(receiver().figures().mapped, 128 * mib);
  expect_taken(2 * context + 2 * 66 * mib);
}

TEST_P(DeviceBytesBetween, ImportFailed_IsTypedAndNextWorks) {
  belongs_to(Part::failing_driver);
  make(options(), with("fail=cuMemImportFromShareableHandle@1:1,cuMemSetAccess@2:801"));
  open();
  const TransferId id = begin(holder(), receiver(), 1, {{mib, 1}});
  const Seen seen = receiver().seen(id);
  EXPECT_FALSE(seen.ok);
  EXPECT_NE(seen.text.find("cuMemImportFromShareableHandle"), std::string::npos) << seen.text;
  EXPECT_TRUE(seen.poison && seen.guards);
  receiver().drop(id);
  holder().release(id);
  const TransferId second = begin(holder(), receiver(), 1, {{mib, 2}});
  EXPECT_NE(receiver().seen(second).text.find("cuMemSetAccess"), std::string::npos);
  transfer(holder(), receiver(), 1, {{mib, 3}});
}

TEST_P(DeviceBytesBetween, ContextLost_IsNamedAndHolderContinues) {
  belongs_to(Part::sticky_error);
  // The test itself makes the first copy.
  make(options(), with("fail=cuMemcpyAsync@2:719"));
  open();
  const TransferId id = begin(holder(), receiver(), 1, {{mib, 1}});
  const Seen seen = receiver().seen(id);
  EXPECT_FALSE(seen.ok);
  EXPECT_NE(seen.text.find("is lost"), std::string::npos) << seen.text;
  receiver().kill();
  holder().peer_down(receiver().process());
  holder().release(id);
  const auto successor = node();
  ASSERT_TRUE(successor->open(holder(), 1));
  transfer(holder(), *successor, 1, {{mib, 2}});
}

TEST_P(DeviceBytesBetween, UsesMeantDeviceUnderMasks) {
  belongs_to(Part::masks);
  const std::string words = "count=3 mig=2";
  const auto uuids = device_uuids(machine_, words);  // three devices and two slices
  ASSERT_EQ(uuids.size(), 5u);
  const auto under = [&](const std::string& mask) {
    NodeOptions masked = with(words);
    masked.mask = mask;
    return masked;
  };
  // Each process has a different first device; then both use the same slice.
  for (const auto& [one, other] : {std::pair(uuids[1] + "," + uuids[0], uuids[0] + "," + uuids[1]),
                                   std::pair(uuids[3], uuids[3] + "," + uuids[0])}) {
    SCOPED_TRACE(one + " and " + other);
    make(under(one), under(other));
    open();
    transfer(holder(), receiver(), 1, {{3 * mib, 1}});
  }
}

TEST(GpuTransports, LibraryMissing_HasReason) {
  for (const auto way : {matrix::Column::cuda_ipc, matrix::Column::nccl}) {
    matrix::belongs_to(Part::missing, way, matrix::Proof::real);
  }
  ::setenv("MOBULA_CUDA_LIBRARY", "libno-such-cuda.so", 1);
  ::setenv("MOBULA_NCCL_LIBRARY", "libno-such-nccl.so", 1);
  const Availability ipc = CudaIpcTransport::probe(), nccl = NcclTransport::probe();
  ::unsetenv("MOBULA_CUDA_LIBRARY");
  ::unsetenv("MOBULA_NCCL_LIBRARY");
  EXPECT_FALSE(ipc.available);
  EXPECT_NE(ipc.reason.find("libno-such-cuda.so"), std::string::npos) << ipc.reason;
  EXPECT_FALSE(nccl.available);
  EXPECT_NE(nccl.reason.find("libno-such-nccl.so"), std::string::npos) << nccl.reason;
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceBytesBetween, testing::Values(Way::cuda_ipc), way_name);

}  // namespace
}  // namespace mobula::internal::direct_test
