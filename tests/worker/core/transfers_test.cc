// Transfers of objects between agents: sources of the readers, and the memory of pulls.
#include <gtest/gtest.h>

#include <algorithm>

#include "worker/core/agents.h"

namespace mobula::internal::worker::transfers {
namespace {

const JobId job = JobId::of(5);
const ObjectId value = ObjectId::of(77);
constexpr std::int64_t size = 1000;  // ten chunks

WorkerOptions small_chunks() {
  WorkerOptions options = Agents::small();
  options.bulk_chunk_bytes = 100;
  options.bulk_chunks_per_source = 2;
  return options;
}

// The owner's process is on `home_`, readers on the three others; all on link 1.
class TransfersTest : public ::testing::Test {
 protected:
  TransfersTest() : world_(small_chunks()), home_(world_.add()) {
    for (int i = 0; i < 3; ++i) world_.add();
    owner_ = home_.driver(1, job);
    for (std::size_t i = 1; i < 4; ++i) world_.at(i).driver(1, job);
    world_.settle();
    store(world_, home_, 1, value, size, owner_, home_.node());
    home_.say(1, ExportObject{value});
    world_.settle();
    for (std::size_t i = 0; i < 4; ++i) world_.at(i).forget();
  }

  void want(Agent& agent, bool argument = false) {
    FetchObjectRequest fetch;
    fetch.ref = ref_of(value, home_, owner_);
    fetch.argument = argument;
    agent.say(1, fetch);
    world_.settle();
  }
  void unwant(Agent& agent) {
    agent.say(1, CancelFetch{value});
    agent.say(1, ReleaseObject{value});
    world_.settle();
  }
  bool has_read(Agent& agent) {
    const auto received = agent.received<FetchObjectReply>(1);
    return received.size() == 1 && !received[0].failure;
  }
  // Completes one of the chunks in flight to this agent.
  void one_arrives(Agent& agent) {
    const auto at = std::ranges::find(world_.moving, &agent, &Agents::Moving::reader);
    ASSERT_NE(at, world_.moving.end());
    const std::uint64_t chunk = at->chunk;
    world_.moving.erase(at);
    world_.post(agent, ChunkFetched{chunk, std::nullopt});
    world_.settle();
  }
  void release_all() {
    for (std::size_t i = 0; i < 4; ++i) {
      if (world_.at(i).alive) world_.at(i).say(1, ReleaseObject{value});
    }
    world_.settle();
    expect_empty(world_, 4, 1);
  }
  std::size_t from(const Agent& source, const Agent& reader) const {
    return static_cast<std::size_t>(std::ranges::count_if(world_.moving, [&](const auto& each) {
      return each.reader == &reader && each.source == source.address().incarnation;
    }));
  }

  Agents world_;
  Agent& home_;
  ProcessId owner_;
};

TEST_F(TransfersTest, PullsObjectInChunksAndEndsOffer) {
  Agent& reader = world_.at(1);
  want(reader);
  EXPECT_TRUE(has_read(reader));
  EXPECT_EQ(reader.did<FetchBulk>().size(), 10u);
  EXPECT_EQ(home_.did<OfferObject>().size(), 1u);
  EXPECT_EQ(home_.did<WithdrawBulk>().size(), 1u);
  EXPECT_EQ(home_.core().census().offers, 0u);
  release_all();
}

TEST_F(TransfersTest, ListsCompletedTransfersWithSources) {
  want(world_.at(1));
  Agent& reader = world_.at(2);
  want(reader);
  reader.from_head(TransfersRequest{.request = 3, .paths = {}, .limit = 10, .job = job});
  world_.settle();
  const auto sent = reader.sent<TransfersReply>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].request, 3u);
  ASSERT_EQ(sent[0].transfers.size(), 2u) << "two nodes had it";
  std::int64_t bytes = 0;
  std::set<NodeId> givers;
  for (const TransferFact& fact : sent[0].transfers) {
    bytes += fact.size_bytes;
    givers.insert(fact.holder_node);
    EXPECT_EQ(fact.object, value);
    EXPECT_EQ(fact.job, job);
    EXPECT_EQ(fact.path, DirectPath::store);
    EXPECT_TRUE(fact.encrypted);
    EXPECT_FALSE(fact.failed);
  }
  EXPECT_EQ(bytes, size);
  EXPECT_EQ(givers, (std::set{home_.node(), world_.at(1).node()}));
  home_.from_head(TransfersRequest{.request = 4, .paths = {}, .limit = 10, .job = {}});
  reader.from_head(TransfersRequest{.request = 5, .paths = {}, .limit = 10, .job = JobId::of(6)});
  reader.from_head(TransfersRequest{.request = 6, .paths = {}, .limit = 1, .job = {}});
  reader.from_head(
      TransfersRequest{.request = 7, .paths = {DirectPath::tcp}, .limit = 10, .job = {}});
  world_.settle();
  EXPECT_TRUE(home_.sent<TransfersReply>().at(0).transfers.empty()) << "nothing came to it";
  const auto narrowed = reader.sent<TransfersReply>();
  ASSERT_EQ(narrowed.size(), 3u);
  EXPECT_TRUE(narrowed[0].transfers.empty());
  EXPECT_EQ(narrowed[1].transfers.size(), 1u);
  EXPECT_EQ(narrowed[1].left_out, 1u);
  EXPECT_TRUE(narrowed[2].transfers.empty());
  release_all();
}

