#include "store/core/slab_allocator.h"

#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "sanitizers.h"

namespace mobula::internal {
namespace {

TEST(SlabAllocator, AlignsOffsetsAndStoresEmptyObject) {
  SlabAllocator slab(1000);  // 15 lines
  EXPECT_EQ(slab.size_bytes(), 960u);
  EXPECT_EQ(slab.allocate(0), 0u);
  EXPECT_EQ(slab.allocate(65), 64u);
  EXPECT_EQ(slab.allocate(1), 192u);
  EXPECT_EQ(slab.used_bytes(), 256u);
}

TEST(SlabAllocator, ReusesLatestFreedExtentOfSameSize) {
  SlabAllocator slab(64 * 64);
  const auto a = slab.allocate(256);
  const auto b = slab.allocate(256);
  const auto c = slab.allocate(256);
  slab.free(*a);
  slab.free(*c);
  slab.free(*b);
  EXPECT_TRUE(slab.has_warm(256));
  EXPECT_EQ(slab.allocate(256), b);
  EXPECT_EQ(slab.allocate(250), c);
  EXPECT_EQ(slab.allocate(256), a);
  EXPECT_FALSE(slab.has_warm(256));
}

TEST(SlabAllocator, TakesSmallestSufficientRun) {
  SlabAllocator slab(64 * 16);
  const auto big = slab.allocate(64 * 6);
  slab.allocate(64);
  const auto small = slab.allocate(64 * 3);
  slab.allocate(64);  // leaves 5 lines at the end
  slab.free(*big);
  slab.free(*small);
  EXPECT_EQ(slab.allocate(128), small);
  EXPECT_EQ(slab.allocate(64 * 5), 64u * 11);
}

TEST(SlabAllocator, JoinsAdjacentFreeRuns) {
  SlabAllocator slab(64 * 8);
  std::vector<std::uint64_t> offsets;
  for (int i = 0; i < 8; ++i) offsets.push_back(*slab.allocate(64));
  EXPECT_EQ(slab.allocate(1), std::nullopt);
  for (const int i : {1, 3, 2, 0}) slab.free(offsets[static_cast<std::size_t>(i)]);
  EXPECT_EQ(slab.largest_free_bytes(), 256u);
  EXPECT_EQ(slab.allocate(256), 0u);
}

TEST(SlabAllocator, RejectsClaimOfUsedOrOutsideBytes) {
  SlabAllocator slab(64 * 8);
  EXPECT_TRUE(slab.claim(128, 100));
  EXPECT_FALSE(slab.claim(192, 64));
  EXPECT_FALSE(slab.claim(64, 65));
  EXPECT_FALSE(slab.claim(32, 1));
  EXPECT_FALSE(slab.claim(448, 65));
  EXPECT_FALSE(slab.claim(512, 1));
  EXPECT_FALSE(slab.claim(0, ~std::uint64_t{0}));
  EXPECT_FALSE(slab.claim(~std::uint64_t{0} - 63, 64));
  EXPECT_TRUE(slab.claim(448, 64));
  EXPECT_EQ(slab.used_bytes(), 192u);
  slab.free(128);
  EXPECT_TRUE(slab.claim(192, 64));
}

TEST(SlabAllocatorDeathTest, FreeOfUnknownExtent_Aborts) {
  SlabAllocator slab(640);
  slab.allocate(128);
  EXPECT_DEATH(slab.free(64), "no extent begins");
}

// One flag per line: true if allocated.
struct BruteForce {
  std::vector<bool> taken;
  std::map<std::uint64_t, std::uint64_t> extents;

  std::size_t longest_run() const {
    std::size_t best = 0;
    std::size_t run = 0;
    for (const bool line : taken) {
      run = line ? 0 : run + 1;
      best = std::max(best, run);
    }
    return best;
  }
  bool is_free(std::uint64_t first, std::uint64_t lines) const {
    for (std::uint64_t i = first; i < first + lines; ++i) {
      if (i >= taken.size() || taken[i]) return false;
    }
    return true;
  }
  void set(std::uint64_t first, std::uint64_t lines, bool value) {
    for (std::uint64_t i = first; i < first + lines; ++i) taken[i] = value;
  }
};

TEST(SlabAllocator, MatchesBruteForceModel) {
  for (std::uint64_t seed = 1; seed <= histories(30); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const std::uint64_t lines = 40 + random.below(200);
    SlabAllocator slab(lines * 64);
    BruteForce model{std::vector<bool>(lines), {}};
    for (int step = 0; step < 2000; ++step) {
      const std::uint64_t choice = random.below(10);
      if (choice < 5) {
        const std::uint64_t wanted = 1 + random.below(random.chance(200) ? 60 : 8);
        const std::size_t longest = model.longest_run();
        const auto offset = slab.allocate(wanted * 64 - random.below(64));
        ASSERT_EQ(offset.has_value(), longest >= wanted);
        if (!offset) continue;
        ASSERT_EQ(*offset % 64, 0u);
        ASSERT_TRUE(model.is_free(*offset / 64, wanted));
        model.set(*offset / 64, wanted, true);
        model.extents[*offset] = wanted;
      } else if (choice < 6) {
        const std::uint64_t first = random.below(lines + 2);
        const std::uint64_t wanted = 1 + random.below(6);
        const bool claimed = slab.claim(first * 64, wanted * 64);
        ASSERT_EQ(claimed, model.is_free(first, wanted));
        if (!claimed) continue;
        model.set(first, wanted, true);
        model.extents[first * 64] = wanted;
      } else if (!model.extents.empty()) {
        auto at = model.extents.begin();
        std::advance(at, random.below(model.extents.size()));
        slab.free(at->first);
        model.set(at->first / 64, at->second, false);
        model.extents.erase(at);
      }
      ASSERT_EQ(slab.largest_free_bytes(), model.longest_run() * 64);
      ASSERT_EQ(slab.used_bytes(), 64u * static_cast<std::uint64_t>(std::count(
                                             model.taken.begin(), model.taken.end(), true)));
    }
  }
}

}  // namespace
}  // namespace mobula::internal
