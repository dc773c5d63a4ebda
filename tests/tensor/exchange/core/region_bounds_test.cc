// Limits on the offers and the time that one reader of a process's tensors can use at the expense
// of others.
#include <gtest/gtest.h>

#include <algorithm>

#include "tensor/exchange/core/tensor_exchange_core.h"

namespace mobula::internal::transfer {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t large = 4 << 20;

class RegionBounds : public testing::Test {
 protected:
  RegionBounds() {
    for (std::uint64_t object = 1; object <= 100; ++object)
      step([&] { core.register_tensor(now, ObjectId::of(object), large, 0, out); });
  }

  // Exports complete at once; returns the number of readers that were notified.
  template <class Step>
  std::size_t step(Step act) {
    act();
    std::size_t ready = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const RegionCommand command = out[i];
      if (const auto* exports = std::get_if<OfferTensor>(&command))
        core.exported(now, exports->operation, std::string("ticket"), out);
      if (const auto* unexport = std::get_if<WithdrawOffer>(&command))
        core.ended(now, unexport->operation, std::nullopt, out);
      const auto* send = std::get_if<SendRegions>(&command);
      if (send != nullptr && std::holds_alternative<PullTensorReply>(send->message)) ++ready;
      if (send != nullptr && std::holds_alternative<PullTensorRejected>(send->message))
        refused.push_back(send->to);
    }
    out.clear();
    return ready;
  }
  std::size_t pulls(std::uint64_t reader, std::uint64_t object) {
    return step([&] {
      core.on(now, ProcessId::of(reader),
              PullTensorRequest{++transfer, ObjectId::of(object), DirectPath::shm, large, 0, false},
              out);
    });
  }
  std::size_t takes(std::uint64_t reader, TransferId of) {
    return step([&] { core.on(now, ProcessId::of(reader), PullTensorComplete{of, false}, out); });
  }
  std::size_t pass(Duration span) {
    return step([&] { core.tick(now = now + span, out); });
  }

