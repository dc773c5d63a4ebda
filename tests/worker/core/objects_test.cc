#include <gtest/gtest.h>

#include "worker/core/agents.h"

namespace mobula::internal::worker::lives {
namespace {

const JobId job = JobId::of(5);
const ObjectId value = ObjectId::of(77);

// `home_` is the node of the owner, a driver on link 1. `other_` and `third_` have a process of the
// same job on link 1, too.
class ObjectsTest : public ::testing::Test {
 protected:
  ObjectsTest()
      : home_(world_.add()),
        other_(world_.add()),
        third_(world_.add()),
        owner_(home_.driver(1, job)),
        borrower_(other_.driver(1, job)),
        third_process_(third_.driver(1, job)) {
    settle();
    forget();
  }

  void settle() { world_.settle(); }
  void forget() {
    for (std::size_t i = 0; i < 3; ++i) world_.at(i).forget();
  }
  RefRecord ref(ObjectId object = value) const { return ref_of(object, home_, owner_); }
  void put(ObjectId object = value, std::int64_t size = 1000) {
    store(world_, home_, 1, object, size, owner_, home_.node());
  }
  void release(Agent& agent, ObjectId object = value, LinkId link = 1) {
    agent.say(link, ReleaseObject{object});
    settle();
  }
  std::vector<FetchObjectReply> fetch(Agent& agent, RefRecord what, LinkId link = 1) {
    agent.say(link, FetchObjectRequest{what, NodeId{}});
    settle();
    return agent.received<FetchObjectReply>(link);
  }
  void expect_failure(const std::vector<FetchObjectReply>& received, ErrorCode code) {
    ASSERT_EQ(received.size(), 1u);
    ASSERT_TRUE(received[0].failure);
    EXPECT_EQ(received[0].failure->code, code) << received[0].failure->text;
  }
  void expect_readable(const std::vector<FetchObjectReply>& received) {
    ASSERT_EQ(received.size(), 1u);
    EXPECT_FALSE(received[0].failure) << received[0].failure->text;
    EXPECT_EQ(received[0].location.size_bytes, 1000);
  }

