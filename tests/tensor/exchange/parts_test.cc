// Large tensors that readers pull in chunks, keep, and relay.
#include "tensor/exchange/exchange_process.h"

namespace mobula::internal::exchange {
namespace {

constexpr std::uint64_t chunk_bytes = 64 << 10;
constexpr std::size_t whole = 32 * chunk_bytes - 17;

class Parts : public ::testing::Test {
 protected:
  // On a separate node and machine.
  static Member member(std::uint64_t number, std::uint64_t cuts_by = chunk_bytes) {
    return {.number = number,
            .node = number,
            .own_host = "host" + std::to_string(number),
            .chunk_bytes = cuts_by};
  }
  Process process(std::uint64_t number, std::uint64_t cuts_by = chunk_bytes) {
    return {directory_.path(), member(number, cuts_by)};
  }
  static RefRecord by_tcp(Process& maker, std::uint64_t object) {
    return maker.register_tensor(object, whole, true, {.direct = true, .named = DirectPath::tcp});
  }
  static std::uint64_t bytes_from(const PullResult& arrival, std::uint64_t process) {
    std::uint64_t bytes = 0;
    for (const Share& each : arrival.shares)
      bytes += each.holder == ProcessId::of(process) ? each.bytes : 0;
    return bytes;
  }
  static std::uint64_t all_bytes(const PullResult& arrival) {
    std::uint64_t bytes = 0;
    for (const Share& each : arrival.shares) bytes += each.bytes;
    return bytes;
  }

