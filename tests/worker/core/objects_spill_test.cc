// Memory pressure in the store: eviction, spilling, and restoring.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::spills {
namespace {

using ::testing::HasSubstr;

const JobId job = JobId::of(5);
constexpr std::int64_t big = 120 << 10;  // one object fills a slab; the store holds eight

// Drivers on link 1 of each node; `owner_` is the driver of the home. The store holds 1 MiB in
// slabs of 128 KiB, and spills above 80 % of it.
class SpillTest : public ::testing::Test {
 protected:
  SpillTest()
      : world_(options()),
        home_(world_.add()),
        other_(world_.add()),
        owner_(home_.driver(1, job)),
        borrower_(other_.driver(1, job)) {
    settle();
    home_.forget();
    other_.forget();
  }

  static WorkerOptions options() {
    WorkerOptions options = Agents::small();
    options.first_slab_bytes = options.max_slab_bytes = 128 << 10;
    return options;
  }
  void settle() { world_.settle(); }
  RefRecord ref(std::uint64_t number) const { return ref_of(ObjectId::of(number), home_, owner_); }
  ObjectState state(const Agent& agent, std::uint64_t number) {
    const ObjectRow* row = const_cast<Agent&>(agent).core().objects().find(ObjectId::of(number));
    return row == nullptr ? ObjectState::failed : row->state;
  }
  // Acts as a process without readers: returns every location at once.
  void unpin_all(Agent& agent, LinkId link = 1) {
    for (auto requests = agent.received<UnpinRequest>(link); !requests.empty();
         requests = agent.received<UnpinRequest>(link)) {
      for (const auto& each : requests) agent.say(link, UnpinReply{each.object, each.fetch});
      settle();
      for (const auto& retired : agent.received<UnmapSlabRequest>(link)) {
        agent.say(link, UnmapSlabReply{retired.slab});
      }
      settle();
    }
  }
  std::vector<ReserveObjectReply> reserve(std::uint64_t number, Agent& agent,
                                          std::int64_t size = big) {
    agent.say(1, ReserveObjectRequest{ObjectId::of(number), size});
    settle();
    unpin_all(agent);
    return agent.received<ReserveObjectReply>(1);
  }
  void put(std::uint64_t number) {
    const auto reserved = reserve(number, home_);
    ASSERT_EQ(reserved.size(), 1u);
    ASSERT_FALSE(reserved[0].failure) << reserved[0].failure->text;
    home_.say(1, SealObjectRequest{ObjectId::of(number), owner_, home_.node(), false, {}});
    settle();
    unpin_all(home_);
    home_.received<SealObjectReply>(1);
  }
  void put_many(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i <= to; ++i) {
      world_.advance(1ms);
      put(i);
    }
  }
  std::vector<FetchObjectReply> fetch(Agent& agent, std::uint64_t number, std::uint64_t with = 7) {
    agent.say(1, FetchObjectRequest{ref(number), NodeId{}, with});
    settle();
    unpin_all(agent);
    return agent.received<FetchObjectReply>(1);
  }
  // The driver maps these objects, and returns none before unpin_all().
  void map_all(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i <= to; ++i)
      home_.say(1, FetchObjectRequest{ref(i), NodeId{}, i});
    settle();
    home_.received<FetchObjectReply>(1);
  }
  void release_all(Agent& agent) {
    for (std::uint64_t i = 1; i <= 40; ++i) agent.say(1, ReleaseObject{ObjectId::of(i)});
    settle();
    for (const auto& retired : agent.received<UnmapSlabRequest>(1))
      agent.say(1, UnmapSlabReply{retired.slab});
    settle();
  }

  // Eight objects have memory, and the disk completes no write; the ninth waits.
  void fill_while_the_disk_waits() {
    home_.disk_waits = true;
    put_many(1, 8);
    ASSERT_TRUE(reserve(9, home_).empty());
  }

  Agents world_;
  Agent& home_;
  Agent& other_;
  ProcessId owner_, borrower_;
};

TEST_F(SpillTest, DiskSlow_RejectsWaitingReservation) {
  fill_while_the_disk_waits();
  world_.now = world_.now + 100s;
  home_.step(Tick{});
  settle();
  const auto reserved = home_.received<ReserveObjectReply>(1);
  ASSERT_EQ(reserved.size(), 1u);
  ASSERT_TRUE(reserved[0].failure);
  EXPECT_THAT(reserved[0].failure->text, HasSubstr("the disk takes too long"));
  home_.disk_goes_on();
}

