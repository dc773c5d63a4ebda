// Tensor exchanges with simulated GPUs and with plugins, between simulated processes of one machine
// or of two.
#include "simulated_gpu/calls.h"
#include "simulated_gpu/machine.h"
#include "tensor/exchange/exchange_process.h"

namespace mobula::internal::exchange {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::size_t bytes_of_one = 3'000'001;

std::string uuid_of(std::size_t which) {
  const auto driver = CudaDriver::open();
  MOBULA_CHECK(driver.ok(), "driver");
  return to_string(GpuContext::visible(**driver).value().at(which));
}

std::shared_ptr<GpuDevices> gpu_number(std::size_t which, std::set<std::string> peers = {}) {
  const auto driver = CudaDriver::open();
  MOBULA_CHECK(driver.ok(), "driver");
  const auto visible = GpuContext::visible(**driver);
  MOBULA_CHECK(visible.ok() && which < visible->size(), "devices");
  GpuTerms terms{
      .uuid = to_string((*visible)[which]), .memory_bytes = 256u << 20, .peers = std::move(peers)};
  auto made = std::make_shared<GpuDevices>(std::vector{terms}, [](const std::string&) {});
  EXPECT_TRUE(made->open().ok()) << made->why_none();
  return made;
}

Member with_gpu(std::uint64_t number, std::size_t which, const std::string& host = {},
                bool trusts = false, std::set<std::string> peers = {}) {
  Member member;
  member.number = number;
  member.node = host.empty() ? 1 : number;
  member.own_host = host;
  if (trusts) member.fabric = "rack";
  member.gpus = gpu_number(which, std::move(peers));
  return member;
}

TEST(DeviceExchange, TrustedFabric_UsesNccl) {
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_gpu(1, 0, "a", true));
    Process two(directory.path(), with_gpu(2, 1, "b", true));
    for (std::uint64_t object = 7; object < 10; ++object) {
      const auto arrival = two.pull(one.publish_on_gpu(object, bytes_of_one));
      EXPECT_TRUE(two.is_numbered_here(arrival, object, bytes_of_one));
      EXPECT_EQ(arrival.path, DirectPath::nccl);
      const auto back = one.pull(two.publish_on_gpu(object + 10, bytes_of_one));
      EXPECT_TRUE(one.is_numbered_here(back, object + 10, bytes_of_one));
    }
  });
}

TEST(DeviceExchange, ExchangesChunksInBothDirections) {
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Member first = with_gpu(1, 0), second = with_gpu(2, 1);
    first.step_bytes = second.step_bytes = 256u << 10;
    Process one(directory.path(), first);
    Process two(directory.path(), second);
    const TransportPreference by_nccl{.direct = true, .named = DirectPath::nccl};
    RefRecords from_one, from_two;
    for (std::uint64_t object = 7; object < 10; ++object) {
      from_one.push_back(one.publish_on_gpu(object, bytes_of_one, by_nccl));
      from_two.push_back(two.publish_on_gpu(object + 10, bytes_of_one, by_nccl));
    }
    one.exchange().pull(1000, from_two, false);
    const auto to_two = two.pull_all(from_one);
    const auto to_one = one.wait_for(3);
    for (const PullResult& each : to_two)
      EXPECT_TRUE(two.is_numbered_here(each, each.object.bits().low, bytes_of_one));
    for (const PullResult& each : to_one)
      EXPECT_TRUE(one.is_numbered_here(each, each.object.bits().low, bytes_of_one));
  });
}

