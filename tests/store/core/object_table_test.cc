#include "store/core/object_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "store/core/byte_text.h"

namespace mobula::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kib = 1024;
constexpr ProcessId agent = ProcessId::of(1);
constexpr ProcessId writer = ProcessId::of(2);
constexpr ProcessId reader = ProcessId::of(3);
constexpr ProcessId stranger = ProcessId::of(4);
constexpr JobId job = JobId::of(10);
constexpr JobId other_job = JobId::of(11);
constexpr ObjectId one = ObjectId::of(100);
constexpr ObjectId two = ObjectId::of(101);
constexpr NodeId home = NodeId::of(200);
constexpr NodeId peer = NodeId::of(201);

class ObjectTableTest : public testing::Test {
 protected:
  ObjectTableTest() {
    table.add_process(writer, job);
    table.add_process(reader, job);
    table.add_process(stranger, other_job);
  }

  static TableOptions options() {
    TableOptions made;
    made.space.capacity_bytes = 1024 * kib;
    made.space.first_slab_bytes = 256 * kib;
    made.space.max_slab_bytes = 512 * kib;
    made.space.incarnation = agent;
    return made;
  }
  ReserveRequest request(ObjectId object, std::uint64_t size, ProcessId by = writer) const {
    return {.object = object, .job = job, .size_bytes = size, .writer = by, .home = home};
  }
  ObjectLocation put(ObjectId object, std::uint64_t size, ProcessId by = writer) {
    const auto placement = table.reserve(request(object, size, by));
    EXPECT_TRUE(placement.ok()) << placement.error().text;
    EXPECT_TRUE(placement->location.has_value());
    EXPECT_TRUE(table.seal(object, by).ok());
    return *placement->location;
  }

  ObjectTable table{options()};
};

TEST_F(ObjectTableTest, FirstReservation_NamesSlabToCreate) {
  const auto placement = table.reserve(request(one, 100 * kib));
  ASSERT_TRUE(placement.ok());
  ASSERT_TRUE(placement->create.has_value());
  EXPECT_EQ(placement->create->size_bytes, 256 * kib);
  EXPECT_EQ(placement->create->writer, writer);
  EXPECT_EQ(placement->location->slab, placement->create->slab);
  EXPECT_EQ(table.find(one)->state, ObjectState::reserved);

  const auto second = table.reserve(request(two, 100 * kib));
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->create.has_value());
  EXPECT_EQ(second->location->slab, placement->location->slab);
  EXPECT_EQ(table.space().used_bytes(), 200 * kib);
  EXPECT_EQ(table.space().committed_bytes(), 256 * kib);
}

TEST_F(ObjectTableTest, RetiresIdleSlabsAboveFloor) {
  put(one, 200 * kib);
  auto of_other = request(two, 100 * kib, stranger);
  of_other.job = other_job;
  const ObjectLocation other = *table.reserve(of_other)->location;
  ASSERT_TRUE(table.seal(two, stranger).ok());
  const auto slab = table.find(one)->location.slab;
  table.release(writer, one);
  EXPECT_EQ(table.space().idle_bytes(), 256 * kib);
  EXPECT_THAT(table.retire_rested(0), IsEmpty()) << "it was in use a moment ago";
  put(one, 200 * kib);
  table.release(writer, one);
  table.release(stranger, two);
  EXPECT_EQ(table.space().idle_bytes(), 512 * kib);
  EXPECT_THAT(table.retire_rested(0), IsEmpty()) << "it was in use since";
  EXPECT_THAT(table.retire_rested(512 * kib), IsEmpty()) << "512 KiB may stay idle";
  EXPECT_THAT(table.retire_rested(256 * kib), ElementsAre(RetiredSlab{slab, writer}));
  EXPECT_THAT(table.retire_rested(256 * kib), IsEmpty());
  EXPECT_THAT(table.retire_rested(0), ElementsAre(RetiredSlab{other.slab, stranger}));
  EXPECT_EQ(table.space().idle_bytes(), 0u);
}

