#include "worker/core/transfers/pull_queue.h"
#include "matrix/cells.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace mobula::internal::transfer {
namespace {

const NodeId node_a = NodeId::of(1);
const NodeId node_b = NodeId::of(2);
const NodeId node_c = NodeId::of(3);

PullKey object(std::uint64_t number) { return {ObjectId::of(number), {}}; }

// Chunks of 100 bytes; at most two pulls, 500 bytes in flight, and four chunks from one node.
class PullQueueTest : public ::testing::Test {
 protected:
  PullQueueTest()
      : queue_({.chunk_bytes = 100, .max_pulls = 2, .max_bytes = 500, .chunks_per_source = 4}) {}

  // Requests a pull and places it when it is admitted.
  PullId want(std::uint64_t number, std::uint64_t size, std::vector<NodeId> sources,
              bool argument = false) {
    const PullId pull = queue_
                            .want(now_,
                                  {.key = object(number),
                                   .size_bytes = size,
                                   .sources = std::move(sources),
                                   .argument = argument},
                                  out_)
                            .value();
    location();
    return pull;
  }
  void location() {
    for (auto begun = take<BeginPull>(); !begun.empty(); begun = take<BeginPull>()) {
      for (const BeginPull& each : begun) queue_.placed(now_, each.pull, out_);
    }
  }
  RequestNumber request_of(NodeId node) {
    for (const auto& each : requests_) {
      if (each.from == node) return each.request;
    }
    ADD_FAILURE() << "node " << node.brief() << " was not asked";
    return 0;
  }
  PullReply answer_of(NodeId from, std::int64_t size) {
    for (const RequestSource& each : take<RequestSource>())
      requests_.insert(requests_.begin(), each);
    PullReply answer;
    answer.pull = request_of(from);
    answer.size_bytes = size;
    answer.token = "token";
    answer.key = "key";
    answer.chunk_bytes = 100;
    return answer;
  }
  void ready(NodeId from, std::int64_t size) {
    queue_.answered(now_, from, answer_of(from, size), out_);
  }
  void partly_ready(NodeId from, std::int64_t size, std::vector<std::uint32_t> chunks) {
    PullReply answer = answer_of(from, size);
    answer.partial = true;
    answer.chunks = std::move(chunks);
    queue_.answered(now_, from, answer, out_);
  }
  void refuse(NodeId from, ErrorCode code) {
    PullReply answer = answer_of(from, 0);
    answer.failure = failure(code, "refused");
    queue_.answered(now_, from, answer, out_);
  }
  void more(NodeId from, std::vector<std::uint32_t> chunks) {
    queue_.more_there(now_, from, ChunksAvailable{request_of(from), std::move(chunks)}, out_);
  }
  std::vector<FetchChunk> fetches() {
    auto found = take<FetchChunk>();
    for (const FetchChunk& each : found) flying_.push_back(each);
    return found;
  }
  void arrived(FetchChunk chunk, std::optional<Failure> why = std::nullopt) {
    std::erase(flying_, chunk);
    queue_.fetched(now_, chunk.chunk, std::move(why), out_);
  }
  std::vector<PullProgress> under_way() const {
    std::vector<PullProgress> all;
    queue_.each_under_way([&](PullProgress each) { all.push_back(std::move(each)); });
    return all;
  }
  void tick() {
    const auto due = queue_.next_deadline();
    ASSERT_TRUE(due);
    now_ = std::max(now_, *due);
    queue_.tick(now_, out_);
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
  void expect_idle() {
    EXPECT_EQ(queue_.size(), 0u);
    EXPECT_EQ(queue_.running(), 0u);
    EXPECT_FALSE(queue_.next_deadline());
  }

  PullQueue queue_;
  Time now_ = Time::from_ns(1);
  std::vector<PullCommand> out_;
  std::vector<RequestSource> requests_;  // most recent first
  std::vector<FetchChunk> flying_;
};

TEST_F(PullQueueTest, AllocatesRequestsAndReadsEachChunkOnce) {
  const PullId pull =
      queue_.want(now_, {.key = object(7), .size_bytes = 250, .sources = {node_a}}, out_).value();
  EXPECT_EQ(take<BeginPull>().at(0), (BeginPull{pull, object(7), 250}));
  EXPECT_TRUE(take<RequestSource>().empty()) << "no source is asked before space is reserved";
  queue_.placed(now_, pull, out_);
  ready(node_a, 250);
  const auto chunks = fetches();
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].right, (ReadRight{"token", "key", 0}));
  std::set<std::pair<std::uint64_t, std::uint64_t>> parts;
  for (const FetchChunk& each : chunks) parts.insert({each.offset, each.size_bytes});
  EXPECT_EQ(parts,
            (std::set<std::pair<std::uint64_t, std::uint64_t>>{{0, 100}, {100, 100}, {200, 50}}));
  for (const FetchChunk& each : chunks) arrived(each);
  EXPECT_EQ(take<ChunkThere>().size(), 3u);
  EXPECT_EQ(take<ReleaseSource>().at(0).from, node_a);
  const PullDone done = take<PullDone>().at(0);
  EXPECT_EQ(done.pull, pull);
  EXPECT_EQ(done.key, object(7));
  EXPECT_FALSE(done.failure);
  expect_idle();
}