  Agents world_;
  Agent& home_;
  Agent& other_;
  Agent& third_;
  ProcessId owner_, borrower_, third_process_;
};

TEST_F(ObjectsTest, KeepsPutUntilOwnerReleases) {
  put();
  EXPECT_EQ(home_.core().objects().objects().size(), 1u);
  release(home_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, SendsNewSlabWithFirstReservation) {
  home_.say(1, ReserveObjectRequest{value, 100});
  EXPECT_TRUE(home_.received<ReserveObjectReply>(1).at(0).new_slab);
  EXPECT_EQ(home_.did<CreateSlab>().size(), 1u);
  home_.say(1, ReserveObjectRequest{value, 100});
  EXPECT_FALSE(home_.received<ReserveObjectReply>(1).at(0).new_slab) << "the same place again";
  home_.say(1, ReserveObjectRequest{ObjectId::of(2), 100});
  EXPECT_FALSE(home_.received<ReserveObjectReply>(1).at(0).new_slab);
}

TEST_F(ObjectsTest, ReserveOfSealedObject_AlreadyExists) {
  put();
  home_.say(1, ReserveObjectRequest{value, 1000});
  EXPECT_EQ(home_.received<ReserveObjectReply>(1).at(0).failure->code, ErrorCode::already_exists);
}

TEST_F(ObjectsTest, StoreFull_RejectsAndContinues) {
  home_.say(1, ReserveObjectRequest{value, 2 << 20});
  EXPECT_EQ(home_.received<ReserveObjectReply>(1).at(0).failure->code,
            ErrorCode::resource_exhausted);
  put();
}

TEST_F(ObjectsTest, MemoryPressure_UnmapsEmptySlabOfAnother) {
  const ProcessId second = home_.driver(2, job);
  settle();
  store(world_, home_, 1, value, 900 << 10, owner_, home_.node());
  release(home_);
  home_.forget();
  home_.say(2, ReserveObjectRequest{ObjectId::of(2), 900 << 10});
  settle();
  EXPECT_TRUE(home_.received<ReserveObjectReply>(2).empty());
  const auto retired = home_.received<UnmapSlabRequest>(1);
  ASSERT_EQ(retired.size(), 1u);
  home_.say(1, UnmapSlabReply{retired[0].slab});
  EXPECT_FALSE(home_.received<ReserveObjectReply>(2).at(0).failure);
  EXPECT_EQ(home_.did<DropSlab>().size(), 1u);
  EXPECT_FALSE(second.empty());
}

TEST_F(ObjectsTest, UnmapsIdleEmptySlabs) {
  store(world_, home_, 1, value, 900 << 10, owner_, home_.node());
  release(home_);
  home_.forget();
  world_.advance(3s);
  EXPECT_TRUE(home_.received<UnmapSlabRequest>(1).empty());
  world_.advance(6s);
  const auto retired = home_.received<UnmapSlabRequest>(1);
  ASSERT_EQ(retired.size(), 1u);
  home_.say(1, UnmapSlabReply{retired[0].slab});
  EXPECT_EQ(home_.did<DropSlab>().size(), 1u);
  EXPECT_EQ(home_.core().objects().space().committed_bytes(), 0u);

  put();
  release(home_);
  home_.forget();
  world_.advance(30s);
  EXPECT_TRUE(home_.received<UnmapSlabRequest>(1).empty()) << "so little stays";
}

TEST_F(ObjectsTest, SlabNotUnmapped_ReservationFailsAfterTimeout) {
  home_.driver(2, job);
  settle();
  store(world_, home_, 1, value, 900 << 10, owner_, home_.node());
  release(home_);
  home_.say(2, ReserveObjectRequest{ObjectId::of(2), 900 << 10});
  world_.advance(9s);
  EXPECT_TRUE(home_.received<ReserveObjectReply>(2).empty()) << "a busy process may need 10 s";
  world_.advance(3s);
  EXPECT_EQ(home_.received<ReserveObjectReply>(2).at(0).failure->code,
            ErrorCode::resource_exhausted);
}

TEST_F(ObjectsTest, SlabCreationFailed_ReservationFails) {
  home_.say(1, ReserveObjectRequest{value, 100});
  const SlabId slab = home_.did<CreateSlab>().at(0).slab;
  home_.forget();
  home_.step(SlabFailed{slab, failure(ErrorCode::resource_exhausted, "memfd: no memory")});
  EXPECT_EQ(home_.received<ReserveObjectReply>(1).at(0).failure->text, "memfd: no memory");
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, ReadsInPlaceFromOtherProcessOfNode) {
  home_.driver(2, job);
  put();
  const auto received = fetch(home_, ref(), 2);
  expect_readable(received);
  EXPECT_TRUE(received[0].new_slab);
  release(home_);
  EXPECT_EQ(home_.core().census().objects, 1u) << "the reader holds it";
  release(home_, value, 2);
  expect_empty(world_, 3, 2);
}

TEST_F(ObjectsTest, RemoteResult_HeldBeforeExecutorReply) {
  other_.say(1, ReserveObjectRequest{value, 1000});
  other_.say(1, SealObjectRequest{value, owner_, home_.node(), false, {}});
  EXPECT_TRUE(other_.received<SealObjectReply>(1).empty());
  settle();
  EXPECT_EQ(other_.received<SealObjectReply>(1).size(), 1u);
  EXPECT_TRUE(home_.core().objects().find(value)->processes.contains(owner_));
  EXPECT_TRUE(other_.core().objects().find(value)->nodes.contains(home_.node()));
  EXPECT_TRUE(other_.core().objects().find(value)->processes.empty());
  release(home_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, ResultOnAnotherNode_OwnerFetchesIt) {
  store(world_, other_, 1, value, 1000, owner_, home_.node());
  expect_readable(fetch(home_, ref()));
  EXPECT_EQ(other_.did<OfferObject>().size(), 1u);
  release(home_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, OwnerDied_ResultDroppedAndExecutorAnswered) {
  home_.step(ProcessLinkLost{1});
  settle();
  store(world_, other_, 1, value, 1000, owner_, home_.node());
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, Borrower_HoldsReadsAndReleases) {
  put();
  home_.say(1, ExportObject{value});
  other_.say(1, HoldObjectRequest{ref()});
  EXPECT_TRUE(other_.received<HoldObjectReply>(1).empty()) << "not before the home counts the node";
  settle();
  EXPECT_EQ(other_.received<HoldObjectReply>(1).size(), 1u);
  release(home_);
  EXPECT_EQ(home_.core().census().objects, 1u);
  EXPECT_TRUE(home_.received<ExportReleased>(1).empty());
  expect_readable(fetch(other_, ref()));
  release(other_);
  EXPECT_EQ(home_.received<ExportReleased>(1).size(), 1u);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, ConfirmsSecondHoldOfNodeLocally) {
  put();
  home_.say(1, ExportObject{value});
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  other_.driver(2, job);
  other_.say(2, HoldObjectRequest{ref()});
  EXPECT_EQ(other_.received<HoldObjectReply>(2).size(), 1u);
  release(other_);
  EXPECT_EQ(home_.core().objects().find(value)->nodes.size(), 1u);
  release(other_, value, 2);
  EXPECT_TRUE(home_.core().objects().find(value)->nodes.empty());
}

TEST_F(ObjectsTest, ConfirmsRetakenHoldOnlyOnLastReply) {
  put();
  home_.say(1, ExportObject{value});
  other_.say(1, HoldObjectRequest{ref()});
  other_.say(1, ReleaseObject{value});
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  EXPECT_EQ(other_.received<HoldObjectReply>(1).size(), 1u);
  EXPECT_EQ(home_.core().objects().find(value)->nodes.size(), 1u);
}

TEST_F(ObjectsTest, FetchOfPendingExport_WaitsForSeal) {
  home_.say(1, ExportObject{value});
  EXPECT_TRUE(fetch(other_, ref()).empty());
  EXPECT_TRUE(fetch(third_, ref()).empty());
  put();
  expect_readable(other_.received<FetchObjectReply>(1));
  expect_readable(third_.received<FetchObjectReply>(1));
  release(home_);
  release(other_);
  release(third_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, ResultOnThirdNode_CompletesPendingFetch) {
  home_.say(1, ExportObject{value});
  EXPECT_TRUE(fetch(other_, ref()).empty());
  store(world_, third_, 1, value, 1000, owner_, home_.node());
  expect_readable(other_.received<FetchObjectReply>(1));
  EXPECT_EQ(home_.core().objects().find(value)->state, ObjectState::wanted) << "no copy at home";
  release(home_);
  release(other_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, SharesOnePullAmongReadersOfNode) {
  put();
  home_.say(1, ExportObject{value});
  other_.driver(2, job);
  world_.bytes_flow = false;
  EXPECT_TRUE(fetch(other_, ref(), 1).empty());
  EXPECT_TRUE(fetch(other_, ref(), 2).empty());
  EXPECT_EQ(world_.moving.size(), 1u);
  world_.bytes_flow = true;
  settle();
  expect_readable(other_.received<FetchObjectReply>(1));
  expect_readable(other_.received<FetchObjectReply>(2));
}

TEST_F(ObjectsTest, FetchCancelled_CutsPullAndFreesMemory) {
  put();
  home_.say(1, ExportObject{value});
  world_.bytes_flow = false;
  EXPECT_TRUE(fetch(other_, ref()).empty());
  other_.say(1, CancelFetch{value});
  other_.say(1, ReleaseObject{value});
  settle();
  EXPECT_EQ(other_.did<CancelBulk>().size(), 1u);
  release(home_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, StoreFull_FetchWaitsUntilTimeout) {
  put();
  home_.say(1, ExportObject{value});
  store(world_, other_, 1, ObjectId::of(2), 1 << 20, borrower_, other_.node());
  EXPECT_TRUE(fetch(other_, ref()).empty()) << "space that was requested back may become free";
  world_.advance(31s);
  expect_failure(other_.received<FetchObjectReply>(1), ErrorCode::resource_exhausted);
  release(other_, ObjectId::of(2));
  EXPECT_TRUE(fetch(other_, ref()).empty()) << "until the empty slab is returned";
  other_.say(1, UnmapSlabReply{other_.received<UnmapSlabRequest>(1).at(0).slab});
  settle();
  expect_readable(other_.received<FetchObjectReply>(1));
}

TEST_F(ObjectsTest, FailedPull_RetriesThenReports) {
  put();
  home_.say(1, ExportObject{value});
  world_.bytes_flow = false;
  EXPECT_TRUE(fetch(other_, ref()).empty());
  // Three pulls; each drops its only source after five failures.
  for (int i = 0; i < 15; ++i) {
    ASSERT_EQ(world_.moving.size(), 1u) << i;
    world_.finish_pulls(failure(ErrorCode::corrupt, "bad tag"));
    world_.advance(1s);
  }
  expect_failure(other_.received<FetchObjectReply>(1), ErrorCode::corrupt);
  release(other_);
  release(home_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, RefArrivesBeforeExport_IsFound) {
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  EXPECT_TRUE(other_.received<HoldObjectReply>(1).empty());
  home_.say(1, ExportObject{value});
  settle();
  EXPECT_EQ(other_.received<HoldObjectReply>(1).size(), 1u);
  release(other_);
  release(home_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, UnknownRef_FailsAfterDelay) {
  EXPECT_TRUE(fetch(other_, ref()).empty());
  EXPECT_TRUE(fetch(home_, ref()).empty());
  world_.advance(2s);
  expect_failure(other_.received<FetchObjectReply>(1), ErrorCode::unavailable);
  expect_failure(home_.received<FetchObjectReply>(1), ErrorCode::unavailable);
  release(other_);
  release(home_);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, StoredValue_HoldsItsRefs) {
  const ObjectId outer = ObjectId::of(78);
  put();
  home_.say(1, ExportObject{value});
  other_.say(1, HoldObjectRequest{ref()});
  settle();
  store(world_, other_, 1, outer, 100, owner_, home_.node(), {ref()});
  release(other_);
  release(home_);
  EXPECT_EQ(home_.core().census().objects, 2u) << "the outer one, and the inner one held by it";
  const auto received = fetch(home_, ref(outer));
  EXPECT_EQ(received.at(0).contained, (RefRecords{ref()}));
  release(home_, outer);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, HandleObjectReleased_NotifiesOwner) {
  const ObjectId handles = handle_id(ActorId::of(3));
  home_.say(1, ExportObject{handles});
  other_.say(1, HoldObjectRequest{ref(handles)});
  settle();
  release(home_, handles);
  EXPECT_TRUE(home_.received<ExportReleased>(1).empty());
  other_.step(ProcessLinkLost{1});
  settle();
  EXPECT_EQ(home_.received<ExportReleased>(1).size(), 1u);
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, WriterDiedBeforeSeal_LeavesNothing) {
  home_.say(1, ReserveObjectRequest{value, 1000});
  home_.step(ProcessLinkLost{1});
  settle();
  expect_empty(world_, 3, 1);
}

TEST_F(ObjectsTest, JobEnded_FreesItsObjects) {
  put();
  home_.say(1, ExportObject{value});
  store(world_, third_, 1, ObjectId::of(2), 1000, owner_, home_.node());
  expect_readable(fetch(other_, ref()));
  for (std::size_t i = 0; i < 3; ++i) world_.at(i).from_head(JobEnded{job, {}});
  settle();
  expect_empty(world_, 3, 1);
  home_.say(1, ReserveObjectRequest{value, 10});
  EXPECT_TRUE(home_.received<ReserveObjectReply>(1).at(0).failure) << "its processes are refused";
}

// The caller of a service reads a result after the end of the service's job.
TEST_F(ObjectsTest, JobEnded_KeepsResultsOfOtherJobs) {
  const JobId service = JobId::of(6);
  const ObjectId unread = ObjectId::of(78);
  other_.driver(2, service);
  settle();
  for (const ObjectId result : {value, unread})
    store(world_, other_, 2, result, 1000, owner_, home_.node());
  for (std::size_t i = 0; i < 3; ++i) world_.at(i).from_head(JobEnded{service, {}});
  settle();
  expect_readable(fetch(home_, ref()));
  release(home_);
  EXPECT_EQ(other_.core().census().objects, 1u);
  for (std::size_t i = 0; i < 3; ++i) world_.at(i).from_head(JobEnded{job, {}});
  settle();
  expect_empty(world_, 3, 2);
}

// A head may crash after it sent JobEnded: the next head learns from the facts which nodes to
// notify.
TEST_F(ObjectsTest, ReportsJobOfEmptySlabUntilItEnds) {
  put();
  expect_readable(fetch(other_, ref()));
  other_.step(ProcessLinkLost{1});
  settle();
  EXPECT_EQ(other_.core().census().objects, 0u);
  EXPECT_EQ(other_.core().census().slabs, 1u);
  EXPECT_EQ(other_.core().facts().jobs, std::vector<JobId>{job});
  other_.from_head(JobEnded{job, {}});
  settle();
  EXPECT_EQ(other_.core().census().slabs, 0u);
  EXPECT_TRUE(other_.core().facts().jobs.empty());
}

}  // namespace
}  // namespace mobula::internal::worker::lives