TEST_F(ObjectTableTest, RepeatedReservation_ReturnsSameLocation) {
  const auto first = table.reserve(request(one, kib));
  const auto again = table.reserve(request(one, kib));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->location, first->location);
  EXPECT_FALSE(again->create.has_value());
  EXPECT_EQ(table.space().used_bytes(), kib);
  EXPECT_EQ(table.reserve(request(one, 2 * kib)).error().code, ErrorCode::already_exists);
  EXPECT_EQ(table.reserve(request(one, kib, reader)).error().code, ErrorCode::already_exists);
  EXPECT_EQ(first->location->slab.bits().high, 0u) << "messages name slabs by 64 bits";
}

TEST_F(ObjectTableTest, SealedObject_IsReadable) {
  ASSERT_TRUE(table.reserve(request(one, 70 * kib)).ok());
  EXPECT_EQ(table.seal(one, reader).error().code, ErrorCode::permission_denied);
  EXPECT_TRUE(table.seal(one, writer).ok());
  EXPECT_EQ(table.seal(one, writer).error().code, ErrorCode::already_exists);
  EXPECT_EQ(table.seal(two, writer).error().code, ErrorCode::not_found);
  const auto row = table.lookup(reader, one);
  ASSERT_TRUE(row.ok());
  EXPECT_EQ((*row)->state, ObjectState::sealed);
  EXPECT_EQ((*row)->location.size_bytes, 70 * kib);
}

TEST_F(ObjectTableTest, LastRelease_FreesBytes) {
  put(one, 100 * kib);
  ASSERT_TRUE(table.hold(reader, one).ok());
  EXPECT_THAT(table.release(writer, one).gone, IsEmpty());
  EXPECT_EQ(table.space().used_bytes(), 100 * kib);
  const Consequences last = table.release(reader, one);
  ASSERT_EQ(last.gone.size(), 1u);
  EXPECT_EQ(last.gone[0], (GoneObject{one, job, ObjectState::sealed, home, NodeId{}}));
  EXPECT_EQ(table.space().used_bytes(), 0u);
  EXPECT_EQ(table.space().committed_bytes(), 256 * kib) << "its writer keeps one empty slab";
  EXPECT_THAT(table.jobs(), IsEmpty());
}

TEST_F(ObjectTableTest, RepeatedHoldAndRelease_AreAccepted) {
  put(one, kib);
  ASSERT_TRUE(table.hold(reader, one).ok());
  ASSERT_TRUE(table.hold(reader, one).ok());
  table.release(reader, one);
  EXPECT_THAT(table.release(reader, one).gone, IsEmpty());
  ASSERT_NE(table.find(one), nullptr);
  table.release(writer, one);
  EXPECT_THAT(table.release(writer, one).gone, IsEmpty());
}

TEST_F(ObjectTableTest, WriterDied_FreesUnsealedAndKeepsHeld) {
  const ObjectLocation kept = put(one, kib);
  ASSERT_TRUE(table.reserve(request(two, kib)).ok());
  ASSERT_TRUE(table.hold(reader, one).ok());
  const Consequences death = table.drop_process(writer);
  ASSERT_EQ(death.gone.size(), 1u);
  EXPECT_EQ(death.gone[0].object, two);
  EXPECT_EQ(death.gone[0].state, ObjectState::wanted);
  EXPECT_THAT(death.slabs.released, IsEmpty());
  EXPECT_EQ(table.find(one)->state, ObjectState::sealed);
  EXPECT_EQ(table.space().used_bytes(), kib);
  EXPECT_THAT(table.release(reader, one).slabs.released, ElementsAre(kept.slab));
  EXPECT_EQ(table.space().committed_bytes(), 0u);
}

TEST_F(ObjectTableTest, WriterDied_AwaitedObjectIsWantedAgain) {
  ASSERT_TRUE(table.reserve(request(one, kib)).ok());
  ASSERT_TRUE(table.hold(reader, one).ok());
  const Consequences death = table.drop_process(writer);
  EXPECT_THAT(death.interrupted, ElementsAre(one));
  EXPECT_THAT(death.gone, IsEmpty());
  EXPECT_EQ(death.slabs.released.size(), 1u);
  EXPECT_EQ(table.find(one)->state, ObjectState::wanted);
}

