// Device memory within a share: allocation, release, export to other processes, and the limit.
#include <sys/socket.h>

#include <optional>
#include <set>

#include "device/detection/nvml.h"
#include "device/gpu/gpu_fixture.h"
#include "device/gpu/gpu_share.h"
#include "transport/local/local_frame.h"
#include "transport/local/local_link.h"

namespace mobula::internal {
namespace {

TEST(GpuShare, SubtractsContextAndCommunicators) {
  const GpuShareTerms half{Quantity::from_units(5'000), 1000 * mib, 100 * mib, 50 * mib};
  EXPECT_EQ(tensor_bytes_of(half).value(), 350 * mib);
  const GpuShareTerms third{Quantity::from_units(3'333), 1001, 0, 0};
  EXPECT_FALSE(tensor_bytes_of(third)) << "floor(0.3333 * 1001) bytes";
  const GpuShareTerms large{Quantity::whole(1), (std::uint64_t{1} << 60) + 1, 1, 0};
  EXPECT_EQ(tensor_bytes_of(large).value(), std::uint64_t{1} << 60);
}

TEST(GpuShare, RejectsEmptyShareWithNumbers) {
  const auto small = tensor_bytes_of({Quantity::from_units(1'000), 1000 * mib, 90 * mib, 5 * mib});
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, ErrorCode::invalid_argument);
  for (const std::uint64_t number : {100 * mib, 1000 * mib, 90 * mib, 5 * mib}) {
    EXPECT_NE(small.error().text.find(std::to_string(number)), std::string::npos)
        << small.error().text;
  }
  EXPECT_FALSE(tensor_bytes_of({Quantity(), 1000 * mib, 0, 0}));
  EXPECT_FALSE(tensor_bytes_of({Quantity::whole(2), 1000 * mib, 0, 0}));
}

TEST(SimulatedDeviceArena, AllocatesSeparateBytes) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    const auto gpu = open_gpu();
    DeviceArena arena(gpu, {.max_bytes = 64 * mib});
    auto small = arena.take(1), other = arena.take(300), large = arena.take(3 * mib);
    ASSERT_TRUE(small && other && large);
    EXPECT_EQ(small->file().chunk, other->file().chunk) << "small ones share";
    EXPECT_NE(small->file().chunk, large->file().chunk);
    EXPECT_EQ(large->file().chunk_bytes, 4 * mib) << "no larger than it has to be";
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other->bytes().data()) % 256, 0u);
    fill_device(*gpu, small->bytes(), 1);
    fill_device(*gpu, other->bytes(), 2);
    fill_device(*gpu, large->bytes(), 3);
    EXPECT_TRUE(all_are(read_device(*gpu, small->bytes()), 1));
    EXPECT_TRUE(all_are(read_device(*gpu, other->bytes()), 2));
    EXPECT_TRUE(all_are(read_device(*gpu, large->bytes()), 3));
    const auto found = arena.file_of(other->bytes().data() + 17);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->chunk, other->file().chunk);
    EXPECT_EQ(found->offset, other->file().offset + 17);
    EXPECT_FALSE(arena.file_of(&arena));
  });
}

TEST(SimulatedDeviceArena, LimitsToShareWithNumbers) {
  const SimulatedMachine machine("memory=268435456");
  EXPECT_RUNS(machine, [] {
    const auto gpu = open_gpu();
    std::set<std::uint64_t> closed;
    DeviceArena arena(gpu, {.max_bytes = 32 * mib, .max_empty_bytes = 16 * mib},
                      [&](std::uint64_t chunk) { closed.insert(chunk); });
    auto first = arena.take(20 * mib);
    ASSERT_TRUE(first);
    const auto refused = arena.take(20 * mib);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::resource_exhausted);
    EXPECT_NE(refused.error().text.find(std::to_string(32 * mib)), std::string::npos)
        << refused.error().text;
    const auto chunk = first->file().chunk;
    *first = DeviceBytes();
    EXPECT_EQ(closed, std::set<std::uint64_t>{chunk}) << "20 MiB are more than are kept";
    EXPECT_EQ(arena.used_bytes() + arena.chunk_bytes(), 0u);
    // Kept chunks are freed for a new allocation.
    { const auto kept = arena.take(10 * mib); }
    EXPECT_EQ(arena.chunk_bytes(), 10 * mib);
    EXPECT_TRUE(arena.take(30 * mib));
    EXPECT_FALSE(arena.take(0));
    EXPECT_FALSE(arena.take(33 * mib));
  });
}

TEST(SimulatedDeviceArena, BeyondDeviceMemory_DriverRejects) {
  const SimulatedMachine machine("memory=67108864 context=33554432");
  EXPECT_RUNS(machine, [] {
    const auto gpu = open_gpu();
    EXPECT_EQ(gpu->memory().value().free_bytes, 32 * mib) << "the context takes its part";
    DeviceArena arena(gpu, {.max_bytes = 1024 * mib});
    const auto refused = arena.take(40 * mib);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::resource_exhausted);
    EXPECT_NE(refused.error().text.find("OUT_OF_MEMORY"), std::string::npos)
        << refused.error().text;
    EXPECT_TRUE(arena.take(30 * mib));
    // A call that fails midway leaves nothing allocated.
    EXPECT_EQ(arena.used_bytes(), 0u);
  });
  EXPECT_RUNS(
      machine,
      [] {
        const auto gpu = open_gpu();
        DeviceArena arena(gpu, {.max_bytes = 32 * mib});
        EXPECT_FALSE(arena.take(10 * mib)) << "mapping fails";
        EXPECT_FALSE(arena.take(10 * mib)) << "setting access fails";
        EXPECT_FALSE(arena.take(10 * mib)) << "exporting fails";
        EXPECT_EQ(gpu->memory().value().free_bytes, 32 * mib);
        EXPECT_TRUE(arena.take(10 * mib));
      },
      "fail=cuMemMap@1:1,cuMemSetAccess@1:1,cuMemExportToShareableHandle@1:801");
}