TEST(DeviceExchange, MoreThanReceiveBudget_StillArrives) {
  belongs_to(Part::budget, Column::nccl, Proof::simulated);
  belongs_to(Part::budget, Column::cuda_ipc, Proof::simulated);
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Member large = with_gpu(1, 0), small = with_gpu(2, 1);
    large.gpus = gpu_number(0, {uuid_of(1)});
    small.gpus = gpu_number(1, {uuid_of(0)});
    small.receive_bytes = 1'000'000;
    Process one(directory.path(), large);
    Process two(directory.path(), small);
    for (const auto way : {DirectPath::nccl, DirectPath::cuda_ipc}) {
      RefRecords refs;
      const std::uint64_t first = way == DirectPath::nccl ? 7 : 17;
      for (std::uint64_t object = first; object < first + 3; ++object) {
        refs.push_back(one.publish_on_gpu(object, bytes_of_one, {.direct = true, .named = way}));
      }
      for (const PullResult& each : two.pull_all(refs)) {
        EXPECT_TRUE(two.is_numbered_here(each, each.object.bits().low, bytes_of_one));
        EXPECT_EQ(each.path, way);
      }
    }
  });
}

TEST(DeviceExchange, UntrustedFabric_StagesEncrypted) {
  belongs_to(Part::untrusted, Column::nccl, Proof::simulated);
  belongs_to(Part::untrusted, Column::staged, Proof::simulated);
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_gpu(1, 0, "a", true));
    Process two(directory.path(), with_gpu(2, 1, "b", false));
    const auto arrival = two.pull(one.publish_on_gpu(7, bytes_of_one));
    EXPECT_TRUE(two.is_numbered_here(arrival, 7, bytes_of_one));
    EXPECT_EQ(arrival.path, DirectPath::staged);
    EXPECT_TRUE(std::get<Elements>(arrival.outcome).encrypted);
    EXPECT_THAT(arrival.refusals, Contains("nccl: fabric not trusted"));
    const auto strict =
        two.pull(one.publish_on_gpu(8, bytes_of_one, {.direct = true, .named = DirectPath::nccl}));
    EXPECT_TRUE(std::holds_alternative<Failure>(strict.outcome));
  });
}

TEST(DeviceExchange, SameGpu_MapsInPlace) {
  const SimulatedMachine machine("count=1");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_gpu(1, 0));
    Process two(directory.path(), with_gpu(2, 0));
    const auto arrival = two.pull(one.publish_on_gpu(7, bytes_of_one));
    EXPECT_TRUE(two.is_numbered_here(arrival, 7, bytes_of_one));
    EXPECT_EQ(arrival.path, DirectPath::cuda_ipc);
    EXPECT_TRUE(std::get<Elements>(arrival.outcome).in_place);
    const auto strict =
        two.pull(one.publish_on_gpu(8, bytes_of_one, {.direct = true, .named = DirectPath::nccl}));
    EXPECT_TRUE(std::holds_alternative<Failure>(strict.outcome));
    EXPECT_THAT(strict.refusals, Contains(HasSubstr("share GPU-")));
  });
}

TEST(DeviceExchange, UsesDeviceMemoryIfReachableElseHost) {
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    const auto first = with_gpu(1, 0);
    Process one(directory.path(), first);
    const std::string of_one = first.gpus->devices()[0].uuid;
    {
      Process two(directory.path(), with_gpu(2, 1, "", false, {of_one}));
      const auto arrival = two.pull(one.publish_on_gpu(7, bytes_of_one));
      EXPECT_TRUE(two.is_numbered_here(arrival, 7, bytes_of_one));
      EXPECT_EQ(arrival.path, DirectPath::cuda_ipc);
    }
    Process three(directory.path(), with_gpu(3, 1));
    const auto arrival = three.pull(
        one.publish_on_gpu(8, bytes_of_one, {.direct = true, .named = DirectPath::cuda_ipc}));
    ASSERT_TRUE(std::holds_alternative<Failure>(arrival.outcome)) << "a named path is strict";
    EXPECT_THAT(arrival.refusals, Contains(HasSubstr("cannot reach each other")));
  });
}