TEST_F(ObjectTableTest, WantedObject_IsPulledOnceForAll) {
  const auto first = table.hold(reader, one);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->newly_wanted);
  EXPECT_FALSE(table.hold(writer, one)->newly_wanted);
  ReserveRequest pull = request(one, kib, agent);
  pull.upstream = peer;
  ASSERT_TRUE(table.reserve(pull).ok());
  EXPECT_FALSE(table.find(one)->upstream.empty());
  ASSERT_TRUE(table.seal(one, agent).ok());
  EXPECT_EQ(table.reserve(pull).error().code, ErrorCode::already_exists);
  table.release(agent, one);
  table.release(reader, one);
  const Consequences last = table.release(writer, one);
  ASSERT_EQ(last.gone.size(), 1u);
  EXPECT_EQ(last.gone[0].upstream, peer) << "the peer to notify that its copy is released";
}

TEST_F(ObjectTableTest, Failure_ReachesReadersAndAllowsRetry) {
  ASSERT_TRUE(table.hold(reader, one).ok());
  ASSERT_TRUE(table.reserve(request(one, kib, agent)).ok());
  table.fail(one, failure(ErrorCode::unavailable, "node 7 died while sending"));
  EXPECT_EQ(table.space().used_bytes(), 0u);
  EXPECT_EQ(table.lookup(reader, one).error().text, "node 7 died while sending");
  ASSERT_TRUE(table.reserve(request(one, kib, agent)).ok());
  ASSERT_TRUE(table.seal(one, agent).ok());
  EXPECT_TRUE(table.lookup(reader, one).ok());
  table.fail(one, failure(ErrorCode::unavailable, "too late"));
  EXPECT_TRUE(table.lookup(reader, one).ok());
}

TEST_F(ObjectTableTest, OtherJobs_ReadObjectsAndWriteNone) {
  ASSERT_TRUE(table.hold(stranger, one).ok());
  EXPECT_TRUE(table.hold(reader, one).ok());
  put(one, kib);
  EXPECT_TRUE(table.lookup(stranger, one).ok());
  EXPECT_TRUE(table.lookup(reader, one).ok());
  ReserveRequest foreign = request(two, kib, stranger);
  EXPECT_EQ(table.reserve(foreign).error().code, ErrorCode::permission_denied);
}

TEST_F(ObjectTableTest, RejectsUnknownProcesses) {
  EXPECT_EQ(table.hold(ProcessId::of(99), one).error().code, ErrorCode::not_found);
  EXPECT_EQ(table.reserve(request(one, kib, ProcessId::of(99))).error().code, ErrorCode::not_found);
  EXPECT_EQ(table.lookup(ProcessId::of(99), one).error().code, ErrorCode::not_found);
}

TEST_F(ObjectTableTest, LimitsHoldsPerProcess) {
  TableOptions few = options();
  few.max_holds_per_process = 1;
  ObjectTable small(few);
  small.add_process(reader, job);
  ASSERT_TRUE(small.hold(reader, one).ok());
  EXPECT_TRUE(small.hold(reader, one).ok());
  EXPECT_EQ(small.hold(reader, two).error().code, ErrorCode::resource_exhausted);
}

TEST_F(ObjectTableTest, StoreFull_ReportsUsageByHolder) {
  put(one, 900 * kib);
  const auto refused = table.reserve(request(two, 200 * kib));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::resource_exhausted);
  EXPECT_THAT(refused.error().text, HasSubstr("200 KiB (204800 bytes)"));
  EXPECT_THAT(refused.error().text, HasSubstr("store holds 1 MiB, 900 KiB are in use"));
  EXPECT_THAT(refused.error().text, HasSubstr("job " + job.brief() + ": 900 KiB in 1 objects"));
  const auto never = table.reserve(request(two, 2048 * kib));
  EXPECT_THAT(never.error().text, HasSubstr("it can never fit"));
  EXPECT_FALSE(table.reserve(request(two, ~std::uint64_t{0})).ok());
  EXPECT_EQ(table.find(two), nullptr);
}