TEST_F(TransfersTest, ListsPendingTransfersOnRequest) {
  world_.bytes_flow = false;
  Agent& reader = world_.at(1);
  want(reader);
  world_.advance(2s);
  one_arrives(reader);
  one_arrives(reader);
  const auto sent = [&](TransfersRequest query) {
    query.limit = 10;
    reader.forget();
    reader.from_head(query);
    world_.settle();
    const auto answers = reader.sent<TransfersReply>();
    EXPECT_EQ(answers.size(), 1u);
    EXPECT_TRUE(answers.at(0).knows_under_way);
    return answers.at(0).transfers;
  };
  EXPECT_TRUE(sent({.request = 1, .paths = {}, .job = {}}).empty())
      << "a head of an earlier release asks so";
  const auto all = sent({.request = 2,
                         .paths = {},
                         .job = job,
                         .under_way = {TransferState::running, TransferState::pending},
                         .object = {}});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].object, value);
  EXPECT_EQ(all[0].state, TransferState::running);
  EXPECT_EQ(all[0].size_bytes, 200);
  EXPECT_EQ(all[0].whole_bytes, size);
  EXPECT_EQ(all[0].holder_node, home_.node());
  EXPECT_EQ(all[0].sources, std::vector{home_.node()});
  EXPECT_EQ(all[0].job, job);
  EXPECT_EQ(all[0].moved, Duration(2s));
  EXPECT_TRUE(all[0].encrypted);
  EXPECT_TRUE(sent({.request = 3,
                    .paths = {},
                    .job = {},
                    .under_way = {TransferState::pending},
                    .object = {}})
                  .empty());
  EXPECT_TRUE(sent({.request = 4,
                    .paths = {DirectPath::tcp},
                    .job = {},
                    .under_way = {TransferState::running},
                    .object = {}})
                  .empty());
  EXPECT_TRUE(sent({.request = 5,
                    .paths = {},
                    .job = JobId::of(6),
                    .under_way = {TransferState::running},
                    .object = {}})
                  .empty());
  EXPECT_TRUE(sent({.request = 6,
                    .paths = {},
                    .job = {},
                    .under_way = {TransferState::running},
                    .object = ObjectId::of(78)})
                  .empty());
  world_.bytes_flow = true;
  world_.settle();
  const auto then = sent({.request = 7,
                          .paths = {},
                          .job = {},
                          .under_way = {TransferState::running},
                          .object = value});
  ASSERT_EQ(then.size(), 1u);
  EXPECT_EQ(then[0].state, TransferState::ended);
  EXPECT_EQ(then[0].size_bytes, size);
  EXPECT_TRUE(sent({.request = 8,
                    .paths = {},
                    .failed_only = true,
                    .arrived_only = true,
                    .job = {},
                    .under_way = {TransferState::running},
                    .object = {}})
                  .empty())
      << "ended transfers are not requested";
  release_all();
}

TEST_F(TransfersTest, ReportsTransferTimesForTimelines) {
  world_.bytes_flow = false;
  Agent& reader = world_.at(1);
  want(reader);
  world_.advance(2s);
  world_.bytes_flow = true;
  world_.settle();
  world_.advance(1s);
  reader.forget();
  reader.from_head(SpansRequest{4, 10, {}, {}});
  world_.settle();
  const auto sent = reader.sent<SpansReply>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].request, 4u);
  EXPECT_EQ(sent[0].wall_us, Agent::wall_us);
  ASSERT_EQ(sent[0].transfers.size(), 1u);
  EXPECT_EQ(sent[0].transfers[0].moved, Duration(2s));
  EXPECT_EQ(sent[0].transfers[0].ago, Duration(1s));
  release_all();
}