TEST(DeviceExchange, TransfersEmptyTensorOnEveryPath) {
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_gpu(1, 0)), two(directory.path(), with_gpu(2, 1));
    std::uint64_t object = 7;
    for (const auto path :
         {DirectPath::nccl, DirectPath::shm, DirectPath::tcp, DirectPath::staged}) {
      const auto arrival =
          two.pull(one.publish_on_gpu(++object, 0, {.direct = true, .named = path}));
      const auto* elements = std::get_if<Elements>(&arrival.outcome);
      ASSERT_NE(elements, nullptr) << to_string(path);
      EXPECT_TRUE(elements->bytes.empty() && elements->device != on_host);
      EXPECT_EQ(arrival.path, path);
    }
  });
}

// A graph capture of a user thread stays intact, and pulls complete.
TEST(DeviceExchange, HolderCapturesGraph_TransfersOnEveryPath) {
  for (const Column each : {Column::staged, Column::cuda_ipc, Column::nccl})
    belongs_to(Part::capturing_holder, each, Proof::simulated);
  const SimulatedMachine machine("count=2 late_us=100");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    const auto holds = with_gpu(1, 0, "a", true);
    Process one(directory.path(), holds), two(directory.path(), with_gpu(2, 1, "b", true)),
        three(directory.path(), with_gpu(3, 0, "a", true));
    RefRecords refs;
    for (std::uint64_t object = 7; object < 13; ++object) {
      const auto path = object % 2 == 0 ? DirectPath::tcp : DirectPath::nccl;
      refs.push_back(one.publish_on_gpu(object, bytes_of_one, {.direct = true, .named = path}));
    }
    const auto near = one.publish_on_gpu(13, bytes_of_one);
    // NCCL cannot open a communicator during a capture in the default mode.
    const auto first =
        two.pull(one.publish_on_gpu(14, bytes_of_one, {.direct = true, .named = DirectPath::nccl}));
    EXPECT_EQ(first.path, DirectPath::nccl);
    // As user code does: a separate stream, in CUDA's default capture mode.
    const auto context = holds.gpus->devices()[0].context;
    cuda_abi::Stream stream = nullptr;
    {
      const GpuContext::Current current(*context);
      ASSERT_EQ(context->call().stream_create(&stream, cuda_abi::stream_non_blocking, 0), 0);
      ASSERT_EQ((simulated_call<int(cuda_abi::Stream, int)>("cuStreamBeginCapture_v2")(stream, 0)),
                0);
    }
    for (const RefRecord& ref : refs) {
      const auto arrival = two.pull(ref);
      const auto* elements = std::get_if<Elements>(&arrival.outcome);
      EXPECT_TRUE(elements != nullptr && elements->device != on_host)
          << ref.tensor->preference.named.has_value();
    }
    EXPECT_EQ(three.pull(near).path, DirectPath::cuda_ipc);
    const GpuContext::Current current(*context);
    void* graph = nullptr;
    EXPECT_EQ((simulated_call<int(cuda_abi::Stream, void**)>("cuStreamEndCapture")(stream, &graph)),
              0);
    EXPECT_NE(graph, nullptr);
  });
}