  TensorExchangeCore core{ProcessId::of(99)};
  Time now = Time::from_ns(1'000'000'000);
  TransferId transfer = 0;
  std::vector<RegionCommand> out;
  std::vector<ProcessId> refused;
};

TEST_F(RegionBounds, OneReader_DoesNotTakeAllOffers) {
  std::size_t ready = 0;
  for (std::uint64_t object = 1; object <= 40; ++object) ready += pulls(1, object);
  EXPECT_EQ(ready, RegionOptions().max_serves_of_peer);
  EXPECT_EQ(pulls(2, 50), 1u) << "other readers are served";
  EXPECT_EQ(takes(1, 1), 1u) << "its next one has its turn when it is done with one";
  EXPECT_TRUE(refused.empty());
}

TEST_F(RegionBounds, StoppedReader_LosesItsOffer) {
  EXPECT_EQ(pulls(1, 7), 1u);
  EXPECT_EQ(pulls(2, 7), 1u);
  EXPECT_EQ(pulls(3, 7), 0u) << "two at a time have a large one";
  ASSERT_TRUE(core.next_deadline());
  EXPECT_EQ(pass(5s), 0u);
  EXPECT_EQ(pass(5s), 1u) << "they have had their time";
  EXPECT_TRUE(refused.empty()) << "and may go on";
  EXPECT_EQ(takes(1, 1), 0u);
  EXPECT_EQ(pulls(4, 7), 1u);
  EXPECT_EQ(core.serves(), 3u) << "of 2, 3 and 4";
  step([&] { core.peer_gone(now, ProcessId::of(2), false, out); });
  EXPECT_EQ(core.serves(), 2u);
}

TEST_F(RegionBounds, LimitsReadersPerChunkAndChunksPerReader) {
  RegionOptions options;
  const std::uint64_t size = 10 * options.chunk_bytes;
  step([&] { core.register_tensor(now, ObjectId::of(500), size, 0, out); });
  const auto ready_replies = [&](std::uint64_t reader, std::uint32_t part) {
    return step([&] {
      core.on(
          now, ProcessId::of(reader),
          PullTensorRequest{++transfer, ObjectId::of(500), DirectPath::tcp, size, 0, true, part},
          out);
    });
  };
  std::size_t ready = 0;
  for (std::uint32_t part = 1; part <= 5; ++part) ready += ready_replies(1, part);
  EXPECT_EQ(ready, options.max_parts_of_peer);
  EXPECT_EQ(ready_replies(2, 1), 0u) << "the first one has it";
  EXPECT_EQ(ready_replies(2, 9), 1u);
  EXPECT_EQ(ready_replies(2, 11), 0u);
  EXPECT_EQ(refused, std::vector{ProcessId::of(2)}) << "there are ten";
  refused.clear();
  EXPECT_GE(pass(options.chunk_offer_quantum), 1u) << "a stopped reader yields its turn";
  EXPECT_EQ(step([&] {
              core.on(now, ProcessId::of(1), PullTensorComplete{2, true}, out);
            }),
            1u)
      << "its next one";
  EXPECT_EQ(ready_replies(3, 2), 0u);
  EXPECT_EQ(refused, std::vector{ProcessId::of(3)}) << "the reader is redirected to a holder";
}

TEST_F(RegionBounds, StoppedReaders_DoNotBlockOthers) {
  std::size_t ready = 0;
  for (std::uint64_t reader = 1; reader <= 8; ++reader) {
    for (std::uint64_t each = 0; each < 8; ++each)
      ready += pulls(reader, 1 + (reader - 1) * 8 + each);
  }
  EXPECT_EQ(ready, RegionOptions().max_serves);
  EXPECT_EQ(pulls(20, 90), 0u);
  EXPECT_GE(pass(10s), 1u) << "their next ones";
  EXPECT_GE(pass(10s), 1u);
  std::size_t after = 0;
  for (std::uint64_t object = 91; object <= 94; ++object) after += pulls(21, object);
  EXPECT_EQ(after, 4u);
  pass(10s);
  EXPECT_TRUE(refused.empty());
  EXPECT_LE(core.serves(), 8u * 8 + 5) << "the limit per reader still holds";
}

TEST_F(RegionBounds, RejectsReaderBeyondLimit) {
  const auto bound = RegionOptions().max_serves_of_peer + RegionOptions().max_waiting_of_peer;
  for (std::size_t i = 0; i < bound; ++i) pulls(1, 1 + i % 100);
  EXPECT_TRUE(refused.empty());
  pulls(1, 1);
  EXPECT_EQ(refused, std::vector{ProcessId::of(1)});
  EXPECT_EQ(pulls(2, 60), 1u);
}

// A reader and its requests to holders.
class RegionParts : public testing::Test {
 protected:
  void pull(std::uint64_t object, std::uint64_t holder) {
    std::vector<TensorRequest> together;
    const std::uint64_t size = 200 * RegionOptions().chunk_bytes;
    for (std::uint32_t part = 1; part <= 200; ++part) {
      together.push_back({.object = ObjectId::of(object),
                          .size_bytes = size,
                          .holders = {ProcessId::of(holder)},
                          .paths = {DirectPath::tcp},
                          .part = part,
                          .keeps = true});
    }
    const auto made = core.pull(now, together, false, out);
    ASSERT_TRUE(made.ok());
    pulls = *made;
  }
  // Requests to one holder since the last call.
  std::vector<PullTensorRequest> pull_requests(std::uint64_t holder) {
    std::vector<PullTensorRequest> all;
    for (const auto& each : out) {
      const auto* send = std::get_if<SendRegions>(&each);
      if (send == nullptr || send->to != ProcessId::of(holder)) continue;
      if (const auto* pull = std::get_if<PullTensorRequest>(&send->message)) all.push_back(*pull);
    }
    out.clear();
    return all;
  }
  template <class Command>
  std::size_t count() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        out, [](const auto& each) { return std::holds_alternative<Command>(each); }));
  }
  PullTensorRejected sends_to(const PullTensorRequest& pull,
                              std::vector<std::uint64_t> replica_holders) {
    PullTensorRejected refused{pull.transfer, RegionRefusal::redirected, {}, 0, {}, {}};
    for (const auto each : replica_holders) refused.others.push_back(ProcessId::of(each));
    return refused;
  }

  static RegionOptions options() {
    RegionOptions all;
    all.max_receive_bytes = std::uint64_t{1} << 40;
    return all;
  }
  TensorExchangeCore core{ProcessId::of(99), options()};
  Time now = Time::from_ns(1'000'000'000);
  std::vector<RegionCommand> out;
  std::vector<RegionPullId> pulls;
};