TEST_F(PullQueueTest, ReportsSourcesAndTimesAtEnd) {
  const Time wanted = now_;
  want(7, 800, {node_a, node_b, node_c});
  now_ = now_ + 1s;
  ready(node_a, 800);
  const auto of_a = fetches();
  now_ = now_ + 1s;
  ready(node_b, 800);
  const auto of_b = fetches();
  ASSERT_FALSE(of_b.empty());
  now_ = now_ + 1s;
  for (const FetchChunk& each : of_a) arrived(each);
  now_ = now_ + 1s;
  while (!flying_.empty()) {
    arrived(flying_.front());
    fetches();
  }
  fetches();
  while (!flying_.empty()) arrived(flying_.front());
  const PullDone done = take<PullDone>().at(0);
  EXPECT_EQ(done.wanted, wanted);
  ASSERT_EQ(done.shares.size(), 2u) << "node c received no requests and sent no bytes";
  EXPECT_EQ(done.shares[0].from, node_a);
  EXPECT_EQ(done.shares[0].began, wanted + 1s);
  EXPECT_EQ(done.shares[1].from, node_b);
  EXPECT_EQ(done.shares[1].began, wanted + 2s);
  EXPECT_EQ(done.shares[1].ended, now_);
  EXPECT_TRUE(done.shares[0].sealed);
  EXPECT_EQ(done.shares[0].bytes + done.shares[1].bytes, 800u);
}

TEST_F(PullQueueTest, EmptyObject_IsOneEmptyChunk) {
  want(7, 0, {node_a});
  ready(node_a, 0);
  const auto chunks = fetches();
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].size_bytes, 0u);
  arrived(chunks[0]);
  EXPECT_FALSE(take<PullDone>().at(0).failure);
}

TEST_F(PullQueueTest, ChecksFileBeforeCompletion) {
  const PullId pull =
      queue_.want(now_, {.key = {{}, Hash128{1, 2}}, .size_bytes = 10, .sources = {node_a}}, out_)
          .value();
  location();
  ready(node_a, 10);
  arrived(fetches().at(0));
  EXPECT_EQ(take<CompletePull>().at(0).pull, pull);
  EXPECT_TRUE(take<PullDone>().empty());
  queue_.completed(now_, pull, failure(ErrorCode::corrupt, "another hash"), out_);
  EXPECT_EQ(take<PullDone>().at(0).failure->code, ErrorCode::corrupt);
  expect_idle();
}

TEST_F(PullQueueTest, SharesOnePullAmongRequests) {
  const PullId first = want(7, 10, {node_a});
  EXPECT_EQ(want(7, 10, {node_b}), first);
  EXPECT_EQ(take<RequestSource>().size(), 2u) << "the second wish knows one more";
  queue_.unwant(now_, first, out_);
  EXPECT_TRUE(take<PullDone>().empty());
  queue_.unwant(now_, first, out_);
  EXPECT_EQ(take<PullDone>().at(0).failure->code, ErrorCode::cancelled);
  expect_idle();
}

TEST_F(PullQueueTest, ReadsFromSeveralNodesAtOnce) {
  want(7, 500, {node_a, node_b});
  ready(node_a, 500);
  ready(node_b, 500);
  std::set<NodeId> from;
  std::set<std::uint64_t> offsets;
  for (const FetchChunk& each : fetches()) {
    from.insert(each.from);
    offsets.insert(each.offset);
  }
  EXPECT_EQ(from, (std::set<NodeId>{node_a, node_b}));
  EXPECT_EQ(offsets.size(), 5u) << "none twice";
}