// Socket between a holder and an importer.
struct Ends {
  Fd mine, theirs;
};
Ends ends() {
  auto pair = make_local_pair();
  return {std::move(pair->first), std::move(pair->second)};
}

void give(const Fd& socket, const DeviceFile& file) {
  std::vector<Fd> fds;
  fds.emplace_back(::dup(file.fd));
  const std::uint64_t words[] = {file.chunk_bytes, file.offset};
  ASSERT_TRUE(send_frame(socket, std::as_bytes(std::span(words)), fds, monotonic_now() + 20s));
}

TEST(SimulatedDeviceMemory, SharesMemoryThatOutlivesHolder) {
  const SimulatedMachine machine("memory=268435456 context=16777216");
  const Ends between = ends(), done = ends();
  const auto importer = machine.start([&] {
    auto frame = receive_frame(between.theirs, monotonic_now() + 20s);
    ASSERT_TRUE(frame);
    std::uint64_t words[2];
    std::memcpy(words, frame->bytes.data(), sizeof words);
    const auto gpu = open_gpu();
    auto imported = DeviceMapping::import(gpu, frame->fds.at(0), words[0]);
    ASSERT_TRUE(imported) << imported.error().text;
    frame->fds.clear();
    EXPECT_TRUE(all_are(read_device(*gpu, imported->bytes().subspan(words[1], mib)), 9));
    // The holder has exited, and its bytes still exist.
    ASSERT_TRUE(send_frame(between.theirs, {}, {}, monotonic_now() + 20s));
    ASSERT_TRUE(receive_frame(done.theirs, monotonic_now() + 20s));
    EXPECT_TRUE(all_are(read_device(*gpu, imported->bytes().subspan(words[1], mib)), 9));
    EXPECT_EQ(gpu->memory().value().free_bytes, (256 - 16 - 2) * mib);
    *imported = DeviceMapping();
    EXPECT_EQ(gpu->memory().value().free_bytes, (256 - 16) * mib)
        << "the last mapping of the memory is released";
  });
  EXPECT_RUNS(machine, [&] {
    const auto gpu = open_gpu();
    DeviceArena arena(gpu, {.max_bytes = 64 * mib});
    const auto bytes = arena.take(mib);
    ASSERT_TRUE(bytes);
    fill_device(*gpu, bytes->bytes(), 9);
    give(between.mine, bytes->file());
    ASSERT_TRUE(receive_frame(between.mine, monotonic_now() + 20s));
  });
  ASSERT_TRUE(send_frame(done.mine, {}, {}, monotonic_now() + 20s));
  const auto end = SimulatedMachine::finish(importer);
  EXPECT_TRUE(end.ok) << end.said;
}