TEST_F(RegionParts, SilentHolder_BlocksOnlyItsOwnTensors) {
  pull(7, 1);
  EXPECT_EQ(pull_requests(1).size(), RegionOptions().max_pending_parts);
  pull(8, 2);
  EXPECT_EQ(pull_requests(2).size(), RegionOptions().max_pending_parts);
  core.cancel(now, pulls.front(), out);
  EXPECT_EQ(pull_requests(2).size(), 1u) << "the next one has its turn";
}

TEST_F(RegionParts, CancelAll_LeavesNothing) {
  pull(7, 1);
  for (const auto each : pulls) core.cancel(now, each, out);
  EXPECT_EQ(count<PullEnded>(), 200u);
  EXPECT_EQ(core.bytes_reserved(), 0u);
  EXPECT_TRUE(core.is_idle());
}

TEST_F(RegionParts, UnreachableHolder_IsAvoidedForAWhile) {
  pull(7, 1);
  const auto all = pull_requests(1);
  core.on(now, ProcessId::of(1), sends_to(all[0], {5}), out);
  EXPECT_EQ(count<Reach>(), 1u);
  EXPECT_EQ(pull_requests(1).size(), 0u);
  core.tick(now = now + RegionOptions().shim_timeout, out);
  const auto again = pull_requests(1);
  ASSERT_EQ(again.size(), 1u) << "its holder is asked";
  EXPECT_FALSE(again[0].may_redirect);
  core.on(now, ProcessId::of(1), sends_to(all[1], {5}), out);
  EXPECT_EQ(count<Reach>(), 0u) << "the pull is not redirected there";
  EXPECT_EQ(pull_requests(1).size(), 1u);
  core.on(now + RegionOptions().shim_backoff, ProcessId::of(1), sends_to(all[2], {5}), out);
  EXPECT_EQ(count<Reach>(), 1u);
}

TEST_F(RegionParts, CircularRedirects_ReturnToProducer) {
  pull(7, 1);
  auto pull = pull_requests(1)[0];
  core.on(now, ProcessId::of(1), sends_to(pull, {5, 99, 1}), out);
  ASSERT_EQ(count<Reach>(), 1u) << "neither to itself nor to the sender";
  core.reached(now, pulls[0], ProcessId::of(5),
               {DirectPath::nccl, DirectPath::store, DirectPath::tcp}, out);
  pull = pull_requests(5)[0];
  EXPECT_EQ(pull.path, DirectPath::tcp) << "a part goes by one side's doing";
  core.on(now, ProcessId::of(5), sends_to(pull, {1, 5, 6}), out);
  ASSERT_EQ(count<Reach>(), 1u) << "to 6";
  core.reached(now, pulls[0], ProcessId::of(6), {DirectPath::tcp}, out);
  pull = pull_requests(6)[0];
  core.on(now, ProcessId::of(6), sends_to(pull, {5}), out);
  EXPECT_EQ(count<Reach>(), 0u);
  pull = pull_requests(6)[0];
  EXPECT_FALSE(pull.may_redirect);
  core.on(now, ProcessId::of(6),
          PullTensorRejected{pull.transfer, RegionRefusal::stored, {}, 0, {}, {}}, out);
  EXPECT_EQ(count<PullEnded>(), 0u) << "only the producer knows that the tensor is stored";
  pull = pull_requests(5)[0];
  core.on(now, ProcessId::of(5),
          PullTensorRejected{pull.transfer, RegionRefusal::gone, {}, 0, {}, {}}, out);
  pull = pull_requests(1)[0];
  EXPECT_FALSE(pull.may_redirect);
}

}  // namespace
}  // namespace mobula::internal::transfer