TEST_F(PullQueueTest, SourceLacksObject_UsesNext) {
  want(7, 10, {node_a, node_b});
  refuse(node_a, ErrorCode::not_found);
  ready(node_b, 10);
  EXPECT_EQ(fetches().at(0).from, node_b);
}

TEST_F(PullQueueTest, FailsWithErrorOfLastNode) {
  want(7, 10, {node_a});
  refuse(node_a, ErrorCode::not_found);
  EXPECT_EQ(take<PullDone>().at(0).failure->code, ErrorCode::not_found);
  expect_idle();
}

TEST_F(PullQueueTest, SilentNode_DelaysNoOtherSource) {
  want(7, 10, {node_a, node_b});
  ready(node_b, 10);
  arrived(fetches().at(0));
  EXPECT_FALSE(take<PullDone>().at(0).failure);
  EXPECT_EQ(take<ReleaseSource>().size(), 2u) << "an answer would come too late";
  expect_idle();
}

TEST_F(PullQueueTest, IgnoresLateReply) {
  want(7, 10, {node_a});
  const PullReply late = answer_of(node_a, 10);
  tick();
  EXPECT_EQ(take<PullDone>().at(0).failure->code, ErrorCode::timed_out);
  queue_.answered(now_, node_a, late, out_);
  EXPECT_TRUE(take<FetchChunk>().empty());
}

// Chunks 0 and 2 of a pull from two nodes are complete; a second pull waits for memory, a third for
// admission.
TEST_F(PullQueueTest, ReportsPendingPullsWithProgress) {
  const Time wanted = now_;
  want(7, 250, {node_a, node_b});
  EXPECT_EQ(under_way().at(0).wait, PullProgress::Wait::sources);
  EXPECT_FALSE(under_way().at(0).began);
  now_ = now_ + 1s;
  ready(node_a, 250);
  const Time began = now_;
  const auto of_a = fetches();
  ASSERT_EQ(of_a.size(), 3u);
  now_ = now_ + 1s;
  partly_ready(node_b, 250, {});
  for (const FetchChunk& each : of_a) {
    if (each.offset != 100) arrived(each);
  }
  queue_.want(now_, {.key = object(8), .size_bytes = 40, .sources = {node_a}}, out_).value();
  queue_.waits_for_space(now_, take<BeginPull>().at(0).pull, out_);
  queue_.want(now_, {.key = object(9), .size_bytes = 50, .sources = {node_a}}, out_).value();
  EXPECT_EQ(under_way().at(1).wait, PullProgress::Wait::placing)
      << "its owner has not found room yet";
  queue_.want(now_, {.key = object(10), .size_bytes = 60, .sources = {node_a}}, out_).value();
  const auto all = under_way();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].key, object(7));
  EXPECT_EQ(all[0].wait, PullProgress::Wait::none);
  EXPECT_EQ(all[0].size_bytes, 250u);
  EXPECT_EQ(all[0].there_bytes, 150u) << "the last chunk is a short one";
  EXPECT_EQ(all[0].sources, (std::vector{node_a, node_b}))
      << "the source of the most bytes is first";
  EXPECT_TRUE(all[0].sealed);
  EXPECT_EQ(all[0].wanted, wanted);
  EXPECT_EQ(all[0].began, began);
  EXPECT_EQ(all[1].key, object(9)) << "a pull that has its turn precedes a waiting pull";
  EXPECT_EQ(all[2].key, object(8));
  EXPECT_EQ(all[2].wait, PullProgress::Wait::space);
  EXPECT_EQ(all[2].there_bytes, 0u);
  EXPECT_EQ(all[3].key, object(10));
  EXPECT_EQ(all[3].wait, PullProgress::Wait::turn);
}

TEST_F(PullQueueTest, EndedPull_IsRemovedAndFailureReported) {
  const PullId pull = want(7, 250, {node_a});
  ready(node_a, 250);
  const auto chunks = fetches();
  arrived(chunks.at(0), failure(ErrorCode::unavailable, "the line broke"));
  ASSERT_EQ(under_way().size(), 1u);
  ASSERT_TRUE(under_way()[0].failure);
  EXPECT_EQ(under_way()[0].failure->text, "the line broke");
  queue_.unwant(now_, pull, out_);
  EXPECT_TRUE(under_way().empty()) << "it only waits for pending writes";
}