TEST_F(ObjectTableTest, MemoryPressure_RetiresEmptySlabsOfOthers) {
  const ObjectLocation small = put(one, 100 * kib);
  table.release(writer, one);
  ReserveRequest large = request(two, 900 * kib, reader);
  const auto waiting = table.reserve(large);
  ASSERT_TRUE(waiting.ok());
  EXPECT_FALSE(waiting->location.has_value());
  EXPECT_THAT(waiting->retire, ElementsAre(RetiredSlab{small.slab, writer}));
  const auto again = table.reserve(large);
  ASSERT_TRUE(again.ok()) << "the reservation waits for the slab that retires";
  EXPECT_FALSE(again->location.has_value());
  EXPECT_THAT(again->retire, IsEmpty());
  EXPECT_TRUE(table.slab_gone(small.slab));
  EXPECT_FALSE(table.slab_gone(small.slab));
  EXPECT_TRUE(table.reserve(large)->location.has_value());
}

TEST_F(ObjectTableTest, RetiresSmallestEmptySlabAboveLimit) {
  const ObjectLocation first = put(one, 200 * kib);
  const ObjectLocation second = put(two, 300 * kib);
  ASSERT_NE(first.slab, second.slab);
  EXPECT_THAT(table.release(writer, two).slabs.retire, IsEmpty());
  EXPECT_THAT(table.release(writer, one).slabs.retire,
              ElementsAre(RetiredSlab{first.slab, writer}));
  EXPECT_THAT(table.drop_process(writer).slabs.released, ElementsAre(first.slab, second.slab));
  EXPECT_EQ(table.space().committed_bytes(), 0u);
  EXPECT_EQ(table.space().slab_count(), 0u);
}

// Two objects that are freed and written in turn, as the items of a stream.
TEST_F(ObjectTableTest, ReusesWarmSlabsWhenObjectsAlternate) {
  std::set<SlabId> slabs{put(one, 200 * kib).slab, put(two, 200 * kib).slab};
  ASSERT_EQ(slabs.size(), 2u);
  EXPECT_THAT(table.release(writer, one).slabs.retire, IsEmpty());
  EXPECT_THAT(table.release(writer, two).slabs.retire, IsEmpty());
  slabs.insert(put(one, 200 * kib).slab);
  slabs.insert(put(two, 200 * kib).slab);
  EXPECT_EQ(slabs.size(), 2u) << "no slab was created";
}

TEST_F(ObjectTableTest, SlabCreationFailed_FailsItsObjects) {
  const auto placement = table.reserve(request(one, kib));
  ASSERT_TRUE(table.hold(reader, one).ok());
  table.slab_failed(placement->create->slab, failure(ErrorCode::resource_exhausted, "no memory"));
  EXPECT_EQ(table.lookup(reader, one).error().text, "no memory");
  EXPECT_EQ(table.space().committed_bytes(), 0u);
  EXPECT_EQ(table.space().used_bytes(), 0u);
}

TEST_F(ObjectTableTest, Nodes_HoldLikeProcesses) {
  put(one, kib);
  EXPECT_EQ(table.hold_node(peer, two).error().code, ErrorCode::not_found);
  ASSERT_TRUE(table.hold_node(peer, one).ok());
  ASSERT_TRUE(table.hold_node(peer, one).ok());
  EXPECT_THAT(table.find(one)->nodes, ElementsAre(peer));
  EXPECT_THAT(table.drop_process(writer).gone, IsEmpty());
  const Consequences death = table.drop_node(peer);
  ASSERT_EQ(death.gone.size(), 1u);
  EXPECT_EQ(death.slabs.released.size(), 1u);
}