TEST(SimulatedDeviceMemory, RejectsDescriptorThatIsNoMemory) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    const auto gpu = open_gpu();
    DeviceArena arena(gpu, {.max_bytes = 64 * mib});
    const auto bytes = arena.take(mib);
    const Fd other(::dup(0)), own(::dup(bytes->file().fd));
    EXPECT_FALSE(DeviceMapping::import(gpu, other, 2 * mib));
    EXPECT_FALSE(DeviceMapping::import(gpu, own, 4 * mib)) << "larger than it is";
    EXPECT_FALSE(DeviceMapping::import(gpu, own, mib)) << "not what a device maps";
    EXPECT_FALSE(DeviceMapping::import(gpu, own, 0));
    const auto right = DeviceMapping::import(gpu, own, 2 * mib);
    EXPECT_TRUE(right);
  });
}

TEST(SimulatedDeviceMemory, RejectsMemoryOfUnreachableDevice) {
  const SimulatedMachine machine("count=2 peers=");
  EXPECT_RUNS(machine, [] {
    const auto gpu = open_gpu(0), other = open_gpu(1);
    EXPECT_FALSE(gpu->reaches(other->uuid()));
    DeviceArena arena(gpu, {.max_bytes = 64 * mib});
    const auto bytes = arena.take(mib);
    const Fd own(::dup(bytes->file().fd));
    EXPECT_FALSE(DeviceMapping::import(other, own, 2 * mib));
  });
}

TEST(SimulatedDeviceMemory, ChargesAllocatorAndKnowsPeersWithoutContext) {
  const SimulatedMachine machine("count=3 peers=0-1 context=16777216");
  EXPECT_RUNS(machine, [] {
    const auto nvml = Nvml::open(std::getenv("MOBULA_NVML_LIBRARY"));
    ASSERT_TRUE(nvml);
    EXPECT_TRUE(nvml->users(0).value().empty());
    const auto gpu = open_gpu();
    DeviceArena arena(gpu, {.max_bytes = 64 * mib});
    const auto bytes = arena.take(mib);
    const auto users = nvml->users(0).value();
    ASSERT_EQ(users.size(), 1u);
    EXPECT_EQ(users[0].process, static_cast<unsigned>(::getpid()));
    EXPECT_EQ(users[0].used_bytes, (16 + 2) * mib);
    EXPECT_TRUE(nvml->users(1).value().empty());
    EXPECT_TRUE(nvml->reaches(0, 1).value() && nvml->reaches(1, 0).value() &&
                nvml->reaches(2, 2).value());
    EXPECT_FALSE(nvml->reaches(0, 2).value());
    EXPECT_FALSE(nvml->reaches(0, 9));
  });
}

TEST(SimulatedDeviceMemory, ProcessKilled_MemoryReturns) {
  const SimulatedMachine machine("memory=268435456 context=16777216");
  const Ends between = ends();
  const auto holder = machine.start([&] {
    const auto gpu = open_gpu();
    DeviceArena arena(gpu, {.max_bytes = 200 * mib});
    const auto bytes = arena.take(150 * mib);
    ASSERT_TRUE(send_frame(between.theirs, {}, {}, monotonic_now() + 20s));
    ::pause();
  });
  ASSERT_TRUE(receive_frame(between.mine, monotonic_now() + 20s));
  EXPECT_RUNS(machine, [] {
    EXPECT_EQ(open_gpu()->memory().value().free_bytes, (256 - 150 - 2 * 16) * mib);
  });
  ::kill(holder.process, SIGKILL);
  SimulatedMachine::finish(holder);
  EXPECT_RUNS(machine,
              [] { EXPECT_EQ(open_gpu()->memory().value().free_bytes, (256 - 16) * mib); });
}

}  // namespace
}  // namespace mobula::internal
