#include "base/containers/block_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <thread>

namespace mobula::internal {
namespace {

TEST(Recycled, ReusesMemory) {
  const void* first = nullptr;
  {
    const PooledVector<std::uint64_t> values{1, 2, 3};
    first = values.data();
  }
  const std::size_t kept = RecycledBlocks::cached_bytes();
  EXPECT_GE(kept, 3 * sizeof(std::uint64_t));
  const PooledVector<std::uint64_t> values{4, 5, 6, 7};  // rounded to the same size
  EXPECT_EQ(values.data(), first);
  EXPECT_LT(RecycledBlocks::cached_bytes(), kept);
  EXPECT_EQ(values, (PooledVector<std::uint64_t>{4, 5, 6, 7}));
}

TEST(Recycled, BlocksOfOneSize_NeverOverlap) {
  std::set<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.insert(RecycledBlocks::take(100));
  EXPECT_EQ(blocks.size(), 100u);
  for (void* block : blocks) RecycledBlocks::give(block, 100);
  std::set<void*> again;
  for (int i = 0; i < 100; ++i) again.insert(RecycledBlocks::take(97));
  EXPECT_EQ(again, blocks);
  for (void* block : again) RecycledBlocks::give(block, 97);
}

TEST(Recycled, LimitsPooledBytesAndSkipsLarge) {
  {
    std::vector<PooledVector<std::byte>> many;
    for (std::size_t i = 0; i < 2 * RecycledBlocks::max_cached_bytes / 256; ++i)
      many.emplace_back(256);
  }
  EXPECT_LE(RecycledBlocks::cached_bytes(), RecycledBlocks::max_cached_bytes);
  std::thread([] {
    { const PooledVector<std::byte> large(RecycledBlocks::largest_block + 1); }
    EXPECT_EQ(RecycledBlocks::cached_bytes(), 0u);
    { const PooledVector<std::byte> small(RecycledBlocks::largest_block); }
    EXPECT_EQ(RecycledBlocks::cached_bytes(), RecycledBlocks::largest_block);
  }).join();
}

TEST(Recycled, ReturnsBlockOnAnotherThread) {
  auto shared = make_pooled<std::string>("made here");
  std::thread([given = std::move(shared)]() mutable {
    EXPECT_EQ(*given, "made here");
    given.reset();
    EXPECT_GT(RecycledBlocks::cached_bytes(), 0u);
  }).join();
}

// Objects of a thread that are destroyed after its kept blocks were freed.
TEST(Recycled, ThreadEnded_UsesHeap) {
  std::thread([] {
    thread_local PooledVector<int> outlives;
    outlives = {1, 2, 3};
    { const PooledVector<int> keeps_something{1}; }
  }).join();
}

}  // namespace
}  // namespace mobula::internal