TEST_F(PullQueueTest, RejectsBytesOfAnotherSize) {
  want(7, 10, {node_a});
  ready(node_a, 11);
  EXPECT_EQ(take<ReleaseSource>().size(), 1u);
  EXPECT_EQ(take<PullDone>().at(0).failure->code, ErrorCode::corrupt);
}

TEST_F(PullQueueTest, SourceBusy_RetriesAfterBackoff) {
  want(7, 10, {node_a});
  refuse(node_a, ErrorCode::resource_exhausted);
  EXPECT_TRUE(take<RequestSource>().empty());
  tick();
  EXPECT_EQ(take<RequestSource>().at(0).from, node_a);
}

TEST_F(PullQueueTest, LimitsBytesInFlightAndPerNode) {
  want(1, 10'000, {node_a});
  ready(node_a, 10'000);
  EXPECT_EQ(fetches().size(), 4u) << "from one node";
  want(2, 10'000, {node_b});
  ready(node_b, 10'000);
  auto second = fetches();
  EXPECT_EQ(second.size(), 1u) << "500 bytes in all";
  arrived(second[0]);
  second = fetches();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].from, node_b) << "the other node is at its limit";
}

TEST_F(PullQueueTest, OversizedChunk_TransfersAlone) {
  matrix::belongs_to(matrix::Part::budget, matrix::Column::staged, matrix::Proof::real);
  PullQueue small({.chunk_bytes = 1000, .max_bytes = 10});
  const PullId pull =
      small.want(now_, {.key = object(1), .size_bytes = 3000, .sources = {node_a}}, out_).value();
  small.placed(now_, pull, out_);
  PullReply answer = answer_of(node_a, 3000);
  small.answered(now_, node_a, answer, out_);
  EXPECT_EQ(take<FetchChunk>().size(), 1u);
}

TEST_F(PullQueueTest, GivesEachPullOneChunkBeforeSecond) {
  want(1, 10'000, {node_a}, true);
  want(2, 10'000, {node_a});
  ready(node_a, 10'000);
  const auto first = fetches();
  ASSERT_EQ(first.size(), 4u) << "chunks of the pull whose node replied first";
  queue_.answered(
      now_, node_a,
      [&] {
        PullReply answer = answer_of(node_a, 10'000);
        answer.pull = requests_.back().request == answer.pull ? requests_.front().request
                                                              : requests_.back().request;
        return answer;
      }(),
      out_);
  arrived(first[0]);
  const auto next = fetches();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_NE(next[0].pull, first[0].pull) << "the other has none yet";
}

TEST_F(PullQueueTest, ArgumentsPrecedeOtherPulls) {
  want(1, 10, {node_a});
  want(2, 10, {node_a});
  const PullId other = want(3, 10, {node_a});
  const PullId argument = want(4, 10, {node_a}, true);
  EXPECT_EQ(queue_.running(), 2u);
  queue_.unwant(now_, 1, out_);
  EXPECT_EQ(take<BeginPull>().at(0).pull, argument);
  queue_.hurry(other);
  queue_.unwant(now_, 2, out_);
  EXPECT_EQ(take<BeginPull>().at(0).pull, other);
}

TEST_F(PullQueueTest, ServesOldestPullAtTimes) {
  PullQueue one({.max_pulls = 1});
  for (std::uint64_t i = 1; i <= 10; ++i) {
    std::ignore = one.want(
        now_, {.key = object(i), .size_bytes = 1, .sources = {node_a}, .argument = i != 2}, out_);
  }
  std::vector<PullId> order;
  for (auto begun = take<BeginPull>(); !begun.empty(); begun = take<BeginPull>()) {
    order.push_back(begun.at(0).pull);
    one.refused(now_, begun.at(0).pull, failure(ErrorCode::cancelled, "enough"), out_);
  }
  ASSERT_EQ(order.size(), 10u);
  EXPECT_LT(std::ranges::find(order, 2u) - order.begin(), 5);
}

TEST_F(PullQueueTest, WaitingForMemory_GivesTurnToOthers) {
  const PullId waits =
      queue_.want(now_, {.key = object(1), .size_bytes = 10, .sources = {node_a}}, out_).value();
  take<BeginPull>();
  queue_.waits_for_space(now_, waits, out_);
  EXPECT_EQ(queue_.running(), 0u);
  want(2, 10, {node_a});
  want(3, 10, {node_a});
  EXPECT_EQ(queue_.running(), 2u);
  queue_.placed(now_, waits, out_);
  EXPECT_EQ(queue_.running(), 3u) << "its space is reserved now";
}

TEST_F(PullQueueTest, ConnectionCut_RetriesOnlyItsChunks) {
  want(7, 400, {node_a});
  ready(node_a, 400);
  const auto chunks = fetches();
  ASSERT_EQ(chunks.size(), 4u);
  arrived(chunks[0]);
  for (std::size_t i = 1; i < 4; ++i) arrived(chunks[i], failure(ErrorCode::unavailable, "cut"));
  EXPECT_TRUE(fetches().empty()) << "after a pause";
  tick();
  const auto again = fetches();
  EXPECT_EQ(again.size(), 3u);
  for (const FetchChunk& each : again) arrived(each);
  EXPECT_FALSE(take<PullDone>().at(0).failure);
  expect_idle();
}

TEST_F(PullQueueTest, ChunkFailedAtNode_UsesAnother) {
  want(7, 800, {node_a, node_b});
  ready(node_a, 800);
  ready(node_b, 800);
  for (const FetchChunk& each : fetches()) {
    if (each.from == node_a) arrived(each, failure(ErrorCode::unavailable, "cut"));
  }
  while (!flying_.empty()) {
    arrived(flying_.front());
    for (const FetchChunk& each : fetches()) EXPECT_EQ(each.from, node_b);
  }
  EXPECT_FALSE(take<PullDone>().at(0).failure);
  expect_idle();
}

TEST_F(PullQueueTest, NodeFailsRepeatedly_PullFails) {
  want(7, 10, {node_a});
  ready(node_a, 10);
  int attempts = 0;
  for (; queue_.size() > 0; ++attempts) {
    auto chunks = fetches();
    if (chunks.empty()) {
      tick();
      chunks = fetches();
    }
    ASSERT_EQ(chunks.size(), 1u);
    arrived(chunks[0], failure(ErrorCode::corrupt, "bad tag"));
  }
  EXPECT_EQ(attempts, 5);
  EXPECT_EQ(take<PullDone>().at(0).failure->text, "bad tag");
  EXPECT_EQ(take<ReleaseSource>().size(), 1u);
  expect_idle();
}

TEST_F(PullQueueTest, NodeStopped_UsesAnother) {
  want(7, 400, {node_a, node_b});
  ready(node_a, 400);
  ready(node_b, 400);
  std::vector<FetchChunk> stuck;
  for (const FetchChunk& each : fetches()) {
    if (each.from == node_a) stuck.push_back(each);
  }
  ASSERT_FALSE(stuck.empty());
  for (const FetchChunk& each : std::vector(flying_)) {
    if (each.from == node_b) arrived(each);
  }
  tick();
  EXPECT_EQ(take<CutChunk>().size(), stuck.size());
  EXPECT_TRUE(fetches().empty()) << "the shell may still write";
  for (const FetchChunk& each : stuck) arrived(each, failure(ErrorCode::cancelled, "cut"));
  for (const FetchChunk& each : fetches()) {
    EXPECT_EQ(each.from, node_b);
    arrived(each);
  }
  EXPECT_FALSE(take<PullDone>().at(0).failure);
  expect_idle();
}

TEST_F(PullQueueTest, SourceDied_RestComesFromAnother) {
  want(7, 400, {node_a, node_b});
  ready(node_a, 400);
  const auto first = fetches();
  arrived(first[0]);
  queue_.node_dead(now_, node_a, out_);
  EXPECT_EQ(take<CutChunk>().size(), 3u);
  ready(node_b, 400);
  EXPECT_TRUE(fetches().empty()) << "every chunk has arrived or is being written";
  for (std::size_t i = 1; i < 4; ++i) arrived(first[i], failure(ErrorCode::cancelled, "cut"));
  const auto rest = fetches();
  EXPECT_EQ(rest.size(), 3u) << "the chunk that arrived from the dead node stays";
  for (const FetchChunk& each : rest) arrived(each);
  EXPECT_FALSE(take<PullDone>().at(0).failure);
  expect_idle();
}

TEST_F(PullQueueTest, OnlySourceDied_EndsWaitingPull) {
  want(1, 10, {node_b});
  want(2, 10, {node_b});
  want(3, 10, {node_a});
  queue_.node_dead(now_, node_a, out_);
  EXPECT_EQ(take<PullDone>().at(0).key, object(3));
  EXPECT_EQ(queue_.size(), 2u);
}

TEST_F(PullQueueTest, PartialSource_ProvidesOnlyItsChunks) {
  want(7, 400, {node_a});
  partly_ready(node_a, 400, {2});
  auto chunks = fetches();
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].offset, 200u);
  arrived(chunks[0]);
  EXPECT_TRUE(fetches().empty());
  more(node_a, {0, 3});
  EXPECT_EQ(fetches().size(), 2u);
}

TEST_F(PullQueueTest, PullsChunksOfSingleSourceFirst) {
  want(7, 400, {node_a, node_b});
  partly_ready(node_b, 400, {0, 1});
  auto from_b = fetches();
  ASSERT_EQ(from_b.size(), 2u);
  arrived(from_b[0], failure(ErrorCode::unavailable, "cut"));
  ready(node_a, 400);
  std::set<std::uint64_t> from_a;
  for (const FetchChunk& each : fetches()) from_a.insert(each.offset);
  EXPECT_TRUE(from_a.contains(200));
  EXPECT_TRUE(from_a.contains(300));
}

TEST_F(PullQueueTest, MissingChunk_FailsAfterTimeout) {
  want(7, 400, {node_a});
  partly_ready(node_a, 400, {1});
  arrived(fetches().at(0));
  tick();
  EXPECT_TRUE(take<PullDone>().at(0).failure);
  expect_idle();
}

TEST_F(PullQueueTest, LeavingSource_IsReleasedAfterReads) {
  matrix::belongs_to(matrix::Part::dropped_midway, matrix::Column::staged, matrix::Proof::real);
  want(7, 400, {node_a});
  partly_ready(node_a, 400, {0, 1});
  const auto chunks = fetches();
  refuse(node_a, ErrorCode::unavailable);
  EXPECT_EQ(take<CutChunk>().size(), 2u);
  EXPECT_TRUE(take<ReleaseSource>().empty());
  arrived(chunks[0]);
  arrived(chunks[1], failure(ErrorCode::cancelled, "cut"));
  EXPECT_EQ(take<ReleaseSource>().size(), 1u);
  EXPECT_TRUE(take<PullDone>().at(0).failure);
  expect_idle();
}

TEST_F(PullQueueTest, CancelledPull_EndsAfterLastWrite) {
  const PullId pull = want(7, 10, {node_a});
  ready(node_a, 10);
  const auto chunks = fetches();
  queue_.unwant(now_, pull, out_);
  EXPECT_EQ(take<CutChunk>().size(), 1u);
  EXPECT_TRUE(take<PullDone>().empty());
  arrived(chunks[0]);
  EXPECT_EQ(take<PullDone>().at(0).failure->code, ErrorCode::cancelled);
  expect_idle();
}

TEST_F(PullQueueTest, RejectsPullWithoutSource) {
  EXPECT_EQ(queue_.want(now_, {.key = object(1), .size_bytes = 1}, out_).error().code,
            ErrorCode::invalid_argument);
}

TEST_F(PullQueueTest, Readers_StartWithDifferentChunks) {
  std::set<std::uint64_t> first;
  for (const std::uint64_t spread : {0u, 1u, 2u}) {
    PullQueue queue({.chunk_bytes = 100, .chunks_per_source = 1});
    const PullId pull =
        queue
            .want(now_,
                  {.key = object(1), .size_bytes = 300, .sources = {node_c}, .spread = spread},
                  out_)
            .value();
    queue.placed(now_, pull, out_);
    requests_.clear();
    queue.answered(now_, node_c, answer_of(node_c, 300), out_);
    first.insert(take<FetchChunk>().at(0).offset);
  }
  EXPECT_EQ(first.size(), 3u);
}

}  // namespace
}  // namespace mobula::internal::transfer