TEST_F(TransfersTest, CountsTransfersInHeartbeatsAndFinalMessage) {
  Agent& reader = world_.at(1);
  want(reader);
  world_.advance(2s);
  ASSERT_TRUE(reader.heartbeat);
  ASSERT_EQ(reader.heartbeat->stored.size(), 1u);
  EXPECT_EQ(reader.heartbeat->stored[0].path, DirectPath::store);
  EXPECT_EQ(reader.heartbeat->stored[0].transfers, 1u);
  EXPECT_EQ(reader.heartbeat->stored[0].bytes, static_cast<std::uint64_t>(size));
  EXPECT_EQ(reader.heartbeat->stored[0].encrypted, 1u);
  EXPECT_TRUE(home_.heartbeat->stored.empty()) << "nothing came to it";
  reader.step(Stop{false});
  world_.settle();
  std::vector<AgentStopped> farewells;
  for (const SendToHead& each : reader.did<SendToHead>()) {
    if (const auto* farewell = std::get_if<AgentStopped>(&each.message))
      farewells.push_back(*farewell);
  }
  ASSERT_EQ(farewells.size(), 1u);
  EXPECT_EQ(farewells[0].stored, reader.heartbeat->stored);
}

TEST_F(TransfersTest, ReportsReasonWhenTransferFails) {
  world_.bytes_flow = false;
  Agent& reader = world_.at(1);
  want(reader);
  one_arrives(reader);
  reader.step(SlabFailed{reader.core().objects().find(value)->location.slab,
                         failure(ErrorCode::resource_exhausted, "no memory")});
  world_.settle();
  reader.from_head(
      TransfersRequest{.request = 3, .paths = {}, .failed_only = true, .limit = 10, .job = {}});
  world_.settle();
  const auto sent = reader.sent<TransfersReply>();
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].transfers.size(), 1u);
  EXPECT_TRUE(sent[0].transfers[0].failed);
  EXPECT_EQ(sent[0].transfers[0].size_bytes, 100) << "the bytes that arrived by then";
  EXPECT_FALSE(sent[0].transfers[0].refusals.empty());
  world_.bytes_flow = true;
  world_.settle();
}

TEST_F(TransfersTest, SendsTransfersBeforePlannedExit) {
  want(world_.at(1));
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) world_.at(i).step(Stop{false});
  world_.settle();
  const auto sent = world_.at(1).sent<SpansReply>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].request, 0u);
  EXPECT_EQ(sent[0].wall_us, Agent::wall_us);
  EXPECT_EQ(sent[0].transfers.size(), 1u);
  EXPECT_EQ(world_.at(1).did<Exit>().size(), 1u) << "and then it ends";
  EXPECT_TRUE(world_.at(2).sent<SpansReply>().empty()) << "nothing came to it";
  EXPECT_EQ(world_.at(2).did<Exit>().size(), 1u);
}

TEST(OlderHead, ReceivesNoSpansOfNewerProtocol) {
  Agents world(small_chunks());
  world.head_protocol = version_with_stored_transfers - 1;
  Agent& home = world.add();
  Agent& reader = world.add();
  const ProcessId owner = home.driver(1, job);
  reader.driver(1, job);
  world.settle();
  store(world, home, 1, value, size, owner, home.node());
  home.say(1, ExportObject{value});
  FetchObjectRequest fetch;
  fetch.ref = ref_of(value, home, owner);
  reader.say(1, fetch);
  world.settle();
  ASSERT_EQ(reader.received<FetchObjectReply>(1).size(), 1u);
  reader.step(Stop{false});
  world.settle();
  EXPECT_TRUE(reader.sent<SpansReply>().empty());
  EXPECT_EQ(reader.did<Exit>().size(), 1u);
}

TEST_F(TransfersTest, ReplicaHolder_ServesOthers) {
  want(world_.at(1));
  want(world_.at(2));
  EXPECT_TRUE(has_read(world_.at(2)));
  EXPECT_EQ(world_.at(1).did<OfferObject>().size(), 1u) << "the home has offered its copy";
  release_all();
}

TEST_F(TransfersTest, PartialReplica_ServesReceivedChunks) {
  world_.bytes_flow = false;
  Agent& first = world_.at(1);
  Agent& second = world_.at(2);
  want(first);
  want(second);
  EXPECT_EQ(from(first, second), 0u) << "there is nothing yet";
  EXPECT_EQ(from(home_, second), 2u);
  one_arrives(first);
  EXPECT_EQ(from(first, second), 1u);
  for (int i = 0; i < 5; ++i) one_arrives(second);
  EXPECT_GE(from(second, first), 1u) << "and the other way round";
  world_.bytes_flow = true;
  world_.settle();
  EXPECT_TRUE(has_read(first));
  EXPECT_TRUE(has_read(second));
  release_all();
}

