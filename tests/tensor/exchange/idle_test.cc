// Idle connections between exchanges: closed after a while, and opened again on demand.
#include <dirent.h>

#include "device/host_identity.h"
#include "simulated_gpu/calls.h"
#include "simulated_gpu/machine.h"
#include "tensor/exchange/exchange_process.h"

namespace mobula::internal::exchange {
namespace {

constexpr std::size_t idle_size = 300'001;

std::size_t entries(const char* directory) {
  DIR* const open = ::opendir(directory);
  std::size_t count = 0;
  while (open != nullptr && ::readdir(open) != nullptr) ++count;
  if (open != nullptr) ::closedir(open);
  return count;
}
// Descriptors and threads of this process, which contains all exchanges of a test.
std::size_t descriptors() { return entries("/proc/self/fd"); }
std::size_t threads() { return entries("/proc/self/task"); }

struct Way {
  const char* name;
  DirectPath path;
  bool apart;                      // simulates two machines
  bool shared;                     // elements are mapped in place
  std::size_t of_both_directions;  // smallest number of descriptors at both ends
};

class Idle : public testing::TestWithParam<Way> {
 protected:
  Member member(std::uint64_t number, Duration idle_timeout) const {
    Member made{.number = number, .node = GetParam().apart ? number : 1};
    if (GetParam().apart) made.own_host = std::to_string(number);
    made.idle_timeout = idle_timeout;
    return made;
  }
  TransportPreference preference() const { return {.direct = true, .named = GetParam().path}; }
  void expect_arrives(Process& from, Process& to, std::uint64_t object) {
    const auto arrival =
        to.pull(from.register_tensor(object, idle_size, GetParam().shared, preference()));
    EXPECT_TRUE(is_numbered(arrival, object, idle_size));
    EXPECT_EQ(arrival.path, GetParam().path);
    EXPECT_TRUE(arrival.failed_tries.empty() && arrival.refusals.empty()) << arrival.refusals.at(0);
    (void)from.exchange().unregister(ObjectId::of(object));
  }
  Directory directory_;
};

// Descriptors for all transfers of a process are open after the first transfers.
TEST_P(Idle, ClosesAndReopensConnections) {
  Process one(directory_.path(), member(1, 300ms));
  Process two(directory_.path(), member(2, 300ms));
  std::size_t open = 0, closed = 0, running = 0;
  for (std::uint64_t round = 0; round < 4; ++round) {
    expect_arrives(one, two, 10 + round);
    expect_arrives(two, one, 20 + round);
    if (round == 0) open = descriptors();
    EXPECT_TRUE(soon([&] { return descriptors() <= open - GetParam().of_both_directions; }))
        << descriptors() << " of " << open;
    if (round == 0) {
      closed = descriptors();
      running = threads();
    }
    EXPECT_TRUE(soon([&] { return descriptors() <= closed; }))
        << descriptors() << " descriptors, not " << closed;
    EXPECT_TRUE(soon([&] { return threads() <= running; }))
        << threads() << " threads, not " << running;
  }
}

// One direction stays in use: its connection stays open, and no transfer fails.
TEST_P(Idle, ClosesOneDirectionOnly) {
  Process one(directory_.path(), member(1, 30ms));
  Process two(directory_.path(), member(2, 30ms));
  expect_arrives(two, one, 1);
  const Time began = monotonic_now();
  for (std::uint64_t object = 100; monotonic_now() - began < 300ms; ++object)
    expect_arrives(one, two, object);
  expect_arrives(two, one, 2);
}

// A request arrives at the moment at which the connection closes, repeatedly.
TEST_P(Idle, RequestDuringClose_Arrives) {
  Process one(directory_.path(), member(1, 2ms));
  Process two(directory_.path(), member(2, 2ms));
  // Over a network, each repeated connection to the same address waits longer.
  const std::uint64_t rounds = GetParam().apart ? 5 : 400;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    expect_arrives(one, two, 1000 + i);
    if (i % 3 == 0) expect_arrives(two, one, 5000 + i);
    // approximately until the close
    std::this_thread::sleep_for(std::chrono::microseconds(1900 + 7 * (i % 60)));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Idle,
                         testing::Values(Way{"in_place", DirectPath::shm, false, true, 8},
                                         Way{"shm", DirectPath::shm, false, false, 8},
                                         Way{"tcp", DirectPath::tcp, true, false, 8}),
                         [](const auto& each) { return std::string(each.param.name); });

// Tensors mapped in place stay valid when connections close.
TEST(IdleConnections, MappedTensors_SurviveClose) {
  const Directory directory;
  Process one(directory.path(), {.number = 1, .idle_timeout = 20ms});
  Process two(directory.path(), {.number = 2, .idle_timeout = 200ms});
  const auto arrival = two.pull(one.register_tensor(7, 3 << 20, true));
  ASSERT_TRUE(std::get<Elements>(arrival.outcome).in_place);
  const std::size_t open = descriptors();
  EXPECT_TRUE(soon([&] { return descriptors() <= open - 4; })) << descriptors() << " of " << open;
  EXPECT_TRUE(is_numbered(arrival, 7, 3 << 20));
  EXPECT_TRUE(one.is_alive(7));
}

// Above a number of holders, unused connections close first.
TEST(IdleConnections, ManyHolders_CloseSooner) {
  const Directory directory;
  Process reader(directory.path(), {.number = 1, .many_ties = 4});
  std::vector<std::unique_ptr<Process>> holders;
  for (std::uint64_t i = 2; i < 10; ++i)
    holders.push_back(std::make_unique<Process>(directory.path(), Member{.number = i}));
  const std::size_t before = descriptors();
  std::size_t of_one = 0;
  std::uint64_t object = 100;
  for (const auto& each : holders) {
    ++object;
    EXPECT_TRUE(is_numbered(reader.pull(each->register_tensor(object, idle_size, false)), object,
                            idle_size));
    // On a slow machine, the first connections close before the last opens.
    if (of_one == 0) of_one = descriptors() - before;
  }
  EXPECT_TRUE(soon([&] { return descriptors() <= before + 5 * of_one; }))
      << descriptors() - before << ", " << of_one << " per connection";
}

// A communicator serves both directions.
TEST(IdleConnections, ClosesAndReopensCommunicators) {
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    const auto driver = CudaDriver::open();
    const auto visible = GpuContext::visible(**driver);
    const auto gpu = [&](std::size_t which) {
      GpuTerms terms{.uuid = to_string((*visible)[which]), .memory_bytes = 256u << 20, .peers = {}};
      auto made = std::make_shared<GpuDevices>(std::vector{terms}, [](const std::string&) {});
      EXPECT_TRUE(made->open().ok());
      return made;
    };
    const Directory directory;
    Process one(directory.path(), {.number = 1, .gpus = gpu(0), .idle_timeout = 100ms});
    Process two(directory.path(), {.number = 2, .gpus = gpu(1), .idle_timeout = 100ms});
    const std::size_t before = descriptors();
    const TransportPreference by_nccl{.direct = true, .named = DirectPath::nccl};
    for (std::uint64_t object = 7; object < 10; ++object) {
      const auto arrival = two.pull(one.publish_on_gpu(object, idle_size, by_nccl));
      EXPECT_TRUE(two.is_numbered_here(arrival, object, idle_size));
      EXPECT_TRUE(arrival.failed_tries.empty());
      const auto back = one.pull(two.publish_on_gpu(object + 10, idle_size, by_nccl));
      EXPECT_TRUE(one.is_numbered_here(back, object + 10, idle_size));
      EXPECT_TRUE(back.failed_tries.empty());
      EXPECT_TRUE(soon([&] { return descriptors() <= before + 8; }))
          << descriptors() << " descriptors, not " << before;
    }
  });
}

TEST(IdleConnections, ReadsTimeoutFromEnvironment) {
  ::setenv(idle_variable, "7", 1);
  EXPECT_EQ(idle_of_environment(60s), 7s);
  ::setenv(idle_variable, "0", 1);
  EXPECT_EQ(idle_of_environment(60s), 0s);
  for (const char* nonsense : {"", "soon", "-1", "7s", "99999999"}) {
    ::setenv(idle_variable, nonsense, 1);
    EXPECT_EQ(idle_of_environment(60s), 60s) << nonsense;
  }
  ::unsetenv(idle_variable);
  EXPECT_EQ(idle_of_environment(60s), 60s);
}

}  // namespace
}  // namespace mobula::internal::exchange