TEST(DeviceExchange, NcclOpensDuringCapture_FailsWithAdvice) {
  const SimulatedMachine machine("count=2 late_us=100");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    const auto holds = with_gpu(1, 0, "a", true);
    Process one(directory.path(), holds), two(directory.path(), with_gpu(2, 1, "b", true));
    const TransportPreference by_nccl{.direct = true, .named = DirectPath::nccl};
    const RefRecords refs{one.publish_on_gpu(7, bytes_of_one, by_nccl),
                          one.publish_on_gpu(8, bytes_of_one, by_nccl)};
    const auto context = holds.gpus->devices()[0].context;
    const auto pull_during_capture = [&](const RefRecord& ref, int mode, int& end) {
      cuda_abi::Stream stream = nullptr;
      void* graph = nullptr;
      {
        const GpuContext::Current current(*context);
        EXPECT_EQ(context->call().stream_create(&stream, cuda_abi::stream_non_blocking, 0), 0);
        EXPECT_EQ(
            (simulated_call<int(cuda_abi::Stream, int)>("cuStreamBeginCapture_v2")(stream, mode)),
            0);
      }
      const auto arrival = two.pull(ref);
      const GpuContext::Current current(*context);
      end = simulated_call<int(cuda_abi::Stream, void**)>("cuStreamEndCapture")(stream, &graph);
      return arrival;
    };
    constexpr int default_mode = 0, thread_local_mode = 1, invalidated = 901;
    int end = 0;
    const auto broken = pull_during_capture(refs[0], default_mode, end);
    EXPECT_EQ(end, invalidated);
    ASSERT_TRUE(std::holds_alternative<Failure>(broken.outcome));
    EXPECT_THAT(std::get<Failure>(broken.outcome).text, HasSubstr("thread-local mode"));
    EXPECT_EQ(pull_during_capture(refs[1], thread_local_mode, end).path, DirectPath::nccl);
    EXPECT_EQ(end, 0);
  });
}

TEST(DeviceExchange, NoGpu_ArrivesInHostMemoryWithReason) {
  const SimulatedMachine machine("count=1");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_gpu(1, 0));
    Process two(directory.path(), {2});
    const auto arrival = two.pull(one.publish_on_gpu(7, bytes_of_one));
    EXPECT_TRUE(is_numbered(arrival, 7, bytes_of_one));
    EXPECT_EQ(arrival.path, DirectPath::staged);
    EXPECT_THAT(arrival.refusals, Contains(HasSubstr("it is in host memory")));
  });
}

TEST(DeviceExchange, OutOfMemory_FailsWithNumbers) {
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    const Directory directory;
    Process one(directory.path(), with_gpu(1, 0));
    Member small = with_gpu(2, 1);
    Process two(directory.path(), small);
    const auto device_ordinal = two.first_ordinal();
    const auto kept = small.gpus->take(device_ordinal, 250u << 20);
    ASSERT_TRUE(kept.ok());
    const auto arrival =
        two.pull(one.publish_on_gpu(7, 16u << 20, {.direct = true, .named = DirectPath::nccl}));
    ASSERT_TRUE(std::holds_alternative<Failure>(arrival.outcome));
    EXPECT_THAT(arrival.refusals, Contains(HasSubstr("bytes of device memory")));
    const auto after =
        two.pull(one.publish_on_gpu(8, bytes_of_one, {.direct = true, .named = DirectPath::nccl}));
    EXPECT_TRUE(two.is_numbered_here(after, 8, bytes_of_one)) << "it cost a channel, no more";
  });
}

TEST(DeviceExchange, NcclMissing_UsesAnotherPathWithReason) {
  belongs_to(Part::missing, Column::nccl, Proof::simulated);
  belongs_to(Part::strict, Column::nccl, Proof::simulated);
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    ::setenv("MOBULA_NCCL_LIBRARY", "libno-such-nccl.so", 1);
    const Directory directory;
    Process one(directory.path(), with_gpu(1, 0));
    Process two(directory.path(), with_gpu(2, 1));
    const auto arrival = two.pull(one.publish_on_gpu(
        7, bytes_of_one, {.direct = true, .named = DirectPath::nccl, .allow_fallback = true}));
    EXPECT_TRUE(two.is_numbered_here(arrival, 7, bytes_of_one));
    EXPECT_EQ(arrival.path, DirectPath::staged);
    EXPECT_THAT(arrival.refusals, Contains(HasSubstr("libno-such-nccl.so")));
    const auto strict =
        two.pull(one.publish_on_gpu(8, bytes_of_one, {.direct = true, .named = DirectPath::nccl}));
    EXPECT_TRUE(std::holds_alternative<Failure>(strict.outcome));
    EXPECT_THAT(strict.refusals, Contains(HasSubstr("libno-such-nccl.so")));
  });
}