TEST_F(SpillTest, AbandonedWrite_TakesNoMemory) {
  fill_while_the_disk_waits();
  home_.say(1, ReleaseObject{ObjectId::of(9), true});
  home_.disk_goes_on();
  settle();
  world_.advance(1s);
  unpin_all(home_);
  EXPECT_TRUE(home_.received<ReserveObjectReply>(1).empty());
  EXPECT_EQ(home_.core().objects().find(ObjectId::of(9)), nullptr);
}

TEST_F(SpillTest, ProcessReturnsMemoryLate_WriterGetsIt) {
  put_many(1, 8);
  map_all(1, 8);
  home_.say(1, ReserveObjectRequest{ObjectId::of(9), big});
  settle();
  for (int i = 0; i < 30; ++i) {
    world_.advance(100ms);
    home_.step(Tick{});
    settle();
  }
  EXPECT_TRUE(home_.received<ReserveObjectReply>(1).empty())
      << "everything in the store can be spilled";
  unpin_all(home_);
  world_.advance(5ms);
  unpin_all(home_);
  const auto reserved = home_.received<ReserveObjectReply>(1);
  ASSERT_EQ(reserved.size(), 1u);
  EXPECT_FALSE(reserved[0].failure) << reserved[0].failure->text;
}

TEST_F(SpillTest, ProcessNeverReturnsMemory_WriterIsRejected) {
  put_many(1, 8);
  map_all(1, 8);
  home_.say(1, ReserveObjectRequest{ObjectId::of(9), big});
  settle();
  for (int i = 0; i < 30; ++i) {
    world_.advance(1s);
    home_.step(Tick{});
    settle();
  }
  const auto reserved = home_.received<ReserveObjectReply>(1);
  ASSERT_EQ(reserved.size(), 1u);
  ASSERT_TRUE(reserved[0].failure);
  EXPECT_THAT(reserved[0].failure->text, HasSubstr("are being read in place"));
}

// As after a suspend of the machine, or a stop of all its processes.
TEST_F(SpillTest, AgentPaused_ExtendsReservationTimeout) {
  fill_while_the_disk_waits();
  world_.now = world_.now + 100s;
  home_.step(Paused{100s});
  home_.step(Tick{});
  settle();
  EXPECT_TRUE(home_.received<ReserveObjectReply>(1).empty()) << "it waits on";
  home_.disk_goes_on();
  settle();
  unpin_all(home_);
  const auto reserved = home_.received<ReserveObjectReply>(1);
  ASSERT_EQ(reserved.size(), 1u);
  EXPECT_FALSE(reserved[0].failure);
}

TEST_F(SpillTest, SpillsBeyondCapacityAndRestores) {
  put_many(1, 20);
  EXPECT_EQ(state(home_, 1), ObjectState::spilled);
  EXPECT_EQ(state(home_, 20), ObjectState::sealed);
  EXPECT_GT(home_.core().objects().spilled_bytes(), 0u);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    const auto read = fetch(home_, i, i);
    ASSERT_EQ(read.size(), 1u) << i;
    ASSERT_FALSE(read[0].failure) << read[0].failure->text;
    EXPECT_EQ(read[0].fetch, i);
    world_.advance(1ms);
  }
  EXPECT_LE(home_.core().objects().space().committed_bytes(),
            home_.core().objects().space().capacity_bytes());
  release_all(home_);
  expect_empty(world_, 2, 1);
}

TEST_F(SpillTest, SpillsOldestAndKeepsUsed) {
  put_many(1, 6);
  fetch(home_, 1);
  home_.say(1, UnpinReply{ObjectId::of(1), 7});
  put_many(7, 9);
  EXPECT_EQ(state(home_, 1), ObjectState::sealed);
  EXPECT_EQ(state(home_, 2), ObjectState::spilled);
}

TEST_F(SpillTest, ObjectMapped_StaysAndUnpinRequestedOnce) {
  put_many(1, 6);
  home_.say(1, FetchObjectRequest{ref(1), NodeId{}, 3});
  settle();
  const auto location = home_.received<FetchObjectReply>(1).at(0).location;
  home_.forget();
  std::vector<UnpinRequest> requests;
  for (std::uint64_t i = 7; i <= 12; ++i) {
    world_.advance(1ms);
    home_.say(1, ReserveObjectRequest{ObjectId::of(i), big});
    for (int round = 0; round < 5; ++round) {
      settle();
      for (const auto& each : home_.received<UnpinRequest>(1)) {
        if (each.object == ObjectId::of(1)) {
          requests.push_back(each);
        } else {
          home_.say(1, UnpinReply{each.object, each.fetch});
        }
      }
      for (const auto& gone : home_.received<UnmapSlabRequest>(1))
        home_.say(1, UnmapSlabReply{gone.slab});
      world_.advance(300ms);
    }
    ASSERT_EQ(home_.received<ReserveObjectReply>(1).size(), 1u);
    home_.say(1, SealObjectRequest{ObjectId::of(i), owner_, home_.node(), false, {}});
    settle();
  }
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].fetch, 3u);
  EXPECT_EQ(state(home_, 1), ObjectState::sealed);
  EXPECT_EQ(home_.core().objects().find(ObjectId::of(1))->location.offset,
            static_cast<std::uint64_t>(location.offset));
}

