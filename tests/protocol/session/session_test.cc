#include "protocol/session/session.h"

#include <gtest/gtest.h>

namespace mobula::internal::test {
namespace {

using Side = Session<int, int>;
using Frames = std::vector<Frame<int>>;

constexpr Time start = Time::from_ns(1'000'000'000);

std::vector<std::uint64_t> numbers(const Frames& frames) {
  std::vector<std::uint64_t> result;
  for (const auto& each : frames) result.push_back(each.sequence);
  return result;
}

Frames send(Side& side, Time now, std::initializer_list<int> messages) {
  Frames frames;
  for (const int each : messages) side.send(now, each, frames);
  return frames;
}

std::vector<int> receive(Side& side, Time now, const Frames& frames, Frames& back) {
  std::vector<int> taken;
  for (const auto& each : frames) {
    if (auto message = side.receive(now, each, back)) taken.push_back(*message);
  }
  return taken;
}

Frames tick(Side& side, Time now) {
  Frames frames;
  side.tick(now, frames);
  return frames;
}

TEST(Session, DeliversInOrderAndAcknowledgesTogether) {
  Side a, b;
  Frames back;
  EXPECT_EQ(receive(b, start, send(a, start, {10, 11, 12}), back), (std::vector<int>{10, 11, 12}));
  EXPECT_TRUE(back.empty());
  ASSERT_EQ(b.next_deadline(), start + 20ms);

  const Frames acknowledgement = tick(b, start + 20ms);
  ASSERT_EQ(acknowledgement.size(), 1u);
  EXPECT_EQ(acknowledgement[0].sequence, 0u);
  EXPECT_EQ(acknowledgement[0].acknowledged, 3u);
  receive(a, start + 20ms, acknowledgement, back);
  EXPECT_TRUE(a.drained());
  EXPECT_EQ(a.next_deadline(), std::nullopt);
}

// Heartbeats of a peer that has lost a message must not defer the resend.
TEST(Session, ResendsOnTimeDespitePeerTraffic) {
  Side a, b;
  send(a, start, {7});  // lost
  Frames back;
  for (int i = 1; i <= 10; ++i) a.receive(start + i * 500ms, b.acknowledgement(), back);
  const Frames again = tick(a, start + 5s);
  ASSERT_EQ(numbers(again), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(receive(b, start + 5s, again, back), (std::vector<int>{7}));
}

TEST(Session, CarriesAcknowledgementInMessage) {
  Side a, b;
  Frames back;
  receive(b, start, send(a, start, {1}), back);
  const Frames reply = send(b, start, {5});
  ASSERT_EQ(reply.size(), 1u);
  EXPECT_EQ(reply[0].acknowledged, 1u);
  EXPECT_EQ(receive(a, start, reply, back), std::vector<int>{5});
  EXPECT_TRUE(a.drained());
}

TEST(Session, MessageLost_ResendsItAndAllLater) {
  Side a, b;
  Frames frames = send(a, start, {1, 2, 3});
  frames.erase(frames.begin() + 1);
  Frames back;
  EXPECT_EQ(receive(b, start, frames, back), std::vector<int>{1});

  const Frames again = tick(a, start + 1s);
  EXPECT_EQ(numbers(again), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(receive(b, start + 1s, again, back), (std::vector<int>{2, 3}));
}

TEST(Session, MessageRepeated_IsTakenOnce) {
  Side a, b;
  const Frames frames = send(a, start, {1});
  Frames back;
  EXPECT_EQ(receive(b, start, frames, back), std::vector<int>{1});
  EXPECT_TRUE(receive(b, start, frames, back).empty());
  EXPECT_EQ(b.next_deadline(), start);
  EXPECT_EQ(tick(b, start).at(0).acknowledged, 1u);
}

TEST(Session, EarlyMessage_IsDroppedUntilItsTurn) {
  Side a, b;
  Frames frames = send(a, start, {1, 2});
  std::swap(frames[0], frames[1]);
  Frames back;
  EXPECT_EQ(receive(b, start, frames, back), std::vector<int>{1});
  EXPECT_EQ(receive(b, start, tick(a, start + 1s), back), std::vector<int>{2});
}

TEST(Session, LimitsWindowUntilAcknowledged) {
  const SessionOptions options{.window = 2};
  Side a(options), b(options);
  const Frames first = send(a, start, {1, 2, 3, 4, 5});
  EXPECT_EQ(numbers(first), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(a.backlog(), 5u);

  Frames back, next;
  EXPECT_EQ(receive(b, start, first, back).size(), 2u);
  receive(a, start, tick(b, start + 20ms), next);
  EXPECT_EQ(numbers(next), (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(a.backlog(), 3u);
}

TEST(Session, DoublesResendDelayUntilProgress) {
  Side a, b;
  send(a, start, {1});
  Time now = start;
  std::vector<std::int64_t> waits;
  for (int i = 0; i < 6; ++i) {
    const Time due = *a.next_deadline();
    waits.push_back((due - now) / 1s);
    now = due;
    EXPECT_EQ(tick(a, now).size(), 1u);
  }
  EXPECT_EQ(waits, (std::vector<std::int64_t>{1, 2, 4, 8, 8, 8}));

  Frames back;
  receive(b, now, tick(a, *a.next_deadline()), back);
  receive(a, now, tick(b, now + 20ms), back);
  send(a, now, {2});
  EXPECT_EQ(*a.next_deadline(), now + 1s);
}

TEST(Session, ResendsNothingBeforeItIsDue) {
  Side a;
  send(a, start, {1});
  EXPECT_TRUE(tick(a, start + 999ms).empty());
  EXPECT_EQ(tick(a, start + 1s).size(), 1u);
}

TEST(Session, Reconnected_ResendsUnacknowledged) {
  Side a, b;
  Frames back, frames;
  receive(b, start, send(a, start, {1, 2}), back);
  receive(a, start, tick(b, start + 20ms), back);
  send(a, start, {3, 4});
  a.reconnected(start + 30ms, frames);
  EXPECT_EQ(numbers(frames), (std::vector<std::uint64_t>{3, 4}));
}

TEST(Session, ReconnectedIdle_AcknowledgesReceived) {
  Side a, b;
  Frames back, frames;
  receive(b, start, send(a, start, {1}), back);
  b.reconnected(start, frames);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].sequence, 0u);
  EXPECT_EQ(frames[0].acknowledged, 1u);
}

TEST(Session, IgnoresAcknowledgementOfUnsent) {
  Side a;
  Frames frames;
  send(a, start, {1, 2});
  a.receive(start, Frame<int>{0, 99, std::nullopt}, frames);
  EXPECT_EQ(a.backlog(), 2u);
  EXPECT_EQ(a.acknowledged(), 0u);
}

TEST(Session, AcceptsAcknowledgementAfterResend) {
  Side a, b;
  Frames back;
  receive(b, start, send(a, start, {1, 2}), back);
  Frames acknowledgement = tick(b, start + 20ms);
  a.reconnected(start + 1s, back);
  receive(a, start + 1s, acknowledgement, back);
  EXPECT_TRUE(a.drained());
}

TEST(Session, ListsUnacknowledgedMessages) {
  Side a, b;
  Frames back;
  receive(b, start, send(a, start, {1, 2, 3}), back);
  receive(a, start, {Frame<int>{0, 1, std::nullopt}}, back);
  EXPECT_EQ(std::vector<int>(a.unacknowledged().begin(), a.unacknowledged().end()),
            (std::vector<int>{2, 3}));
}

}  // namespace
}  // namespace mobula::internal::test
