#include "store/core/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/core/spill_files.h"

namespace mobula::internal::evicts {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const JobId job = JobId::of(1);
constexpr std::uint64_t slab_bytes = 4096;

// A store with slabs of one page. Each slab has space for four objects of 1,000 bytes.
class EvictionTest : public ::testing::Test {
 protected:
  EvictionTest() : space_(options()) {}

  static SpaceOptions options() {
    SpaceOptions options;
    options.capacity_bytes = 4 * slab_bytes;
    options.first_slab_bytes = options.max_slab_bytes = slab_bytes;
    options.incarnation = ProcessId::of(99);
    return options;
  }
  ObjectId store(std::uint64_t writer, std::int64_t used_at_ms, Departure departure) {
    const auto placed = space_.allocate(job, ProcessId::of(writer), 1000);
    const ObjectId object = ObjectId::of(++stored_);
    all_.push_back({object, *placed->location, Time::from_ns(used_at_ms * 1'000'000), departure});
    return object;
  }
  EvictionChoice choose(EvictionGoal goal) const { return choose_evictions(all_, space_, goal); }

  SlabSpace space_;
  std::vector<EvictionCandidate> all_;
  std::uint64_t stored_ = 0;
};

TEST_F(EvictionTest, NoGoal_EvictsNothing) {
  store(1, 1, Departure::at_once);
  EXPECT_TRUE(choose({}).nothing());
}

TEST_F(EvictionTest, EvictsLeastRecentlyUsedSlab) {
  store(1, 1, Departure::written);
  store(1, 50, Departure::written);
  const ObjectId a = store(2, 20, Departure::written);
  const ObjectId b = store(2, 30, Departure::written);
  const auto choice = choose({.used_bytes = 0, .slab_bytes = 1, .own = {}});
  EXPECT_THAT(choice.written, ElementsAre(a, b));
  EXPECT_EQ(choice.slab_bytes, slab_bytes);
}

TEST_F(EvictionTest, EvictsReplicasBeforePrimaries) {
  store(1, 1, Departure::written);
  const ObjectId copy = store(2, 90, Departure::at_once);
  const auto choice = choose({.used_bytes = 1, .slab_bytes = 0, .own = {}});
  EXPECT_THAT(choice.at_once, ElementsAre(copy));
  EXPECT_THAT(choice.written, IsEmpty());
}

TEST_F(EvictionTest, SparesSlabWithReadObject) {
  store(1, 1, Departure::never);
  store(1, 1, Departure::written);
  const ObjectId other = store(2, 90, Departure::requested);
  const auto choice = choose({.used_bytes = 0, .slab_bytes = 2 * slab_bytes, .own = {}});
  EXPECT_THAT(choice.requested, ElementsAre(other));
  EXPECT_THAT(choice.written, IsEmpty());
}

TEST_F(EvictionTest, SlabWithReadObject_EvictsForItsWriter) {
  store(1, 1, Departure::never);
  store(1, 9, Departure::written);
  const ObjectId oldest = store(1, 2, Departure::written);
  EvictionGoal goal{
      .used_bytes = 0, .slab_bytes = 1, .own = EvictionGoal::Own{job, ProcessId::of(1), 900}};
  EXPECT_THAT(choose(goal).written, ElementsAre(oldest));
  goal.own->writer = ProcessId::of(2);
  EXPECT_TRUE(choose(goal).nothing());
}

TEST_F(EvictionTest, CountsPendingDepartures) {
  store(1, 1, Departure::coming);
  store(2, 2, Departure::written);
  const auto choice = choose({.used_bytes = 0, .slab_bytes = 1, .own = {}});
  EXPECT_TRUE(choice.nothing());
  EXPECT_EQ(choice.slab_bytes, slab_bytes);
}

TEST_F(EvictionTest, ReservesCapacityForAgent) {
  space_.reserve_for_agent(slab_bytes);
  for (std::uint64_t writer = 1; writer <= 3; ++writer) {
    EXPECT_TRUE(space_.allocate(job, ProcessId::of(writer), 4000)->location);
  }
  EXPECT_FALSE(space_.allocate(job, ProcessId::of(4), 4000));
  EXPECT_TRUE(space_.allocate(job, options().incarnation, 4000)->location);
}

TEST_F(EvictionTest, EmptySlab_CountsAsReserveOfAgent) {
  std::vector<ObjectLocation> locations;
  for (int i = 0; i < 4; ++i)
    locations.push_back(*space_.allocate(job, ProcessId::of(1), 4000)->location);
  SlabChanges changes;
  space_.free(locations[0], changes);
  space_.reserve_for_agent(4000);
  EXPECT_FALSE(space_.allocate(job, ProcessId::of(1), 4000));
  space_.free(locations[1], changes);
  EXPECT_TRUE(space_.allocate(job, ProcessId::of(1), 4000));
}

TEST(SpillFilesTest, RemovesFileWithItsLastObject) {
  SpillFiles files;
  const SpillFileId file = files.new_file();
  files.add(ObjectId::of(1), {file, 0, 100, {}});
  files.add(ObjectId::of(2), {file, 100, 50, {}});
  EXPECT_NE(files.new_file(), file);
  EXPECT_EQ(files.find(ObjectId::of(2))->offset, 100u);
  EXPECT_EQ(files.largest_bytes(), 100u);
  EXPECT_FALSE(files.drop(ObjectId::of(1)));
  EXPECT_EQ(files.file_bytes(), 150u) << "dropped objects still occupy the file";
  EXPECT_FALSE(files.drop(ObjectId::of(3)));
  EXPECT_EQ(files.drop(ObjectId::of(2)), file);
  EXPECT_EQ(files.file_bytes(), 0u);
  EXPECT_EQ(files.files(), 0u);
}

}  // namespace
}  // namespace mobula::internal::evicts
