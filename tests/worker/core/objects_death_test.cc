#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::deaths {
namespace {

const JobId job = JobId::of(5);
const ObjectId value = ObjectId::of(77);

class ObjectDeathsTest : public ::testing::Test {
 protected:
  ObjectDeathsTest() : home_(world_.add()), other_(world_.add()), third_(world_.add()) {
    owner_ = home_.driver(1, job);
    borrowed_from_ = other_.driver(1, job);
    third_.driver(1, job);
    settle();
    for (std::size_t i = 0; i < 3; ++i) world_.at(i).forget();
  }

  void settle() { world_.settle(); }
  RefRecord ref() const { return ref_of(value, home_, owner_); }
  void put_and_export() {
    store(world_, home_, 1, value, 1000, owner_, home_.node());
    home_.say(1, ExportObject{value});
  }
  void release(Agent& agent) {
    agent.say(1, ReleaseObject{value});
    settle();
  }
  std::vector<FetchObjectReply> fetch(Agent& agent) {
    agent.say(1, FetchObjectRequest{ref(), NodeId{}});
    settle();
    return agent.received<FetchObjectReply>(1);
  }
  // The head replies to LocateObjectRequest of this agent.
  void locate(Agent& agent, std::vector<NodeId> nodes) {
    const auto requests = agent.sent<LocateObjectRequest>();
    ASSERT_EQ(requests.size(), 1u);
    agent.from_head(LocateObjectReply{requests[0].object, std::move(nodes)});
    settle();
  }
  // Starts an executor of the home, on link 2.
  ProcessId run_executor() {
    home_.from_head(slot_of(1, job, owner_));
    settle();
    home_.step(ProgramPrepared{ProgramId::of(1), {}, std::nullopt});
    started_ = home_.run_executor(2);
    settle();
    home_.forget();
    return started_.assign.process;
  }
  static EndCause signalled() {
    EndCause cause;
    cause.kind = EndKind::signalled;
    cause.signal = 11;
    return cause;
  }
  void kill(Agent& agent) {
    world_.die(agent);
    world_.announce_death(agent);
  }