// A plugin carries host bytes; between machines only if both trust the fabric.
class PluginExchange : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string file = std::string(PLUGIN_DIR) + "/mobula_transport_" + GetParam() + ".so";
    if (::access(file.c_str(), R_OK) != 0)
      GTEST_SKIP() << GetParam() << " was not installed where this was built";
    plugin_ = file;
    preference_ = {.direct = true,
                   .named = std::string(GetParam()) == "gloo" ? DirectPath::gloo : DirectPath::ucx};
  }
  Member member(std::uint64_t number, bool trusts) {
    Member made;
    made.number = made.node = number;
    made.own_host = std::to_string(number);
    if (trusts) made.fabric = "rack";
    made.plugins = plugin_;
    return made;
  }

  Directory directory_;
  void proves(Part part) const {
    belongs_to(part, std::string(GetParam()) == "gloo" ? Column::gloo : Column::ucx, Proof::real);
  }

  std::string plugin_;
  TransportPreference preference_;
};

TEST_P(PluginExchange, PluginMissing_FailsOrFallsBack) {
  proves(Part::missing);
  proves(Part::strict);
  Process one(directory_.path(), member(1, true));
  plugin_ = "/nowhere/mobula_transport_" + std::string(GetParam()) + ".so";
  Process two(directory_.path(), member(2, true));
  const auto strict = two.pull(one.register_tensor(7, bytes_of_one, true, preference_));
  EXPECT_TRUE(std::holds_alternative<Failure>(strict.outcome));
  EXPECT_THAT(strict.refusals, Contains(HasSubstr("/nowhere/mobula_transport_")));
  TransportPreference or_another = preference_;
  or_another.allow_fallback = true;
  const auto arrival = two.pull(one.register_tensor(8, bytes_of_one, true, or_another));
  EXPECT_TRUE(is_numbered(arrival, 8, bytes_of_one));
  EXPECT_EQ(arrival.path, DirectPath::tcp);
  EXPECT_THAT(arrival.refusals, Contains(HasSubstr("/nowhere/mobula_transport_")));
}

// No variable names the plugin: it is found in the directory of installed plugins, and the first
// transfer opens it on both sides.
TEST_P(PluginExchange, OpensInstalledPluginWhenNamed) {
  const std::string file = plugin_;
  const auto is_loaded = [&] {
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr) ::dlclose(library);
    return library != nullptr;
  };
  const bool loaded_before = is_loaded();
  plugin_.clear();
  ::setenv("MOBULA_PLUGIN_FOLDER", PLUGIN_DIR, 1);
  Process one(directory_.path(), member(1, true));
  Process two(directory_.path(), member(2, true));
  const auto before = two.pull(one.register_tensor(6, bytes_of_one, true));
  EXPECT_EQ(before.path, DirectPath::tcp);
  EXPECT_EQ(is_loaded(), loaded_before) << "no transfer has named it";
  for (std::uint64_t object = 7; object < 10; ++object) {
    const auto arrival = two.pull(one.register_tensor(object, bytes_of_one, true, preference_));
    EXPECT_TRUE(is_numbered(arrival, object, bytes_of_one));
    EXPECT_EQ(arrival.path, preference_.named);
  }
  EXPECT_TRUE(is_loaded());
  ::unsetenv("MOBULA_PLUGIN_FOLDER");
}

TEST_P(PluginExchange, NamesPackageWhenPluginIsMissing) {
  plugin_.clear();
  ::setenv("MOBULA_PLUGIN_FOLDER", directory_.path().c_str(), 1);
  Process one(directory_.path(), member(1, true));
  Process two(directory_.path(), member(2, true));
  const auto strict = two.pull(one.register_tensor(7, bytes_of_one, true, preference_));
  EXPECT_TRUE(std::holds_alternative<Failure>(strict.outcome));
  EXPECT_THAT(strict.refusals, Contains(HasSubstr(directory_.path() + "; install the package lib" +
                                                  GetParam() + "0")));
  ::unsetenv("MOBULA_PLUGIN_FOLDER");
}

