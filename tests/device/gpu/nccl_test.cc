// The simulated NCCL moves bytes between processes and is as strict as the real library may be.
#include <unistd.h>

#include <atomic>
#include <thread>

#include "device/gpu/gpu_fixture.h"
#include "device/gpu/nccl_library.h"

namespace mobula::internal {
namespace {

// One of two ranks, in a separate process; the other one receives the id through a pipe.
struct Rank {
  std::shared_ptr<GpuContext> gpu;
  std::shared_ptr<const NcclLibrary> nccl;
  nccl_abi::Communicator communicator = nullptr;
  std::optional<GpuStream> stream;

  const NcclFunctions& call() const { return nccl->call(); }
  nccl_abi::Status wait() const {
    nccl_abi::Status state = nccl_abi::in_progress;
    while (state == nccl_abi::in_progress) {
      EXPECT_EQ(call().async_error(communicator, &state), nccl_abi::success);
      ::usleep(200);
    }
    return state;
  }
};

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  int ends[2];
};

void start_rank(Rank& rank, int number, const Pipe& pipe, int ranks = 2) {
  rank.gpu = open_gpu(0);
  auto library = NcclLibrary::open();
  ASSERT_TRUE(library) << library.error().text;
  rank.nccl = *library;
  nccl_abi::UniqueId id{};
  if (number == 0) {
    ASSERT_EQ(rank.call().unique_id(&id), nccl_abi::success);
    ASSERT_EQ(::write(pipe.ends[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  } else {
    ASSERT_EQ(::read(pipe.ends[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  }
  auto stream = GpuStream::create(rank.gpu);
  rank.stream.emplace(std::move(stream).value());
  nccl_abi::Config config;
  config.blocking = 0;
  const GpuContext::Current current(*rank.gpu);
  ASSERT_EQ(rank.call().init_rank(&rank.communicator, ranks, id, number, &config),
            nccl_abi::in_progress);
}

void end_rank(Rank& rank) {
  const GpuContext::Current current(*rank.gpu);
  EXPECT_EQ(rank.call().abort(rank.communicator), nccl_abi::success);
}

const char* const two_hosts = "count=2";

// Runs `body` in both ranks, each with its number.
void expect_pair(const SimulatedMachine& machine, const std::function<void(Rank&, int)>& body,
                 const std::string& words_of_second = {}) {
  const Pipe pipe;
  const auto run = [&](int number) {
    return [&, number] {
      ::setenv("CUDA_VISIBLE_DEVICES", std::to_string(number).c_str(), 1);
      Rank rank;
      start_rank(rank, number, pipe);
      if (!testing::Test::HasFailure()) body(rank, number);
    };
  };
  const auto first = machine.start(run(0));
  const auto second = machine.start(run(1), words_of_second);
  const auto first_end = SimulatedMachine::finish(first),
             second_end = SimulatedMachine::finish(second);
  EXPECT_TRUE(first_end.ok) << first_end.said;
  EXPECT_TRUE(second_end.ok) << second_end.said;
}

TEST(SimulatedNccl, TransfersBothWaysInOneGroup) {
  const SimulatedMachine machine(two_hosts);
  expect_pair(machine, [](Rank& rank, int number) {
    ASSERT_EQ(rank.wait(), nccl_abi::success);
    auto out = DeviceMapping::create(rank.gpu, 3 * mib),
         in = DeviceMapping::create(rank.gpu, 3 * mib);
    for (int round = 0; round < 3; ++round) {
      fill_device(*rank.gpu, out->bytes(), static_cast<unsigned char>(10 * number + round));
      const GpuContext::Current current(*rank.gpu);
      EXPECT_EQ(rank.call().group_start(), nccl_abi::success);
      EXPECT_EQ(rank.call().send(out->bytes().data(), 3 * mib - 1, nccl_abi::type_bytes, 1 - number,
                                 rank.communicator, rank.stream->get()),
                nccl_abi::success);
      EXPECT_EQ(rank.call().receive(in->bytes().data(), 3 * mib - 1, nccl_abi::type_bytes,
                                    1 - number, rank.communicator, rank.stream->get()),
                nccl_abi::success);
      EXPECT_EQ(rank.call().group_end(), nccl_abi::in_progress);
      EXPECT_EQ(rank.wait(), nccl_abi::success);
      EXPECT_TRUE(rank.stream->synchronize());
      EXPECT_TRUE(all_are(read_device(*rank.gpu, in->bytes().first(3 * mib - 1)),
                          static_cast<unsigned char>(10 * (1 - number) + round)));
    }
    end_rank(rank);
  });
}

TEST(SimulatedNccl, Collectives_GiveResultsToAllRanks) {
  const SimulatedMachine machine(two_hosts);
  expect_pair(machine, [](Rank& rank, int number) {
    ASSERT_EQ(rank.wait(), nccl_abi::success);
    auto from = DeviceMapping::create(rank.gpu, mib), to = DeviceMapping::create(rank.gpu, 2 * mib);
    fill_device(*rank.gpu, from->bytes(), static_cast<unsigned char>(3 + number));
    const GpuContext::Current current(*rank.gpu);
    const auto stream = rank.stream->get();
    const auto expect = [&](nccl_abi::Status issued, std::size_t bytes, unsigned char value) {
      EXPECT_EQ(issued, nccl_abi::in_progress);
      EXPECT_EQ(rank.wait(), nccl_abi::success);
      EXPECT_TRUE(rank.stream->synchronize());
      EXPECT_TRUE(all_are(read_device(*rank.gpu, to->bytes().first(bytes)), value));
    };
    const auto* const out = from->bytes().data();
    auto* const in = to->bytes().data();
    expect(rank.call().all_reduce(out, in, mib, nccl_abi::type_bytes, nccl_abi::op_sum,
                                  rank.communicator, stream),
           mib, 7);
    expect(rank.call().all_reduce(out, in, mib, nccl_abi::type_bytes, nccl_abi::op_max,
                                  rank.communicator, stream),
           mib, 4);
    expect(rank.call().broadcast(out, in, 100, nccl_abi::type_bytes, 1, rank.communicator, stream),
           100, 4);
    expect(rank.call().reduce_scatter(out, in, mib / 2, nccl_abi::type_bytes, nccl_abi::op_product,
                                      rank.communicator, stream),
           mib / 2, 12);
    expect(rank.call().all_gather(out, in, mib, nccl_abi::type_bytes, rank.communicator, stream),
           mib, 3);
    EXPECT_TRUE(all_are(read_device(*rank.gpu, to->bytes().subspan(mib)), 4));
    // A rank that is not the root writes nothing.
    expect(rank.call().reduce(out, in, 50, nccl_abi::type_bytes, nccl_abi::op_sum, 0,
                              rank.communicator, stream),
           50, number == 0 ? 7 : 3);
    end_rank(rank);
  });
}

TEST(SimulatedNccl, RejectsTwoRanksOfOneDeviceAndMixedVersions) {
  const SimulatedMachine one;
  const Pipe pipe;
  const auto run = [&](int number) {
    return [&, number] {
      Rank rank;
      start_rank(rank, number, pipe);
      EXPECT_EQ(rank.wait(), nccl_abi::invalid_usage);
      end_rank(rank);
    };
  };
  const auto first = one.start(run(0)), second = one.start(run(1));
  const auto first_end = SimulatedMachine::finish(first),
             second_end = SimulatedMachine::finish(second);
  EXPECT_TRUE(first_end.ok && second_end.ok) << first_end.said << second_end.said;
  const SimulatedMachine machine(two_hosts);
  expect_pair(
      machine,
      [](Rank& rank, int) {
        EXPECT_EQ(rank.wait(), nccl_abi::invalid_usage);
        end_rank(rank);
      },
      "nccl=23007");
}

TEST(SimulatedNccl, PeerAbsent_AbortEndsKernel) {
  const SimulatedMachine machine(two_hosts);
  expect_pair(machine, [](Rank& rank, int number) {
    ASSERT_EQ(rank.wait(), nccl_abi::success);
    if (number == 1) return end_rank(rank);
    auto memory = DeviceMapping::create(rank.gpu, mib);
    {
      const GpuContext::Current current(*rank.gpu);
      (void)rank.call().receive(memory->bytes().data(), mib, nccl_abi::type_bytes, 1,
                                rank.communicator, rank.stream->get());
    }
    end_rank(rank);
    EXPECT_TRUE(rank.stream->synchronize()) << "the stream is free again";
    EXPECT_EQ(rank.gpu->memory().value().free_bytes, (1024 - 32 - 2) * mib)
        << "and the communicator's memory";
  });
}

TEST(SimulatedNccl, Revoke_EndsHangingKernel) {
  const SimulatedMachine machine(two_hosts);
  expect_pair(
      machine,
      [](Rank& rank, int number) {
        ASSERT_EQ(rank.wait(), nccl_abi::success);
        auto memory = DeviceMapping::create(rank.gpu, mib);
        const GpuContext::Current current(*rank.gpu);
        auto* const at = memory->bytes().data();
        (void)(number == 0 ? rank.call().send(at, mib, nccl_abi::type_bytes, 1, rank.communicator,
                                              rank.stream->get())
                           : rank.call().receive(at, mib, nccl_abi::type_bytes, 0,
                                                 rank.communicator, rank.stream->get()));
        EXPECT_EQ(rank.wait(), nccl_abi::success);
        EXPECT_EQ(rank.call().revoke(rank.communicator, 0), nccl_abi::in_progress);
        EXPECT_EQ(rank.wait(), nccl_abi::success);
        EXPECT_TRUE(rank.stream->synchronize());
        EXPECT_EQ(rank.call().send(at, 1, nccl_abi::type_bytes, 1 - number, rank.communicator,
                                   rank.stream->get()),
                  nccl_abi::invalid_usage);
        EXPECT_EQ(rank.call().destroy(rank.communicator), nccl_abi::success);
      },
      "hang=kernel@1");
}

void expect_misuse_of_nccl(const char* named,
                           const std::function<void(Rank&, const GpuStream&)>& body) {
  const SimulatedMachine machine("init_ms=300");
  const auto end = machine.run([&] {
    const Pipe pipe;
    Rank rank;
    start_rank(rank, 0, pipe, 1);
    body(rank, *rank.stream);
  });
  EXPECT_TRUE(end.aborted) << named << ": " << end.said;
  EXPECT_NE(end.said.find(named), std::string::npos) << end.said;
}

TEST(SimulatedNccl, Misuse_EndsProcess) {
  expect_misuse_of_nccl("used while it is in progress", [](Rank& rank, const GpuStream& stream) {
    auto memory = DeviceMapping::create(rank.gpu, mib);
    (void)rank.call().send(memory->bytes().data(), 1, nccl_abi::type_bytes, 0, rank.communicator,
                           stream.get());
  });
  expect_misuse_of_nccl(
      "while a communicator on it is in progress", [](Rank& rank, const GpuStream& stream) {
        ASSERT_EQ(rank.wait(), nccl_abi::success);
        auto memory = DeviceMapping::create(rank.gpu, mib);
        const GpuContext::Current current(*rank.gpu);
        (void)rank.call().group_start();
        // The rank waits for itself, so the communicator stays in progress.
        (void)rank.call().receive(memory->bytes().data(), 1, nccl_abi::type_bytes, 0,
                                  rank.communicator, stream.get());
        (void)rank.call().group_end();
        (void)rank.gpu->call().fill_async(address_of(memory->bytes().data()), 1, 1, stream.get());
      });
  expect_misuse_of_nccl("overlaps itself", [](Rank& rank, const GpuStream& stream) {
    ASSERT_EQ(rank.wait(), nccl_abi::success);
    auto memory = DeviceMapping::create(rank.gpu, mib);
    (void)rank.call().all_reduce(memory->bytes().data(), memory->bytes().data() + 8, 64,
                                 nccl_abi::type_float32, nccl_abi::op_sum, rank.communicator,
                                 stream.get());
  });
  expect_misuse_of_nccl("by two threads", [](Rank& rank, const GpuStream&) {
    // A blocking call stays in NCCL until its peer arrives, which never happens.
    nccl_abi::UniqueId id{};
    ASSERT_EQ(rank.call().unique_id(&id), nccl_abi::success);
    const auto begin = [&] {
      const GpuContext::Current current(*rank.gpu);
      nccl_abi::Config config;
      config.blocking = 1;
      nccl_abi::Communicator communicator = nullptr;
      (void)rank.call().init_rank(&communicator, 2, id, 0, &config);
    };
    std::thread first(begin), second(begin);
    first.join();
    second.join();
  });
  expect_misuse_of_nccl("not memory of the device", [](Rank& rank, const GpuStream& stream) {
    ASSERT_EQ(rank.wait(), nccl_abi::success);
    char host = 0;
    (void)rank.call().group_start();
    (void)rank.call().send(&host, 1, nccl_abi::type_bytes, 0, rank.communicator, stream.get());
  });
}

}  // namespace
}  // namespace mobula::internal