TEST_F(SpillTest, IgnoresUnpinOfEarlierFetch) {
  put(1);
  home_.say(1, FetchObjectRequest{ref(1), NodeId{}, 3});
  home_.say(1, UnpinReply{ObjectId::of(1), 2});
  EXPECT_TRUE(home_.core().in_place(owner_, ObjectId::of(1)));
  home_.say(1, UnpinReply{ObjectId::of(1), 3});
  EXPECT_FALSE(home_.core().in_place(owner_, ObjectId::of(1)));
}

TEST_F(SpillTest, DiskBusy_ReserveWaitsForWrite) {
  put_many(1, 6);
  home_.disk_waits = true;
  home_.say(1, ReserveObjectRequest{ObjectId::of(7), big});
  settle();
  unpin_all(home_);
  home_.received<ReserveObjectReply>(1);
  home_.say(1, SealObjectRequest{ObjectId::of(7), owner_, home_.node(), false, {}});
  settle();
  unpin_all(home_);
  home_.say(1, ReserveObjectRequest{ObjectId::of(8), 4 * big});
  settle();
  unpin_all(home_);
  world_.advance(10s);
  EXPECT_TRUE(home_.received<ReserveObjectReply>(1).empty());
  home_.disk_goes_on();
  unpin_all(home_);
  const auto answer = home_.received<ReserveObjectReply>(1);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_FALSE(answer[0].failure) << answer[0].failure->text;
}

TEST_F(SpillTest, DiskFull_ReportsErrorAndLosesNothing) {
  home_.disk_fails = failure(ErrorCode::resource_exhausted, "no space left on device");
  put_many(1, 8);
  home_.say(1, ReserveObjectRequest{ObjectId::of(9), big});
  settle();
  unpin_all(home_);
  world_.advance(70s);
  unpin_all(home_);
  const auto answer = home_.received<ReserveObjectReply>(1);
  ASSERT_EQ(answer.size(), 1u);
  ASSERT_TRUE(answer[0].failure);
  EXPECT_EQ(answer[0].failure->code, ErrorCode::resource_exhausted);
  EXPECT_THAT(answer[0].failure->text, HasSubstr("no space left on device"));
  for (std::uint64_t i = 1; i <= 8; ++i) EXPECT_EQ(state(home_, i), ObjectState::sealed);
  home_.disk_fails.reset();
  world_.advance(15s);
  put(10);
}

TEST_F(SpillTest, DiskFull_SpilledObjectsStayReadable) {
  put_many(1, 10);
  ASSERT_EQ(state(home_, 1), ObjectState::spilled);
  home_.disk_fails = failure(ErrorCode::resource_exhausted, "no space left on device");
  std::uint64_t kept = 10;
  for (std::uint64_t i = 11; i <= 20; ++i) {
    home_.say(1, ReserveObjectRequest{ObjectId::of(i), big});
    settle();
    unpin_all(home_);
    world_.advance(70s);
    unpin_all(home_);
    const auto answer = home_.received<ReserveObjectReply>(1);
    ASSERT_EQ(answer.size(), 1u);
    if (answer[0].failure) break;
    home_.say(1, SealObjectRequest{ObjectId::of(i), owner_, home_.node(), false, {}});
    settle();
    unpin_all(home_);
    kept = i;
  }
  EXPECT_LT(kept, 20u);
  for (std::uint64_t i = 1; i <= kept; ++i) {
    const auto read = fetch(home_, i, i);
    ASSERT_EQ(read.size(), 1u) << i;
    EXPECT_FALSE(read[0].failure) << read[0].failure->text;
    world_.advance(2ms);
  }
}

