// Tensors of simulated GPUs staged through the host, chunk by chunk through a few slices of pinned
// memory: all sizes arrive complete, no wait forms a cycle, and failures and stops leave no
// residue.
#include <atomic>
#include <future>

#include "simulated_gpu/machine.h"
#include "tensor/exchange/exchange_process.h"
#include "transport/loop/loop_thread.h"
#include "transport/tensor/gpu/device_stage.h"

namespace mobula::internal::exchange::staging {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::uint64_t mib = 1u << 20;
constexpr TransportPreference by_tcp{.direct = true, .named = DirectPath::tcp};

std::shared_ptr<GpuContext> context_number(std::size_t which) {
  const auto driver = CudaDriver::open();
  MOBULA_CHECK(driver.ok(), "driver");
  const auto visible = GpuContext::visible(**driver);
  MOBULA_CHECK(visible.ok() && which < visible->size(), "devices");
  return *GpuContext::open(*driver, visible->at(which));
}

// On a separate host, with the minimum number of slices.
Member with_few_slices(std::uint64_t number, std::size_t which, bool few = true) {
  Member member;
  member.number = member.node = number;
  member.own_host = std::to_string(number);
  const auto uuid = to_string(context_number(which)->uuid());
  PinnedSliceOptions staging;
  if (few) staging.slices = staging.reserved_slices + 1;
  member.gpus = std::make_shared<GpuDevices>(
      std::vector{GpuTerms{.uuid = uuid, .memory_bytes = 512 * mib}}, [](const std::string&) {},
      staging);
  EXPECT_TRUE(member.gpus->open().ok()) << member.gpus->why_none();
  return member;
}

TEST(SimulatedStaging, TransfersAnySizeWithoutHolderCopy) {
  const SimulatedMachine machine("count=2 late_us=50");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_few_slices(1, 0)),
        two(directory.path(), with_few_slices(2, 1));
    std::uint64_t object = 7;
    for (const std::uint64_t size :
         {std::uint64_t{1}, 65'537 + std::uint64_t{0}, 4 * mib - 1, 4 * mib + 1, 70 * mib + 13}) {
      const auto arrival = two.pull(one.publish_on_gpu(++object, size));
      EXPECT_TRUE(two.is_numbered_here(arrival, object, size)) << size;
      EXPECT_EQ(arrival.path, DirectPath::staged);
    }
    EXPECT_EQ(one.exchange().arena()->used_bytes(), 0u);
    EXPECT_EQ(one.exchange().arena()->block_bytes(), 0u)
        << "no copy was made, not even for a while";
  });
}

TEST(SimulatedStaging, BothDirectionsWithOneSlice_NoDeadlock) {
  const SimulatedMachine machine("count=2 late_us=300");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_few_slices(1, 0)),
        two(directory.path(), with_few_slices(2, 1));
    constexpr std::uint64_t size = 18 * mib + 1;
    RefRecords from_one, from_two;
    for (std::uint64_t i = 0; i < 4; ++i) {
      from_one.push_back(one.publish_on_gpu(10 + i, size, by_tcp));
      from_two.push_back(two.publish_on_gpu(20 + i, size, by_tcp));
    }
    one.exchange().pull(1000, from_two, false);
    const auto to_two = two.pull_all(from_one);
    const auto to_one = one.wait_for(4);
    for (const PullResult& each : to_two)
      EXPECT_TRUE(two.is_numbered_here(each, each.object.bits().low, size));
    for (const PullResult& each : to_one)
      EXPECT_TRUE(one.is_numbered_here(each, each.object.bits().low, size));
  });
}

TEST(SimulatedStaging, HostMemory_ReceivesChunkByChunk) {
  const SimulatedMachine machine("count=1");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Member other{.number = 2, .node = 2, .own_host = "2"};
    Process one(directory.path(), with_few_slices(1, 0)), two(directory.path(), other);
    const auto arrival = two.pull(one.publish_on_gpu(7, 33 * mib + 5));
    EXPECT_TRUE(is_numbered(arrival, 7, 33 * mib + 5));
    EXPECT_EQ(one.exchange().arena()->block_bytes(), 0u);
  });
}