  Directory directory_;
};

TEST_F(Parts, Reader_RelaysItsChunks) {
  Process maker = process(1), first = process(2), second = process(3);
  const auto ref = by_tcp(maker, 7);
  const auto one = first.pull(ref);
  ASSERT_TRUE(is_numbered(one, 7, whole));
  EXPECT_EQ(bytes_from(one, 1), whole);
  EXPECT_TRUE(std::get<Elements>(one.outcome).encrypted);
  EXPECT_FALSE(one.fell_back);
  const auto two = second.pull(ref);
  ASSERT_TRUE(is_numbered(two, 7, whole));
  EXPECT_EQ(all_bytes(two), whole);
  EXPECT_GT(bytes_from(two, 2), whole / 2) << "the maker gives what it has nothing else to do for";
  EXPECT_EQ(two.path, DirectPath::tcp);
  EXPECT_FALSE(two.fell_back);
  EXPECT_TRUE(two.refusals.empty()) << two.refusals.front();
}

// Encryption is reported per sender, because trust is a property of a pair of processes.
TEST_F(Parts, ReportsEncryptionPerSender) {
  Process maker = process(1);
  Member outside = member(2), inside = member(3);
  Process first(directory_.path(), outside);
  inside.fabric = "rack";
  Process second(directory_.path(), inside);
  Member friendly = member(4);
  friendly.fabric = "rack";
  Process third(directory_.path(), friendly);
  const auto ref = by_tcp(maker, 7);
  const auto one = second.pull(ref);
  ASSERT_TRUE(is_numbered(one, 7, whole));
  EXPECT_TRUE(std::get<Elements>(one.outcome).encrypted);
  const auto two = third.pull(ref);
  ASSERT_TRUE(is_numbered(two, 7, whole));
  ASSERT_GT(bytes_from(two, 3), 0u);
  for (const Share& each : two.shares) EXPECT_EQ(each.encrypted, each.holder == ProcessId::of(1));
  EXPECT_FALSE(std::get<Elements>(two.outcome).encrypted) << "some of it was not";
  const auto kept = first.pull(ref);
  ASSERT_TRUE(is_numbered(kept, 7, whole));
  EXPECT_TRUE(std::get<Elements>(kept.outcome).encrypted);
}

TEST_F(Parts, ConcurrentReaders_RelayChunks) {
  Process maker = process(1);
  std::vector<std::unique_ptr<Process>> readers;
  for (std::uint64_t i = 2; i <= 5; ++i)
    readers.push_back(std::make_unique<Process>(directory_.path(), member(i)));
  const auto ref = by_tcp(maker, 7);
  for (const auto& each : readers) each->exchange().pull(1000, {ref}, true);
  std::uint64_t by_maker = 0;
  std::vector<PullResult> kept;
  for (const auto& each : readers) {
    kept.push_back(each->wait_for(1).front());
    EXPECT_TRUE(is_numbered(kept.back(), 7, whole));
    by_maker += bytes_from(kept.back(), 1);
  }
  EXPECT_LT(by_maker, 3 * whole) << "of four times";
}

TEST_F(Parts, ReaderReleasedReplica_ProducerSends) {
  Process maker = process(1), first = process(2), second = process(3);
  const auto ref = by_tcp(maker, 7);
  auto one = first.pull(ref);
  const std::weak_ptr<const void> memory = std::get<Elements>(one.outcome).owner;
  one = {};
  EXPECT_TRUE(memory.expired()) << "relayed chunks do not keep the copy";
  const auto two = second.pull(ref);
  ASSERT_TRUE(is_numbered(two, 7, whole));
  EXPECT_EQ(bytes_from(two, 1), whole);
  auto again = first.pull(ref);
  EXPECT_TRUE(is_numbered(again, 7, whole)) << "it may pull it again, also from the other reader";
  EXPECT_GT(bytes_from(again, 3), 0u);
}

TEST_F(Parts, ReaderExited_ProducerTakesOver) {
  Process maker = process(1), second = process(3);
  const auto ref = by_tcp(maker, 7);
  PullResult kept;
  {
    Process first = process(2);
    kept = first.pull(ref);
    second.exchange().pull(1000, {ref}, false);
    first.end();
  }
  const auto two = second.wait_for(1).front();
  ASSERT_TRUE(is_numbered(two, 7, whole));
  EXPECT_EQ(all_bytes(two), whole);
  EXPECT_FALSE(two.fell_back) << "by the way that was named";
}

// Replicas of readers do not keep the producer's memory alive.
TEST_F(Parts, FreesProducerMemoryWhileReadersKeepIt) {
  Process maker = process(1), first = process(2);
  const auto ref = by_tcp(maker, 7);
  const auto kept = first.pull(ref);
  ASSERT_TRUE(is_numbered(kept, 7, whole));
  maker.exchange().unregister(ref.object);
  EXPECT_TRUE(soon([&] { return !maker.is_alive(7); }));
  EXPECT_TRUE(is_numbered(kept, 7, whole));
}

TEST_F(Parts, OtherChunkSize_TransfersWhole) {
  Process maker = process(1), first = process(2, chunk_bytes / 2), second = process(3, 0);
  const auto ref = by_tcp(maker, 7);
  for (Process* each : {&first, &second}) {
    const auto arrival = each->pull(ref);
    EXPECT_TRUE(is_numbered(arrival, 7, whole));
    EXPECT_TRUE(arrival.shares.empty());
  }
}

TEST_F(Parts, SmallTensor_TransfersWhole) {
  Process maker = process(1), first = process(2);
  const auto ref = maker.register_tensor(7, 2 * chunk_bytes - 1, true,
                                         {.direct = true, .named = DirectPath::tcp});
  EXPECT_TRUE(first.pull(ref).shares.empty());
}

// A redirect by the producer does not authenticate the replica holder.
TEST_F(Parts, IgnoresReplicaHolderWithRevokedKey) {
  Process maker = process(1);
  Member revoked = member(2), honest = member(3);
  revoked.admitted_as = "a key";
  honest.revoked_keys = {"a key"};
  Process first(directory_.path(), revoked), second(directory_.path(), honest);
  const auto ref = by_tcp(maker, 7);
  const auto kept = first.pull(ref);
  ASSERT_TRUE(is_numbered(kept, 7, whole));
  const auto two = second.pull(ref);
  ASSERT_TRUE(is_numbered(two, 7, whole));
  EXPECT_EQ(bytes_from(two, 1), whole);
}

TEST_F(Parts, ConcurrentPullsOfOneTensor_KeepOneReplica) {
  Process maker = process(1), first = process(2), second = process(3);
  const auto ref = by_tcp(maker, 7);
  first.exchange().pull(1000, {ref}, true);
  first.exchange().pull(1001, {ref}, true);
  auto both = first.wait_for(2);
  for (const PullResult& each : both) EXPECT_TRUE(is_numbered(each, 7, whole));
  EXPECT_TRUE(is_numbered(second.pull(ref), 7, whole));
  both.clear();
  const auto again = first.pull(ref);
  EXPECT_TRUE(is_numbered(again, 7, whole));
  EXPECT_TRUE(is_numbered(second.pull(ref), 7, whole));
}

TEST_F(Parts, CancelledPulls_KeepNoReplica) {
  Process maker = process(1), first = process(2), second = process(3);
  const auto ref = by_tcp(maker, 7);
  for (std::uint64_t request = 1000; request < 1020; ++request) {
    first.exchange().pull(request, {ref}, true);
    first.exchange().cancel(request);
  }
  const auto two = second.pull(ref);
  ASSERT_TRUE(is_numbered(two, 7, whole));
  EXPECT_TRUE(is_numbered(first.pull(ref), 7, whole));
}

TEST_F(Parts, StoredTensor_UsesNoChunks) {
  Process maker = process(1), first = process(2), second = process(3);
  const auto ref = maker.register_tensor(
      7, whole, true, {.direct = true, .named = DirectPath::tcp, .allow_fallback = true});
  const auto kept = first.pull(ref);
  ASSERT_TRUE(is_numbered(kept, 7, whole));
  maker.exchange().evacuate();
  EXPECT_TRUE(soon([&] { return maker.stored() == 1; }));
  EXPECT_TRUE(std::holds_alternative<InStore>(second.pull(ref).outcome));
}

TEST_F(Parts, Evacuation_WithdrawsReplicas) {
  Process maker = process(1), first = process(2), second = process(3);
  const auto ref = by_tcp(maker, 7);
  const auto kept = first.pull(ref);
  ASSERT_TRUE(is_numbered(kept, 7, whole));
  first.exchange().evacuate();
  EXPECT_EQ(first.stored(), 0u) << "the producer has it";
  EXPECT_TRUE(is_numbered(second.pull(ref), 7, whole));
}

}  // namespace
}  // namespace mobula::internal::exchange
