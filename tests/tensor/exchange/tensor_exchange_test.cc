// Tensor exchanges between simulated processes: each has its own thread and sockets and uses the
// real protocol. Tests with real processes are in tests/e2e.
#include "tensor/exchange/exchange_process.h"

namespace mobula::internal::exchange {
namespace {

using ::testing::HasSubstr;

class TensorExchangeTest : public ::testing::Test {
 protected:
  TensorExchangeTest() {
    std::string directory =
        std::filesystem::temp_directory_path().string() + "/mobula-exchange-XXXXXX";
    MOBULA_CHECK(::mkdtemp(directory.data()) != nullptr, "mkdtemp");
    directory_ = directory;
  }
  ~TensorExchangeTest() override { std::filesystem::remove_all(directory_); }
  Process process(Member member) { return {directory_, member}; }

  std::string directory_;
};

constexpr std::size_t size = 3'000'001;

TEST_F(TensorExchangeTest, MapsSharedMemoryInPlace) {
  Process one = process({1});
  Process two = process({2});
  const auto arrival = two.pull(one.register_tensor(7, size, true));
  EXPECT_TRUE(is_numbered(arrival, 7, size));
  EXPECT_EQ(arrival.path, DirectPath::shm);
  EXPECT_TRUE(std::get<Elements>(arrival.outcome).in_place);
  EXPECT_EQ(arrival.holder, ProcessId::of(1));
}

TEST_F(TensorExchangeTest, CopiesOtherMemory) {
  Process one = process({1});
  Process two = process({2});
  const auto arrival = two.pull(one.register_tensor(7, size, false));
  EXPECT_TRUE(is_numbered(arrival, 7, size));
  EXPECT_FALSE(std::get<Elements>(arrival.outcome).in_place);
}

TEST_F(TensorExchangeTest, Tcp_IsEncrypted) {
  Process one = process({1});
  Process two = process({2, 2});
  const auto arrival =
      two.pull(one.register_tensor(7, size, true, {.direct = true, .named = DirectPath::tcp}));
  EXPECT_TRUE(is_numbered(arrival, 7, size));
  EXPECT_EQ(arrival.path, DirectPath::tcp);
  EXPECT_TRUE(std::get<Elements>(arrival.outcome).encrypted);
}

TEST_F(TensorExchangeTest, TransfersManyInBothDirections) {
  Process one = process({1});
  Process two = process({2});
  RefRecords from_one, from_two;
  for (std::uint64_t i = 0; i < 20; ++i) {
    from_one.push_back(one.register_tensor(100 + i, 10'000 + i, i % 2 == 0));
    from_two.push_back(two.register_tensor(200 + i, 20'000 + i, i % 2 == 0));
  }
  two.exchange().pull(1000, from_one, true);
  one.exchange().pull(1000, from_two, true);
  for (const auto& arrival : two.wait_for(20)) {
    const std::uint64_t i = arrival.object.bits().low - 100;
    EXPECT_TRUE(is_numbered(arrival, 100 + i, 10'000 + i));
  }
  EXPECT_EQ(one.wait_for(20).size(), 20u);
}

TEST_F(TensorExchangeTest, PulledProcess_PullsBack) {
  Process one = process({1});
  Process two = process({2});
  EXPECT_TRUE(is_numbered(two.pull(one.register_tensor(7, size, true)), 7, size));
  EXPECT_TRUE(is_numbered(one.pull(two.register_tensor(8, size, true)), 8, size));
  EXPECT_TRUE(is_numbered(two.pull(one.register_tensor(9, size, false)), 9, size));
}

TEST_F(TensorExchangeTest, RefWithOtherHolder_FailsAtOnce) {
  Process one = process({1});
  Process two = process({2});
  auto ref = one.register_tensor(7, size, true);
  ref.owner = ProcessId::of(99);
  EXPECT_TRUE(std::holds_alternative<Failure>(two.pull(ref).outcome));
  ref.owner = {};
  EXPECT_TRUE(std::holds_alternative<Failure>(two.pull(ref).outcome));
}

TEST_F(TensorExchangeTest, SocketFileMissing_UsesAddress) {
  Process one = process({1});
  Process two = process({2});
  const auto ref = one.register_tensor(7, size, false);
  std::filesystem::remove(ref.tensor->holder->local);
  EXPECT_TRUE(is_numbered(two.pull(ref), 7, size));
}

TEST_F(TensorExchangeTest, KeepsMemoryUntilUnregistered) {
  Process one = process({1});
  Process two = process({2});
  const auto ref = one.register_tensor(7, size, true);
  EXPECT_TRUE(is_numbered(two.pull(ref), 7, size));
  EXPECT_TRUE(one.is_alive(7));
  one.exchange().unregister(ObjectId::of(7));
  EXPECT_TRUE(soon([&] { return !one.is_alive(7); }));
  const auto late = two.pull(ref);
  ASSERT_TRUE(std::holds_alternative<Failure>(late.outcome));
  EXPECT_THAT(late.refusals, ::testing::Contains(HasSubstr("not there any more")));
}

// Three tensors together exceed the limit on bytes in transit, and so does each of them alone.
TEST_F(TensorExchangeTest, MoreThanReceiveBudget_StillArrives) {
  belongs_to(Part::budget, Column::shm, Proof::real);
  belongs_to(Part::budget, Column::tcp, Proof::real);
  Process one = process({1});
  for (const std::uint64_t budget : {std::uint64_t{4'000'000}, std::uint64_t{1'000'000}}) {
    for (const auto way : {DirectPath::shm, DirectPath::tcp}) {
      Process two = process({.number = 2, .receive_bytes = budget});
      const TransportPreference preference{.direct = true, .named = way};
      RefRecords refs;
      for (std::uint64_t object = 7; object < 10; ++object)
        refs.push_back(one.register_tensor(object, size, false, preference));
      two.exchange().pull(1000, {one.register_tensor(20, size, false, preference)}, false);
      two.exchange().pull(1001, refs, true);
      for (const PullResult& each : two.wait_for(4)) {
        EXPECT_TRUE(is_numbered(each, each.object.bits().low, size));
        EXPECT_EQ(each.path, way);
      }
    }
  }
}

TEST_F(TensorExchangeTest, NamedPath_IsStrict) {
  belongs_to(Part::strict, Column::nccl, Proof::real);
  Process one = process({1});
  Process two = process({2});
  const auto arrival =
      two.pull(one.register_tensor(7, size, true, {.direct = true, .named = DirectPath::nccl}));
  ASSERT_TRUE(std::holds_alternative<Failure>(arrival.outcome));
  EXPECT_THAT(arrival.refusals, ::testing::Contains(HasSubstr("nccl: ")));
  const TransportPreference with_others{
      .direct = true, .named = DirectPath::nccl, .allow_fallback = true};
  EXPECT_TRUE(is_numbered(two.pull(one.register_tensor(8, size, true, with_others)), 8, size));
}

TEST_F(TensorExchangeTest, StoredTensor_IsReadFromStore) {
  Process one = process({1});
  Process two = process({2});
  const auto ref = one.register_tensor(7, size, true);
  auto by_store = ref;
  by_store.tensor.edit().preference.named = DirectPath::store;
  EXPECT_TRUE(std::holds_alternative<InStore>(two.pull(by_store).outcome));
  EXPECT_EQ(one.stored(), 1u);
  EXPECT_TRUE(std::holds_alternative<InStore>(two.pull(ref).outcome)) << "also for a later reader";
  EXPECT_TRUE(one.is_alive(7)) << "the reader in place still has it";
  one.exchange().unregister(ObjectId::of(7));
  EXPECT_TRUE(soon([&] { return !one.is_alive(7); }));
}

TEST_F(TensorExchangeTest, Evacuation_StoresAllTensors) {
  Process one = process({1});
  Process two = process({2});
  const auto first = one.register_tensor(7, size, true);
  const auto second = one.register_tensor(8, size, false);
  one.exchange().evacuate();
  EXPECT_TRUE(soon([&] { return one.stored() == 2; }));
  EXPECT_TRUE(std::holds_alternative<InStore>(two.pull(first).outcome));
  one.end();
  EXPECT_TRUE(std::holds_alternative<InStore>(two.pull(second).outcome)) << "the holder has exited";
}

TEST_F(TensorExchangeTest, HolderExits_TensorIsInStore) {
  Process one = process({1});
  Process two = process({2});
  Process three = process({3});
  const auto ref = one.register_tensor(7, size, true);
  EXPECT_TRUE(is_numbered(two.pull(ref), 7, size));
  const auto seen = two.pull(one.register_tensor(8, size, true));
  one.end();
  EXPECT_TRUE(is_numbered(seen, 8, size)) << "memory that is read in place stays";
  EXPECT_TRUE(std::holds_alternative<InStore>(two.pull(ref).outcome));
  EXPECT_TRUE(std::holds_alternative<InStore>(three.pull(ref).outcome));
}

TEST_F(TensorExchangeTest, CancelledPull_DoesNotArrive) {
  Process one = process({1});
  Process two = process({2});
  const auto ref = one.register_tensor(7, size, false);
  const auto is_first = [&](std::uint64_t request) {
    two.exchange().pull(request, {ref}, false);
    two.exchange().cancel(request);
    const auto other = two.pull(ref);
    EXPECT_TRUE(is_numbered(other, 7, size));
    if (other.request != request) return false;
    EXPECT_NE(two.wait_for(1).front().request, request);
    return true;
  };
  // A descheduled test thread can let the other request arrive first.
  std::uint64_t request = 500;
  while (request < 520 && is_first(request)) ++request;
  EXPECT_LT(request, 520u);
}

TEST_F(TensorExchangeTest, RejectsOtherJobsAndExpiredTickets) {
  Process one = process({1});
  const auto ref = one.register_tensor(7, size, true);
  for (const Member& member : {Member{2, 1, 9}, Member{3, 2, 9}, Member{4, 1, 1, true}}) {
    Process stranger = process(member);
    const auto arrival = stranger.pull(ref);
    EXPECT_FALSE(std::holds_alternative<Elements>(arrival.outcome));
    EXPECT_THAT(arrival.refusals, ::testing::Contains(HasSubstr("the peer rejects this process")))
        << "not by silence";
  }
  Process two = process({2});
  EXPECT_TRUE(is_numbered(two.pull(ref), 7, size)) << "it goes on";
}

TEST_F(TensorExchangeTest, RejectsReplyFromImpostor) {
  Process one = process({1});
  Process impostor = process({2});
  Process three = process({3});
  auto ref = one.register_tensor(7, size, true);
  (void)impostor.register_tensor(7, size,
                                 true);  // the same object id, with other bytes in another process
  ref.tensor.edit().holder.edit().local = impostor.exchange().self()->local;
  ref.tensor.edit().holder.edit().address.clear();
  const auto arrival = three.pull(ref);
  EXPECT_FALSE(std::holds_alternative<Elements>(arrival.outcome));
  EXPECT_THAT(arrival.refusals,
              ::testing::Contains(HasSubstr("another process than the expected one")));
}

TEST_F(TensorExchangeTest, EvictedFromStore_PullsFromHolder) {
  Process one = process({1});
  Process two = process({2});
  const auto ref = one.register_tensor(
      7, size, true, {.direct = true, .named = DirectPath::store, .allow_fallback = true});
  EXPECT_TRUE(std::holds_alternative<InStore>(two.pull(ref).outcome));
  EXPECT_EQ(one.stored(), 1u);
  one.exchange().register_again(ref.object);
  auto any = ref;
  any.tensor.edit().preference = {.direct = true};
  EXPECT_TRUE(is_numbered(two.pull(any), 7, size));
}

TEST_F(TensorExchangeTest, SameFabric_IsNotEncrypted) {
  for (const auto& [fabric, sealed] :
       {std::pair("a", false), std::pair("b", true), std::pair("", true)}) {
    Process one = process({.number = 1, .node = 1, .fabric = "a"});
    Process two = process({.number = 2, .node = 2, .fabric = fabric});
    const auto ref =
        one.register_tensor(7, size, false, {.direct = true, .named = DirectPath::tcp});
    const auto arrival = two.pull(ref);
    ASSERT_TRUE(is_numbered(arrival, 7, size)) << fabric;
    EXPECT_EQ(std::get<Elements>(arrival.outcome).encrypted, sealed) << fabric;
  }
}

TEST_F(TensorExchangeTest, Garbage_EndsOnlyItsConnection) {
  Process one = process({1});
  const auto ref = one.register_tensor(7, size, true);
  auto socket = connect_local(ref.tensor->holder->local);
  ASSERT_TRUE(socket.ok());
  auto thread = LoopThread::start();
  ASSERT_TRUE(thread.ok());
  bool closed = false;
  std::unique_ptr<LocalLink> link;
  ASSERT_TRUE((*thread)
                  ->run([&] {
                    auto opened =
                        LocalLink::open((*thread)->loop(), std::move(*socket),
                                        {.on_frame = [](LocalFrame) {},
                                         .on_closed = [&](const Failure&) { closed = true; }});
                    link = std::move(*opened);
                    (void)link->send(encode(RegionLinkMessage(TensorFrame{
                        PullTensorRequest{1, ObjectId::of(7), DirectPath::shm, size}})));
                  })
                  .ok());
  EXPECT_TRUE(soon([&] {
    bool seen = false;
    (void)(*thread)->run([&] { seen = closed; });
    return seen;
  })) << "an unauthenticated peer is dropped";
  (void)(*thread)->run([&] { link.reset(); });
  Process two = process({2});
  EXPECT_TRUE(is_numbered(two.pull(ref), 7, size));
}

}  // namespace
}  // namespace mobula::internal::exchange