TEST(SimulatedStaging, SameHost_CopiesFromSharedMemory) {
  const SimulatedMachine machine("count=2 peers=");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Member first = with_few_slices(1, 0), second = with_few_slices(2, 1);
    first.own_host = second.own_host = "";
    first.node = second.node = 1;
    Process one(directory.path(), first), two(directory.path(), second);
    for (std::uint64_t object = 7; object < 10; ++object) {
      const auto arrival = two.pull(
          one.publish_on_gpu(object, 9 * mib + 1, {.direct = true, .named = DirectPath::shm}));
      EXPECT_TRUE(two.is_numbered_here(arrival, object, 9 * mib + 1));
    }
    EXPECT_TRUE(soon([&] { return one.exchange().arena()->used_bytes() == 0; }))
        << "copies are released";
  });
}

TEST(SimulatedStaging, PinFailed_UsesOtherMemory) {
  const SimulatedMachine machine("count=2 fail=cuMemHostAlloc@1:2,cuMemHostAlloc@2:2");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_few_slices(1, 0)),
        two(directory.path(), with_few_slices(2, 1));
    EXPECT_TRUE(two.is_numbered_here(two.pull(one.publish_on_gpu(7, 21 * mib)), 7, 21 * mib));
  });
}

TEST(SimulatedStaging, CancelledMidway_ReturnsSlices) {
  const SimulatedMachine machine("count=2 late_us=2000");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_few_slices(1, 0)),
        two(directory.path(), with_few_slices(2, 1));
    const auto large = one.publish_on_gpu(7, 120 * mib, by_tcp);
    EXPECT_TRUE(two.is_numbered_here(two.pull(one.publish_on_gpu(8, mib, by_tcp)), 8, mib));
    for (std::uint64_t request = 500; request < 510; ++request) {
      two.exchange().pull(request, {large}, false);
      // some are in transit by then
      std::this_thread::sleep_for(std::chrono::milliseconds(3 * (request - 499)));
      two.exchange().cancel(request);
    }
    // A transfer that still ran would leave no slice for this one.
    EXPECT_TRUE(
        two.is_numbered_here(two.pull(one.publish_on_gpu(9, 40 * mib, by_tcp)), 9, 40 * mib));
    one.exchange().unregister(ObjectId::of(7));
    EXPECT_TRUE(soon([&] { return !one.is_alive(7); })) << "no reader is left";
  });
}

TEST(SimulatedStaging, HolderContextLost_FailsTyped) {
  // The first copy is made by the test, and each transfer to the host starts with one more.
  const SimulatedMachine machine("count=2 fail=cuMemcpyAsync@4:719");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_few_slices(1, 0)),
        two(directory.path(), with_few_slices(2, 1));
    const auto arrival = two.pull(one.publish_on_gpu(7, 60 * mib, by_tcp));
    ASSERT_TRUE(std::holds_alternative<Failure>(arrival.outcome));
    EXPECT_THAT(arrival.refusals, Contains(HasSubstr("is lost")));
  });
}

TEST(SimulatedStaging, ProcessExitsMidway_OtherContinues) {
  const SimulatedMachine machine("count=2 late_us=500");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_few_slices(1, 0)),
        three(directory.path(), with_few_slices(3, 0));
    {
      Process two(directory.path(), with_few_slices(2, 1));
      two.exchange().pull(500, {one.publish_on_gpu(7, 120 * mib, by_tcp)}, false);
      // in transit or not yet started: both cases must end cleanly
      std::this_thread::sleep_for(20ms);
    }
    EXPECT_TRUE(
        three.is_numbered_here(three.pull(one.publish_on_gpu(8, 30 * mib, by_tcp)), 8, 30 * mib));
    one.exchange().unregister(ObjectId::of(7));
    EXPECT_TRUE(soon([&] { return !one.is_alive(7); }));
  });
}