// The test plugin replaces NIXL, which this machine does not have.
TEST(NixlExchange, CarriesByNameAndIsNeverAutomatic) {
  Directory directory;
  const auto member = [](std::uint64_t number) {
    Member made{
        .number = number, .node = number, .own_host = std::to_string(number), .fabric = "rack"};
    made.plugins = std::string(PLUGIN_DIR) + "/mobula_transport_nixl_stub.so";
    return made;
  };
  Process one(directory.path(), member(1));
  Process two(directory.path(), member(2));
  const auto named = two.pull(
      one.register_tensor(7, bytes_of_one, true, {.direct = true, .named = DirectPath::nixl}));
  EXPECT_TRUE(is_numbered(named, 7, bytes_of_one));
  EXPECT_EQ(named.path, DirectPath::nixl);
  EXPECT_EQ(two.pull(one.register_tensor(8, bytes_of_one, true)).path, DirectPath::tcp);
}

TEST_P(PluginExchange, MoreThanReceiveBudget_StillArrives) {
  proves(Part::budget);
  Process one(directory_.path(), member(1, true));
  Member small = member(2, true);
  small.receive_bytes = 1'000'000;
  Process two(directory_.path(), small);
  RefRecords refs;
  for (std::uint64_t object = 7; object < 10; ++object)
    refs.push_back(one.register_tensor(object, bytes_of_one, true, preference_));
  for (const PullResult& each : two.pull_all(refs)) {
    EXPECT_TRUE(is_numbered(each, each.object.bits().low, bytes_of_one));
    EXPECT_EQ(each.path, preference_.named);
  }
}

TEST_P(PluginExchange, CarriesBetweenHostsThatTrustFabric) {
  Process one(directory_.path(), member(1, true));
  Process two(directory_.path(), member(2, true));
  for (std::uint64_t object = 7; object < 12; ++object) {
    const auto arrival = two.pull(one.register_tensor(object, bytes_of_one, true, preference_));
    EXPECT_TRUE(is_numbered(arrival, object, bytes_of_one));
    EXPECT_EQ(arrival.path, preference_.named);
  }
}

TEST_P(PluginExchange, CarriesChunksFromReadersThatTrustFabric) {
  const auto cuts = [&](std::uint64_t number) {
    Member made = member(number, true);
    made.chunk_bytes = 64 << 10;
    return made;
  };
  Process one(directory_.path(), cuts(1));
  Process two(directory_.path(), cuts(2));
  Process three(directory_.path(), cuts(3));
  constexpr std::size_t large = 1'000'001;
  const auto ref = one.register_tensor(7, large, true, preference_);
  const auto kept = two.pull(ref);
  ASSERT_TRUE(is_numbered(kept, 7, large));
  const auto arrival = three.pull(ref);
  ASSERT_TRUE(is_numbered(arrival, 7, large));
  EXPECT_EQ(arrival.path, preference_.named);
  EXPECT_THAT(arrival.shares, Contains(::testing::Field(&Share::holder, ProcessId::of(2))));
}

TEST_P(PluginExchange, RejectsUntrustedFabric) {
  Process one(directory_.path(), member(1, true));
  Process two(directory_.path(), member(2, false));
  const auto arrival = two.pull(one.register_tensor(7, bytes_of_one, true, preference_));
  EXPECT_TRUE(std::holds_alternative<Failure>(arrival.outcome));
  EXPECT_THAT(arrival.refusals, Contains(std::string(GetParam()) + ": fabric not trusted"));
}

INSTANTIATE_TEST_SUITE_P(Each, PluginExchange, ::testing::Values("gloo", "ucx"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace mobula::internal::exchange
