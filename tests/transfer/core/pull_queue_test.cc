#include "transfer/core/pull_queue.h"

#include <gtest/gtest.h>

namespace mobula::internal::transfer {
namespace {

const NodeId node_a = NodeId::of(1);
const NodeId node_b = NodeId::of(2);

PullKey object(std::uint64_t number) { return {ObjectId::of(number), {}}; }

class PullQueueTest : public ::testing::Test {
 protected:
  explicit PullQueueTest() : queue_(PullOptions{.max_pulls = 2, .max_bytes = 1000}) {}

  PullId want(std::uint64_t number, std::uint64_t size, std::vector<NodeId> sources) {
    return queue_.want(now_, object(number), size, sources, out_).value();
  }
  void ready(PullId pull, NodeId from, std::int64_t size) {
    PullReady answer;
    answer.pull = pull;
    answer.size_bytes = size;
    answer.token = "token";
    queue_.answered(now_, from, answer, out_);
  }
  void refuse(PullId pull, NodeId from, ErrorCode code) {
    PullReady answer;
    answer.pull = pull;
    answer.failure = failure(code, "refused");
    queue_.answered(now_, from, answer, out_);
  }
  template <class T>
  std::vector<T> take() {
    std::vector<T> found;
    for (const auto& each : out_) {
      if (const T* one = std::get_if<T>(&each)) found.push_back(*one);
    }
    std::erase_if(out_, [](const PullCommand& each) { return std::holds_alternative<T>(each); });
    return found;
  }

  PullQueue queue_;
  Time now_ = Time::from_ns(1);
  std::vector<PullCommand> out_;
};

TEST_F(PullQueueTest, AsksThenTransfersThenEnds) {
  const PullId pull = want(7, 10, {node_a});
  EXPECT_EQ(take<AskSource>().at(0), (AskSource{pull, node_a, object(7)}));
  ready(pull, node_a, 10);
  EXPECT_EQ(take<Transfer>().at(0).from, node_a);
  queue_.finished(now_, pull, std::nullopt, out_);
  EXPECT_EQ(take<PullDone>().at(0), (PullDone{pull, object(7), node_a, std::nullopt}));
  EXPECT_EQ(queue_.size(), 0u);
  EXPECT_EQ(queue_.bytes_in_flight(), 0u);
  EXPECT_FALSE(queue_.next_deadline());
}

TEST_F(PullQueueTest, SharesOnePullAmongSeveralWishes) {
  const PullId first = want(7, 10, {node_a});
  EXPECT_EQ(want(7, 10, {node_b}), first);
  EXPECT_EQ(take<AskSource>().size(), 1u);
  queue_.unwant(now_, first, out_);
  EXPECT_TRUE(take<PullDone>().empty());
  queue_.unwant(now_, first, out_);
  EXPECT_EQ(take<PullDone>().at(0).failure->code, ErrorCode::cancelled);
}

TEST_F(PullQueueTest, TriesTheNextNodeWhenOneFails) {
  const PullId pull = want(7, 10, {node_a, node_b});
  take<AskSource>();
  refuse(pull, node_a, ErrorCode::not_found);
  EXPECT_EQ(take<AskSource>().at(0).from, node_b);
  ready(pull, node_b, 10);
  queue_.finished(now_, pull, failure(ErrorCode::unavailable, "cut"), out_);
  const auto done = take<PullDone>();
  EXPECT_EQ(done.at(0).failure->text, "cut");
}

TEST_F(PullQueueTest, IgnoresALateAnswerOfANodeNotAskedAnyMore) {
  const PullId pull = want(7, 10, {node_a, node_b});
  now_ = *queue_.next_deadline();
  queue_.tick(now_, out_);
  EXPECT_EQ(take<AskSource>().at(1).from, node_b);
  ready(pull, node_a, 10);
  EXPECT_TRUE(take<Transfer>().empty());
}

TEST_F(PullQueueTest, RefusesBytesOfAnotherSize) {
  const PullId pull = want(7, 10, {node_a});
  ready(pull, node_a, 11);
  EXPECT_EQ(take<PullDone>().at(0).failure->code, ErrorCode::corrupt);
}

TEST_F(PullQueueTest, AsksABusyNodeAgainAfterAPause) {
  const PullId pull = want(7, 10, {node_a});
  take<AskSource>();
  refuse(pull, node_a, ErrorCode::resource_exhausted);
  EXPECT_TRUE(take<AskSource>().empty());
  now_ = *queue_.next_deadline();
  queue_.tick(now_, out_);
  EXPECT_EQ(take<AskSource>().at(0).from, node_a);
}

TEST_F(PullQueueTest, BoundsPullsAndBytesInFlight) {
  const PullId large = want(1, 900, {node_a});
  want(2, 200, {node_a});
  want(3, 10, {node_a});
  EXPECT_EQ(take<AskSource>().size(), 1u) << "the second does not fit, the third does not overtake";
  refuse(large, node_a, ErrorCode::not_found);
  EXPECT_EQ(take<AskSource>().size(), 2u);
  EXPECT_EQ(queue_.running(), 2u);
}

TEST_F(PullQueueTest, RunsAnOversizedPullAlone) {
  want(1, 5000, {node_a});
  EXPECT_EQ(take<AskSource>().size(), 1u);
}

TEST_F(PullQueueTest, CutsTheTransferOfADeadNodeAndGoesOn) {
  const PullId pull = want(7, 10, {node_a, node_b});
  take<AskSource>();
  ready(pull, node_a, 10);
  take<Transfer>();
  queue_.node_dead(now_, node_a, out_);
  EXPECT_EQ(take<CutTransfer>().size(), 1u);
  EXPECT_TRUE(take<AskSource>().empty()) << "the shell may still write";
  queue_.finished(now_, pull, failure(ErrorCode::cancelled, "cut"), out_);
  EXPECT_EQ(take<AskSource>().at(0).from, node_b);
}

TEST_F(PullQueueTest, EndsAWaitingPullWhoseOnlyNodeDies) {
  want(1, 1000, {node_b});
  want(2, 1000, {node_a});
  queue_.node_dead(now_, node_a, out_);
  EXPECT_EQ(take<PullDone>().at(0).key, object(2));
  EXPECT_EQ(queue_.size(), 1u);
}

TEST_F(PullQueueTest, RefusesWithoutASource) {
  EXPECT_EQ(queue_.want(now_, object(1), 1, {}, out_).error().code, ErrorCode::invalid_argument);
}

TEST_F(PullQueueTest, CancelledTransferEndsOnlyWhenNobodyWrites) {
  const PullId pull = want(7, 10, {node_a});
  ready(pull, node_a, 10);
  queue_.unwant(now_, pull, out_);
  EXPECT_EQ(take<CutTransfer>().size(), 1u);
  EXPECT_TRUE(take<PullDone>().empty());
  queue_.finished(now_, pull, std::nullopt, out_);
  EXPECT_EQ(take<PullDone>().at(0).failure->code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace mobula::internal::transfer