TEST_F(TransfersTest, FailedPull_KeepsMemoryWhileRead) {
  world_.bytes_flow = false;
  Agent& first = world_.at(1);
  Agent& second = world_.at(2);
  want(first);
  one_arrives(first);
  want(second);
  ASSERT_EQ(from(first, second), 1u);
  first.say(1, CancelFetch{value});
  first.say(1, ReleaseObject{value});
  for (const auto& each : std::vector(world_.moving)) {
    if (each.reader == &first) world_.cut_chunk(first, each.chunk);
  }
  EXPECT_EQ(first.core().census().pulls, 1u);
  EXPECT_GT(first.core().objects().space().used_bytes(), 0u) << "as long as the other reads there";
  world_.bytes_flow = true;
  world_.settle();
  EXPECT_TRUE(has_read(second));
  EXPECT_EQ(first.core().census().entries, 0u);
  release_all();
}

TEST_F(TransfersTest, RelayedPullFailed_ReadersUseAnotherSource) {
  world_.bytes_flow = false;
  Agent& first = world_.at(1);
  Agent& second = world_.at(2);
  want(first);
  one_arrives(first);
  want(second);
  ASSERT_EQ(from(first, second), 1u);
  first.step(SlabFailed{first.core().objects().find(value)->location.slab,
                        failure(ErrorCode::resource_exhausted, "no memory")});
  world_.settle();
  EXPECT_EQ(from(first, second), 0u) << "running transfers are cut";
  world_.bytes_flow = true;
  world_.settle();
  EXPECT_TRUE(has_read(second));
  unwant(first);
  release_all();
}

TEST_F(TransfersTest, HolderDied_RestComesFromAnother) {
  want(world_.at(1));
  world_.bytes_flow = false;
  Agent& reader = world_.at(2);
  want(reader);
  ASSERT_GT(from(world_.at(1), reader), 0u);
  ASSERT_GT(from(home_, reader), 0u);
  one_arrives(reader);
  const std::size_t before = reader.did<FetchBulk>().size();
  world_.die(world_.at(1));
  world_.announce_death(world_.at(1));
  world_.bytes_flow = true;
  world_.settle();
  EXPECT_TRUE(has_read(reader));
  EXPECT_LT(before + reader.did<FetchBulk>().size(), 16u) << "arrived chunks are not fetched again";
  release_all();
}

// Both agents number their pulls from 1.
TEST_F(TransfersTest, NewAgent_MayReusePullNumbers) {
  Agent& dead = world_.at(1);
  home_.serves_slowly = true;
  world_.bytes_flow = false;
  want(dead);
  world_.die(dead);
  world_.announce_death(dead);
  ASSERT_EQ(home_.core().census().offers, 1u) << "the bytes for the dead are still on their way";
  Agent& next = world_.add_after(dead);
  next.driver(1, job);
  world_.bytes_flow = true;
  want(next);
  EXPECT_TRUE(has_read(next));
  EXPECT_EQ(home_.did<WithdrawBulk>().size(), 2u);
  home_.end_serving();
  EXPECT_EQ(home_.core().census().offers, 0u);
  unwant(next);
  release_all();
}

TEST_F(TransfersTest, AcceptsPlainBytesOnlyOnTrustedFabric) {
  Agent& reader = world_.at(1);
  world_.plain_against_orders = true;
  want(reader);
  world_.advance(5s);
  const auto received = reader.received<FetchObjectReply>(1);
  ASSERT_EQ(received.size(), 1u);
  ASSERT_TRUE(received[0].failure);
  EXPECT_EQ(received[0].failure->code, ErrorCode::permission_denied);
  EXPECT_TRUE(reader.did<FetchBulk>().empty());
  release_all();
}

TEST_F(TransfersTest, AtLimit_ArgumentsPrecedeOthers) {
  Agent& reader = world_.at(1);
  world_.bytes_flow = false;
  for (std::uint64_t i = 1; i <= 17; ++i) {
    const ObjectId other = ObjectId::of(1000 + i);
    store(world_, home_, 1, other, 100, owner_, home_.node());
    home_.say(1, ExportObject{other});
    FetchObjectRequest fetch;
    fetch.ref = ref_of(other, home_, owner_);
    reader.say(1, fetch);
    world_.settle();
  }
  want(reader, true);
  // Sixteen pulls have memory; the seventeenth waits, and the argument follows it.
  one_arrives(reader);
  EXPECT_TRUE(reader.core().objects().find(value)->has_location());
  EXPECT_FALSE(reader.core().objects().find(ObjectId::of(1017))->has_location());
}

}  // namespace
}  // namespace mobula::internal::worker::transfers