  Agents world_;
  Agent& home_;
  Agent& other_;
  Agent& third_;
  ProcessId owner_;
  ProcessId borrowed_from_;  // driver of `other_`
  StartExecutor started_;
};

// Elements of a tensor are in the store before any reader is sent there.
TEST_F(ObjectDeathsTest, TensorElementsNotStored_FailsAtOnce) {
  home_.say(1, ExportObject{value, true});
  for (Agent* agent : {&home_, &other_}) {
    const auto received = fetch(*agent);
    ASSERT_EQ(received.size(), 1u);
    ASSERT_TRUE(received[0].failure);
    EXPECT_NE(received[0].failure->text.find("not in the store"), std::string::npos)
        << received[0].failure->text;
    agent->forget();
  }
  store(world_, home_, 1, value, 1000, owner_, home_.node());
  home_.forget();
  const auto received = fetch(home_);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_FALSE(received[0].failure);
}

TEST_F(ObjectDeathsTest, OwnerDied_UnmadeObjectsFail) {
  home_.say(1, ExportObject{value});
  EXPECT_TRUE(fetch(other_).empty());
  home_.step(ProcessLinkLost{1});
  settle();
  const auto received = other_.received<FetchObjectReply>(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_NE(received[0].failure->text.find("its owner"), std::string::npos);
  release(other_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, UnsealedBytes_StayUntilSecondSealerReplies) {
  // A replica, held by a reader only.
  put_and_export();
  EXPECT_EQ(fetch(other_).size(), 1u);
  other_.driver(2, job);
  other_.say(2, ReserveObjectRequest{value, 1000});
  EXPECT_EQ(other_.received<ReserveObjectReply>(2).at(0).failure->code, ErrorCode::already_exists);
  release(other_);
  EXPECT_NE(other_.core().objects().find(value), nullptr);
  other_.say(2, SealObjectRequest{value, ProcessId::of(900), third_.node(), false, {}});
  settle();
  EXPECT_EQ(other_.received<SealObjectReply>(2).size(), 1u);
  EXPECT_EQ(other_.core().objects().find(value), nullptr) << "the owner named is unknown there";
  // They are released, too, if the process exits before its seal.
  EXPECT_EQ(fetch(other_).size(), 1u);
  other_.say(2, ReserveObjectRequest{value, 1000});
  release(other_);
  other_.step(ProcessLinkLost{2});
  settle();
  release(home_);
  expect_empty(world_, 3, 2);
}

TEST_F(ObjectDeathsTest, NamedHomeDied_RepliesToSealer) {
  put_and_export();
  EXPECT_EQ(fetch(other_).size(), 1u);
  world_.die(third_);
  other_.say(1, ReserveObjectRequest{value, 1000});
  other_.say(1, SealObjectRequest{value, ProcessId::of(900), third_.node(), false, {}});
  settle();
  EXPECT_TRUE(other_.received<SealObjectReply>(1).empty());
  world_.announce_death(third_);
  EXPECT_EQ(other_.received<SealObjectReply>(1).size(), 1u);
}

TEST_F(ObjectDeathsTest, ExecutorCrashed_ForwardedResultsStay) {
  const ProcessId executor = run_executor();
  const RefRecord made = ref_of(value, home_, executor);
  store(world_, home_, 2, value, 1000, executor, home_.node());
  home_.say(2, ExportObject{value});
  store(world_, home_, 2, ObjectId::of(78), 1000, executor, home_.node());  // never passed on
  home_.executor_exits(started_, signalled());
  EXPECT_EQ(home_.core().objects().find(ObjectId::of(78)), nullptr);
  other_.say(1, HoldObjectRequest{made});
  settle();
  world_.advance(2s);
  other_.say(1, FetchObjectRequest{made, NodeId{}});
  settle();
  const auto received = other_.received<FetchObjectReply>(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_FALSE(received[0].failure) << received[0].failure->text;
  release(other_);
  EXPECT_EQ(home_.core().census().objects, 0u);
}

TEST_F(ObjectDeathsTest, ExecutorCrashed_BorrowsOutliveItBriefly) {
  store(world_, other_, 1, value, 1000, borrowed_from_, other_.node());
  other_.say(1, ExportObject{value});
  run_executor();
  home_.say(2, HoldObjectRequest{ref_of(value, other_, borrowed_from_)});
  settle();
  home_.executor_exits(started_, signalled());
  settle();
  EXPECT_EQ(other_.core().objects().find(value)->nodes, (std::set<NodeId>{home_.node()}));
  world_.advance(2s);
  EXPECT_TRUE(other_.core().objects().find(value)->nodes.empty()) << "no process claimed it";
  EXPECT_EQ(home_.core().census().objects, 0u);
}

TEST_F(ObjectDeathsTest, ExecutorRetired_ReleasesItsHolds) {
  const ProcessId executor = run_executor();
  store(world_, home_, 2, value, 1000, executor, home_.node());
  home_.say(2, ExportObject{value});
  home_.say(2, ExecutorRetires{EndKind::retired});
  home_.executor_exits(started_);
  EXPECT_EQ(home_.core().census().objects, 0u);
}

TEST_F(ObjectDeathsTest, OwnerDied_HeldBytesStay) {
  put_and_export();
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  home_.step(ProcessLinkLost{1});
  settle();
  EXPECT_FALSE(fetch(other_).at(0).failure);
  release(other_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, BorrowerDied_ReleasesOnlyItsHolds) {
  put_and_export();
  EXPECT_EQ(fetch(other_).size(), 1u);
  EXPECT_EQ(fetch(third_).size(), 1u);
  release(home_);
  other_.step(ProcessLinkLost{1});
  settle();
  EXPECT_EQ(home_.core().objects().find(value)->nodes, (std::set<NodeId>{third_.node()}));
  release(third_);
  EXPECT_EQ(home_.received<ExportReleased>(1).size(), 1u);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, DeadNode_HoldsNothing) {
  put_and_export();
  EXPECT_EQ(fetch(other_).size(), 1u);
  release(home_);
  kill(other_);
  EXPECT_EQ(home_.received<ExportReleased>(1).size(), 1u);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, ReaderDiedWhileReading_LeavesNothing) {
  put_and_export();
  world_.bytes_flow = false;
  EXPECT_TRUE(fetch(other_).empty());
  kill(other_);
  release(home_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, LastReplicaLost_OwnerRecomputes) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  world_.die(third_);
  EXPECT_TRUE(fetch(other_).empty());
  world_.announce_death(third_);
  locate(home_, {});
  EXPECT_EQ(home_.received<ObjectGone>(1).size(), 1u);
  EXPECT_TRUE(other_.received<FetchObjectReply>(1).empty()) << "it waits for the second run";
  world_.advance(11s);
  home_.say(1, ReserveObjectRequest{value, 1000});
  home_.say(1, SealObjectRequest{value, owner_, home_.node(), false, {}});
  settle();
  world_.advance(30s);
  EXPECT_FALSE(other_.received<FetchObjectReply>(1).at(0).failure);
  release(home_);
  release(other_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, LastReplicaLostWithoutOwner_FailsWithCause) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  home_.step(ProcessLinkLost{1});
  kill(third_);
  locate(home_, {});
  const auto received = fetch(other_);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_NE(received[0].failure->text.find(third_.node().brief()), std::string::npos);
  release(other_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, HolderDied_OtherReplicaServes) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  EXPECT_EQ(fetch(other_).size(), 1u);
  kill(third_);
  EXPECT_TRUE(home_.sent<LocateObjectRequest>().empty()) << "the copy is known at the home";
  EXPECT_TRUE(home_.received<ObjectGone>(1).empty());
  EXPECT_FALSE(fetch(home_).at(0).failure);
  release(home_);
  release(other_);
  expect_empty(world_, 3, 1);
}

// The holder of the last replica releases it while another node holds the object without its bytes.
TEST_F(ObjectDeathsTest, LastReplicaReleased_OwnerRecomputes) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  EXPECT_EQ(fetch(other_).size(), 1u);
  kill(third_);
  EXPECT_TRUE(home_.received<ObjectGone>(1).empty()) << "one copy is left";
  release(other_);
  EXPECT_EQ(home_.received<ObjectGone>(1).size(), 1u);
  EXPECT_TRUE(fetch(other_).empty()) << "waits for the second run";
  home_.say(1, ReserveObjectRequest{value, 1000});
  home_.say(1, SealObjectRequest{value, owner_, home_.node(), false, {}});
  settle();
  EXPECT_FALSE(other_.received<FetchObjectReply>(1).at(0).failure);
  release(home_);
  release(other_);
  expect_empty(world_, 3, 1);
}

// A replica is reported while the home searches for replicas: the search ends without a reply to
// the askers.
TEST_F(ObjectDeathsTest, ReplicaReportedDuringSearch_ReadersRead) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  other_.say(1, HoldObjectRequest{ref()});
  Agent& fourth = world_.add();
  fourth.driver(1, job);
  settle();
  world_.bytes_flow = false;
  EXPECT_TRUE(fetch(other_).empty());
  world_.die(third_);
  PeersChanged news;
  news.dead_agents = {third_.address().incarnation};
  home_.from_head(news);
  settle();
  EXPECT_TRUE(fetch(fourth).empty());
  // The pull of `other_` completes nevertheless.
  world_.bytes_flow = true;
  for (const auto& each : std::exchange(world_.moving, {}))
    world_.post(*each.reader, ChunkFetched{each.chunk, {}});
  settle();
  ASSERT_EQ(other_.received<FetchObjectReply>(1).size(), 1u);
  const auto received = fourth.received<FetchObjectReply>(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_FALSE(received[0].failure);
}

// The link between two nodes is cut; both reach the home.
TEST_F(ObjectDeathsTest, HolderUnreachable_HomeRelays) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  world_.cut_between(other_, third_);
  EXPECT_TRUE(fetch(other_).empty());
  world_.advance(11s);
  const auto received = other_.received<FetchObjectReply>(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_FALSE(received[0].failure) << received[0].failure->text;
  EXPECT_TRUE(home_.core().objects().find(value)->here());
}

// The object is recomputed on the node whose pull still waits for an unreachable holder.
TEST_F(ObjectDeathsTest, PullWaits_RecomputedBytesReplaceIt) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  world_.cut_between(other_, third_);
  world_.cut_between(home_, third_);
  EXPECT_TRUE(fetch(other_).empty());
  other_.say(1, ReserveObjectRequest{value, 1000});
  settle();
  const auto reserved = other_.received<ReserveObjectReply>(1);
  ASSERT_EQ(reserved.size(), 1u);
  EXPECT_FALSE(reserved[0].failure) << reserved[0].failure->text;
  other_.say(1, SealObjectRequest{value, owner_, home_.node(), false, {}});
  settle();
  const auto read = other_.received<FetchObjectReply>(1);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_FALSE(read[0].failure);
}

// Two attempts of one task write its result on one node.
TEST_F(ObjectDeathsTest, SecondWriter_WaitsForFirst) {
  third_.driver(2, job);
  third_.driver(3, job);
  settle();
  third_.say(1, ReserveObjectRequest{value, 1000});
  third_.say(2, ReserveObjectRequest{value, 1000});
  third_.say(3, ReserveObjectRequest{value, 1000});
  settle();
  EXPECT_TRUE(third_.received<ReserveObjectReply>(2).empty());
  third_.step(ProcessLinkLost{1});
  settle();
  const auto second = third_.received<ReserveObjectReply>(2);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_FALSE(second[0].failure);
  third_.say(2, SealObjectRequest{value, owner_, home_.node(), false, {}});
  settle();
  EXPECT_EQ(third_.received<ReserveObjectReply>(3).at(0).failure->code, ErrorCode::already_exists);
}

// No node reads from the holder: its bytes count as lost, and the owner recomputes them.
TEST_F(ObjectDeathsTest, HolderSilent_OwnerRecomputes) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  world_.cut_between(other_, third_);
  world_.cut_between(home_, third_);
  EXPECT_TRUE(fetch(other_).empty());
  EXPECT_TRUE(fetch(home_).empty());
  world_.advance(60s);
  EXPECT_EQ(home_.received<ObjectGone>(1).size(), 1u);
  EXPECT_TRUE(home_.received<FetchObjectReply>(1).empty())
      << "a failure that is not the reader's timeout";
  EXPECT_TRUE(other_.received<FetchObjectReply>(1).empty());
}

// The asker has learned of a death before the home: not a loss yet.
TEST_F(ObjectDeathsTest, ReaderKnowsOfDeathFirst_Waits) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  world_.die(third_);
  PeersChanged news;
  news.dead_agents = {third_.address().incarnation};
  other_.from_head(news);
  settle();
  EXPECT_TRUE(fetch(other_).empty());
  world_.advance(60s);
  EXPECT_EQ(home_.received<ObjectGone>(1).size(), 1u);
  EXPECT_TRUE(other_.received<FetchObjectReply>(1).empty()) << "waits for the second run";
}

// A failure that was recorded while the home was dead is void once its node has another agent.
TEST_F(ObjectDeathsTest, HomeReplaced_ReaderRetries) {
  put_and_export();
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  kill(home_);
  locate(other_, {});
  ASSERT_TRUE(fetch(other_).at(0).failure);
  Agent& next = world_.add_after(home_);
  const ProcessId owner = next.driver(1, job);
  settle();
  store(world_, next, 1, value, 1000, owner, next.node());
  next.say(1, ExportObject{value});
  settle();
  const auto received = fetch(other_);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_FALSE(received[0].failure) << received[0].failure->text;
}

// The owner of a result outlives the agent of its node, and knows the node that stores the bytes.
TEST_F(ObjectDeathsTest, HomeReplaced_OwnerNamesLocation) {
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  kill(home_);
  Agent& next = world_.add_after(home_);
  const ProcessId owner = next.driver(1, job);
  settle();
  next.say(1, ExportObject{value});
  next.say(1, FetchObjectRequest{ref_of(value, next, owner), third_.node()});
  settle();
  const auto received = next.received<FetchObjectReply>(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_FALSE(received[0].failure) << received[0].failure->text;
  EXPECT_TRUE(next.core().objects().find(value)->here());
}

TEST_F(ObjectDeathsTest, NamedLocationHasNoBytes_OwnerRecomputes) {
  kill(third_);
  home_.say(1, ExportObject{value});
  for (const Agent* named : {&other_, &third_}) {
    home_.say(1, FetchObjectRequest{ref(), named->node()});
    world_.advance(2s);  // a node without the object waits for its claim
    const auto gone = home_.received<ObjectGone>(1);
    ASSERT_EQ(gone.size(), 1u);
    EXPECT_NE(gone[0].cause.find(named->node().brief()), std::string::npos) << gone[0].cause;
  }
  EXPECT_TRUE(home_.received<FetchObjectReply>(1).empty()) << "it waits for the second run";
}

// The node dies before it replies.
TEST_F(ObjectDeathsTest, NamedLocationDies_OwnerRecomputes) {
  home_.say(1, ExportObject{value});
  world_.die(third_);
  home_.say(1, FetchObjectRequest{ref(), third_.node()});
  settle();
  EXPECT_TRUE(home_.received<ObjectGone>(1).empty());
  world_.announce_death(third_);
  EXPECT_EQ(home_.received<ObjectGone>(1).size(), 1u);
}

TEST_F(ObjectDeathsTest, HomeDied_ReplicaStaysReadable) {
  put_and_export();
  EXPECT_EQ(fetch(other_).size(), 1u);
  kill(home_);
  EXPECT_FALSE(fetch(other_).at(0).failure);
  release(other_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, HomeDied_HolderFindsReplica) {
  put_and_export();
  EXPECT_EQ(fetch(third_).size(), 1u);
  other_.say(1, HoldObjectRequest{ref()});
  world_.advance(20ms);
  EXPECT_EQ(third_.sent<ObjectCopies>().at(0).added, (std::vector<ObjectId>{value}));
  kill(home_);
  locate(other_, {third_.node()});
  EXPECT_FALSE(fetch(other_).at(0).failure) << "it was saved at once";
  release(other_);
  release(third_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, KeepsBytesForUnknownHoldersForAWhile) {
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  kill(home_);
  locate(other_, {third_.node()});
  EXPECT_FALSE(fetch(other_).at(0).failure);
  release(other_);
  world_.advance(31s);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, HomeDied_OnlyReplicaIsLost) {
  put_and_export();
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  world_.die(home_);
  EXPECT_TRUE(fetch(other_).empty());
  world_.announce_death(home_);
  locate(other_, {});
  const auto received = other_.received<FetchObjectReply>(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_NE(received[0].failure->text.find("its home"), std::string::npos);
  EXPECT_TRUE(fetch(other_).at(0).failure) << "a later fetch fails too";
  release(other_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, HeadDoesNotLocate_FailsAfterTimeout) {
  put_and_export();
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  kill(home_);
  EXPECT_TRUE(fetch(other_).empty());
  world_.advance(11s);
  EXPECT_TRUE(other_.received<FetchObjectReply>(1).at(0).failure);
}

TEST_F(ObjectDeathsTest, HomeDied_RepliesToStoringExecutor) {
  world_.die(home_);
  other_.say(1, ReserveObjectRequest{value, 1000});
  other_.say(1, SealObjectRequest{value, owner_, home_.node(), false, {}});
  settle();
  EXPECT_TRUE(other_.received<SealObjectReply>(1).empty());
  world_.announce_death(home_);
  EXPECT_EQ(other_.received<SealObjectReply>(1).size(), 1u);
  world_.advance(31s);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, HomeDied_HolderIsConfirmed) {
  world_.die(home_);
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  EXPECT_TRUE(other_.received<HoldObjectReply>(1).empty());
  world_.announce_death(home_);
  EXPECT_EQ(other_.received<HoldObjectReply>(1).size(), 1u);
}

TEST_F(ObjectDeathsTest, NodeUnknownToHead_CountsAsDead) {
  RefRecord strange = ref();
  strange.home = NodeId::of(99);
  other_.say(1, FetchObjectRequest{strange, NodeId{}});
  world_.advance(45s);
  EXPECT_TRUE(other_.received<FetchObjectReply>(1).at(0).failure);
  other_.say(1, ReleaseObject{value});
  settle();
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectDeathsTest, NewIncarnation_MeansDeathOfPreviousOne) {
  put_and_export();
  EXPECT_EQ(fetch(other_).size(), 1u);
  world_.die(other_);
  const ProcessId dead = other_.address().incarnation;
  PeersChanged news;
  news.present = {other_.address()};
  news.present[0].incarnation = ProcessId::of(4242);
  home_.from_head(news);
  settle();
  EXPECT_TRUE(home_.core().objects().find(value)->nodes.empty());
  const PeersDead published = home_.received<PeersDead>(1).at(0);
  EXPECT_EQ(published.nodes, (std::vector<NodeId>{other_.node()}));
  EXPECT_EQ(published.processes, (std::vector<ProcessId>{dead}))
      << "executors of the node may be callers here";
}

TEST_F(ObjectDeathsTest, ReportsReplicasAndQueriesToNewHead) {
  put_and_export();
  EXPECT_EQ(fetch(other_).size(), 1u);
  world_.advance(20ms);
  other_.forget();
  ++world_.epoch;
  other_.step(ReceivedFromHead{RegisterRejected{world_.epoch, other_.address().incarnation,
                                                RefusalCode::unknown, "a new head"}});
  settle();
  EXPECT_EQ(other_.sent<ObjectCopies>().at(0).added, (std::vector<ObjectId>{value}));
}

}  // namespace
}  // namespace mobula::internal::worker::deaths