TEST_F(ObjectTableTest, JobEnded_KeepsOnlyExportedObjects) {
  const ObjectLocation kept = put(one, kib);
  table.export_object(one);
  ASSERT_TRUE(table.hold(stranger, one).ok());
  ASSERT_TRUE(table.reserve(request(two, kib, agent)).ok());
  ASSERT_TRUE(table.seal(two, agent).ok());
  ASSERT_TRUE(table.hold_node(peer, two).ok());
  const SlabId agents = table.find(two)->location.slab;
  const Consequences end = table.drop_job(job);
  ASSERT_EQ(end.gone.size(), 1u);
  EXPECT_EQ(end.gone[0].object, two);
  EXPECT_THAT(end.slabs.retire, ElementsAre(RetiredSlab{agents, agent}));
  EXPECT_TRUE(table.lookup(stranger, one).ok());
  EXPECT_FALSE(table.hold(writer, one).ok()) << "the process left with its job";
  EXPECT_TRUE(table.slab_gone(agents));
  EXPECT_THAT(table.release(stranger, one).slabs.released, ElementsAre(kept.slab));
  EXPECT_EQ(table.space().committed_bytes(), 0u);
}

class AdoptionTest : public ObjectTableTest {
 protected:
  Adoption offer() const {
    Adoption made{
        .process = writer, .slab = SlabId::of(900), .size_bytes = 64 * kib, .process_writes = true};
    made.objects = {{one, 0, 10 * kib, home, NodeId{}}, {two, 10 * kib, kib, home, NodeId{}}};
    return made;
  }
};

TEST_F(AdoptionTest, LaterAgent_AdoptsObjectsOfDriver) {
  ASSERT_TRUE(table.hold(reader, one).ok());
  ASSERT_TRUE(table.adopt(offer()).ok());
  EXPECT_EQ(table.lookup(reader, one).value()->location,
            (ObjectLocation{SlabId::of(900), 0, 10 * kib}));
  EXPECT_EQ(table.space().used_bytes(), 11 * kib);
  EXPECT_EQ(table.space().committed_bytes(), 64 * kib);
  const auto next = table.reserve(request(ObjectId::of(102), kib));
  EXPECT_EQ(next->location->slab, SlabId::of(900)) << "the driver still writes into it";
  EXPECT_EQ(next->location->offset, 11 * kib);
}

TEST_F(AdoptionTest, RejectsInconsistentOfferAsAWhole) {
  Adoption overlap = offer();
  overlap.objects[1].offset = 9 * kib;
  EXPECT_EQ(table.adopt(overlap).error().code, ErrorCode::invalid_argument);
  Adoption outside = offer();
  outside.objects[1].offset = ~std::uint64_t{63};
  EXPECT_EQ(table.adopt(outside).error().code, ErrorCode::invalid_argument);
  Adoption nothing = offer();
  nothing.objects.clear();
  EXPECT_EQ(table.adopt(nothing).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(table.space().committed_bytes(), 0u);
  EXPECT_EQ(table.space().used_bytes(), 0u);
  EXPECT_EQ(table.find(one), nullptr);

  put(two, kib, reader);
  EXPECT_EQ(table.adopt(offer()).error().code, ErrorCode::already_exists);
  table.release(reader, two);
  ASSERT_TRUE(table.adopt(offer()).ok());
  EXPECT_EQ(table.adopt(offer()).error().code, ErrorCode::already_exists);
  Adoption foreign = offer();
  foreign.process = stranger;
  foreign.slab = SlabId::of(901);
  EXPECT_EQ(table.adopt(foreign).error().code, ErrorCode::permission_denied);
}

TEST_F(AdoptionTest, ReleasesUnwrittenSlabWithLastObject) {
  Adoption read_only = offer();
  read_only.process_writes = false;
  ASSERT_TRUE(table.adopt(read_only).ok());
  table.release(writer, one);
  EXPECT_THAT(table.release(writer, two).slabs.released, ElementsAre(SlabId::of(900)));
}

TEST(ByteText, PrintsSizesWithUnits) {
  EXPECT_EQ(byte_text(0), "0 B");
  EXPECT_EQ(byte_text(1023), "1023 B");
  EXPECT_EQ(byte_text(1536), "1.5 KiB");
  EXPECT_EQ(byte_text(std::uint64_t{3} << 30), "3 GiB");
  EXPECT_EQ(byte_text(~std::uint64_t{0}), "15.9 EiB");
}

}  // namespace
}  // namespace mobula::internal