TEST(SimulatedStage, SilentHolder_UsesAtMostHalfTheSlices) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    const auto gpu = context_number(0);
    auto loop = LoopThread::start();
    ASSERT_TRUE(loop.ok());
    std::unique_ptr<DeviceCopies> copies;
    ASSERT_TRUE((*loop)
                    ->run([&] {
                      copies = *DeviceCopies::create(
                          (*loop)->loop(), gpu, {.pinned = {.slices = 6, .reserved_slices = 2}});
                    })
                    .ok());
    const auto owner = std::make_unique<DeviceStage>(gpu, *copies);
    const auto stage = owner->stage();
    const ProcessId silent = ProcessId::of(1), other = ProcessId::of(2);
    std::atomic<int> calls = 0;
    EXPECT_FALSE(stage->allocate(silent, mib, [&] { ++calls; })) << "the first has them taken";
    ASSERT_TRUE(soon([&] { return calls == 1; }));
    std::vector<StagedChunk> held;
    for (int i = 0; i < 2; ++i) {
      auto buffer = stage->allocate(silent, mib, nullptr);
      ASSERT_TRUE(buffer);
      held.push_back(std::move(*buffer));
    }
    EXPECT_FALSE(stage->allocate(silent, mib, [&] { ++calls; }));
    auto first = stage->allocate(other, mib, nullptr),
         second = stage->allocate(other, mib, nullptr);
    EXPECT_TRUE(first && second) << "the other half is for others";
    first.reset();
    EXPECT_EQ(calls, 2) << "asked again it is still refused";
    EXPECT_FALSE(stage->allocate(silent, mib, nullptr));
    held.pop_back();
    EXPECT_TRUE(stage->allocate(silent, mib, nullptr));
    held.clear();
    second.reset();
    EXPECT_EQ(copies->slices()->in.free(), 6u);
    (void)(*loop)->run([&] { copies.reset(); });
  });
}

// The stage alone: chunks available at once, order of waiters, and behavior at its end.
TEST(SimulatedStage, LimitsChunksToSlicesAndServesInOrder) {
  const SimulatedMachine machine("late_us=100");
  EXPECT_RUNS(machine, [] {
    const auto gpu = context_number(0);
    auto source = DeviceMapping::create(gpu, 40 * mib);
    ASSERT_TRUE(source.ok());
    auto loop = LoopThread::start();
    ASSERT_TRUE(loop.ok());
    std::unique_ptr<DeviceCopies> copies;
    ASSERT_TRUE((*loop)
                    ->run([&] {
                      copies = *DeviceCopies::create(
                          (*loop)->loop(), gpu, {.pinned = {.slices = 5, .reserved_slices = 2}});
                    })
                    .ok());
    auto stage = std::make_unique<DeviceStage>(gpu, *copies, DeviceStageOptions{.max_reads = 8});
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::pair<int, StagedChunk>> there;
    std::vector<int> cancelled, refused;
    for (int i = 0; i < 12; ++i) {
      stage->stage()->read(
          source->bytes().subspan(static_cast<std::size_t>(i) * mib, mib), [i] { return i != 4; },
          [&, i](Result<StagedChunk> read) {
            const std::scoped_lock lock(mutex);
            if (read) {
              there.emplace_back(i, *read);
            } else {
              (read.error().code == ErrorCode::cancelled ? cancelled : refused).push_back(i);
            }
            changed.notify_all();
          });
    }
    const auto wait_for = [&](std::size_t count) {
      std::unique_lock lock(mutex);
      return changed.wait_for(lock, 20s, [&] { return there.size() >= count; });
    };
    ASSERT_TRUE(wait_for(3));
    EXPECT_EQ(copies->slices()->out.free(), 2u) << "kept back for whole copies";
    for (int next = 0; !there.empty() && next < 20; ++next) {
      StagedChunk gone;
      {
        const std::scoped_lock lock(mutex);
        gone = there.front().second;
        there.erase(there.begin());
      }
      gone = {};
      (void)changed;
      std::unique_lock lock(mutex);
      (void)changed.wait_for(lock, 200ms, [&] { return there.size() >= 3; });
      EXPECT_LE(there.size(), 3u);
    }
    {
      const std::scoped_lock lock(mutex);
      EXPECT_EQ(cancelled, std::vector<int>{4});
      for (const int each : refused) EXPECT_GE(each, 8) << "the last ones were too many";
    }
    // A waiter is notified of the end; chunks that were handed out stay valid.
    std::promise<void> ended;
    stage->stage()->read(
        source->bytes().first(mib), [] { return true; },
        [&](const Result<StagedChunk>&) { ended.set_value(); });
    stage.reset();
    EXPECT_EQ(ended.get_future().wait_for(20s), std::future_status::ready);
    (void)(*loop)->run([&] { copies.reset(); });
  });
}

}  // namespace
}  // namespace mobula::internal::exchange::staging
