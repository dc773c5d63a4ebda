// Slices of pinned memory: their limit, notification of returned slices, and ordinary memory if
// pinning fails.
#include "device/gpu/pinned_slices.h"

#include "device/gpu/gpu_fixture.h"

namespace mobula::internal {
namespace {

TEST(SimulatedPinnedSlices, LimitsSlicesAndNotifiesWaiterOnce) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    PinnedSlices pool(open_gpu(), {.slice_bytes = 4096, .slices = 4, .reserved_slices = 2});
    int calls = 0;
    EXPECT_FALSE(pool.take_spare([&] { ++calls; })) << "not open yet";
    ASSERT_TRUE(pool.open());
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(pool.pinned());
    auto first = pool.take_spare(), second = pool.take_spare();
    ASSERT_TRUE(first && second);
    EXPECT_NE(first.bytes().data(), second.bytes().data());
    EXPECT_FALSE(pool.take_spare([&] { ++calls; }));
    auto third = pool.take(), fourth = pool.take();
    ASSERT_TRUE(third && fourth) << "kept back for others than those that wait";
    EXPECT_FALSE(pool.take());
    third = {};
    EXPECT_EQ(calls, 1) << "the reserve is not for waiters";
    fourth = {};
    first = {};
    EXPECT_EQ(calls, 2);
    second = {};
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(pool.free(), 4u);
  });
}

TEST(SimulatedPinnedSlices, OutlivesPoolAndFreesDriverMemory) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    const auto gpu = open_gpu();
    void* block = nullptr;
    {
      PinnedSlice left;
      {
        PinnedSlices pool(gpu, {.slice_bytes = 4096, .slices = 1, .reserved_slices = 0});
        ASSERT_TRUE(pool.open());
        left = pool.take();
        block = left.bytes().data();
      }
      std::memset(left.bytes().data(), 1, left.bytes().size());
    }
    int attribute = cuda_abi::pointer_memory_type, type = -1;
    void* to = &type;
    const GpuContext::Current current(*gpu);
    ASSERT_EQ(gpu->call().pointer_attributes(1, &attribute, &to, address_of(block)), 0);
    EXPECT_EQ(type, 0) << "the driver does not know it any more";
  });
}

TEST(SimulatedPinnedSlices, PinFailed_UsesOrdinaryMemory) {
  const SimulatedMachine machine("fail=cuMemHostAlloc@1:2");
  EXPECT_RUNS(machine, [] {
    PinnedSlices pool(open_gpu(), {.slice_bytes = 4096, .slices = 3, .reserved_slices = 2});
    ASSERT_TRUE(pool.open());
    EXPECT_FALSE(pool.pinned());
    auto slice = pool.take_spare();
    ASSERT_TRUE(slice);
    std::memset(slice.bytes().data(), 1, slice.bytes().size());
  });
}

TEST(SimulatedPinnedSlices, RejectsReturnWhileStreamUsesSlice) {
  const SimulatedMachine machine;
  const auto end = machine.run([] {
    const auto gpu = open_gpu();
    auto there = DeviceMapping::create(gpu, mib);
    PinnedSlices pool(gpu, {.slice_bytes = 4096, .slices = 1, .reserved_slices = 0});
    ASSERT_TRUE(pool.open());
    auto slice = pool.take();
    const GpuContext::Current current(*gpu);
    EXPECT_EQ(simulated_kernel(nullptr, there->bytes().data(), 1, 1, 300), 0);
    EXPECT_EQ(gpu->call().copy_async(address_of(slice.bytes().data()),
                                     address_of(there->bytes().data()), 4096, nullptr),
              0);
    pool = PinnedSlices(gpu);
    slice = {};
  });
  EXPECT_TRUE(end.aborted) << end.said;
}

}  // namespace
}  // namespace mobula::internal