TEST_F(SpillTest, SpillFileDamaged_OwnerIsNotified) {
  put_many(1, 12);
  ASSERT_EQ(state(home_, 1), ObjectState::spilled);
  home_.damaged.insert(ObjectId::of(1));
  EXPECT_TRUE(fetch(home_, 1).empty());
  const auto gone = home_.received<ObjectGone>(1);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_THAT(gone[0].cause, HasSubstr("damaged"));
  // Readers that waited receive the recomputed object.
  put(1);
  const auto read = home_.received<FetchObjectReply>(1);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_FALSE(read[0].failure);
  release_all(home_);
  expect_empty(world_, 2, 1);
}

TEST_F(SpillTest, Peer_ReadsSpilledObject) {
  put_many(1, 12);
  ASSERT_EQ(state(home_, 2), ObjectState::spilled);
  const auto read = fetch(other_, 2);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_FALSE(read[0].failure) << read[0].failure->text;
}

TEST_F(SpillTest, EvictsReplicasBeforeSpilling) {
  put_many(1, 5);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    fetch(other_, i, i);
    other_.say(1, UnpinReply{ObjectId::of(i), i});
  }
  other_.forget();
  for (std::uint64_t i = 21; i <= 26; ++i) {
    world_.advance(1ms);
    ASSERT_EQ(reserve(i, other_).size(), 1u);
    other_.say(1, SealObjectRequest{ObjectId::of(i), borrower_, other_.node(), false, {}});
    settle();
    unpin_all(other_);
  }
  EXPECT_EQ(state(other_, 1), ObjectState::wanted);
  EXPECT_TRUE(other_.files.empty());
  // The object is still known, and is pulled again.
  const auto read = fetch(other_, 1, 9);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_FALSE(read[0].failure) << read[0].failure->text;
}

TEST_F(SpillTest, SpillsReplicaWithoutOrigin) {
  // A result of a task on `other_` is stored there for its owner at the home, and pulled to the
  // home.
  store(world_, other_, 1, ObjectId::of(1), big, owner_, home_.node());
  ASSERT_EQ(fetch(home_, 1, 4).size(), 1u);
  home_.say(1, UnpinReply{ObjectId::of(1), 4});
  world_.announce_death(other_);
  world_.die(other_);
  settle();
  put_many(2, 9);
  EXPECT_EQ(state(home_, 1), ObjectState::spilled);
}

TEST_F(SpillTest, ReplicaLost_HomeIsNotified) {
  store(world_, other_, 1, ObjectId::of(1), big, owner_, home_.node());
  for (std::uint64_t i = 21; i <= 28; ++i) {
    world_.advance(1ms);
    ASSERT_EQ(reserve(i, other_).size(), 1u);
    other_.say(1, SealObjectRequest{ObjectId::of(i), borrower_, other_.node(), false, {}});
    settle();
    unpin_all(other_);
  }
  ASSERT_EQ(state(other_, 1), ObjectState::spilled);
  other_.damaged.insert(ObjectId::of(1));
  EXPECT_TRUE(fetch(home_, 1, 4).empty());
  EXPECT_EQ(home_.received<ObjectGone>(1).size(), 1u);
}

TEST_F(SpillTest, SpillingDisabled_FullStoreRejectsAtOnce) {
  WorkerOptions off = options();
  off.spill = false;
  Agents world(off);
  Agent& agent = world.add();
  const ProcessId owner = agent.driver(1, job);
  world.settle();
  agent.forget();
  for (std::uint64_t i = 1; i <= 8; ++i) {
    store(world, agent, 1, ObjectId::of(i), big, owner, agent.node());
  }
  agent.say(1, ReserveObjectRequest{ObjectId::of(9), big});
  ASSERT_EQ(agent.received<ReserveObjectReply>(1).size(), 1u);
  EXPECT_TRUE(agent.files.empty());
}

TEST_F(SpillTest, ListsLargestObjectsFirst) {
  put_many(1, 12);
  const auto size_of = [](const ObjectFact& fact) { return fact.size_bytes; };
  home_.from_head(ObjectsRequest{7, 3, true});
  settle();
  const auto listed = home_.sent<ObjectsReply>();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].objects.size(), 3u);
  EXPECT_EQ(listed[0].left_out, 9u);
  EXPECT_EQ(size_of(listed[0].objects[0]), big);
  EXPECT_TRUE(listed[0].objects[0].spilled);
  ASSERT_EQ(listed[0].objects[0].holders.size(), 1u);
  EXPECT_EQ(listed[0].objects[0].holders[0].process, owner_);
  EXPECT_EQ(listed[0].store.capacity_bytes, 1 << 20);
  EXPECT_GT(listed[0].store.spilled_bytes, 0);
  EXPECT_GE(listed[0].store.file_bytes, listed[0].store.spilled_bytes);
}

}  // namespace
}  // namespace mobula::internal::worker::spills
