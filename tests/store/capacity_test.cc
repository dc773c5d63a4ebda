#include "store/capacity.h"

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

TEST(StoreCapacity, IsThreeTenthsOfWhatIsAvailable) {
  EXPECT_EQ(default_store_capacity({.available_bytes = 10 * gib}), 3 * gib);
  EXPECT_EQ(default_store_capacity({.available_bytes = 0}), 0u);
}

TEST(StoreCapacity, FollowsASmallerCgroup) {
  EXPECT_EQ(default_store_capacity({.available_bytes = 10 * gib, .cgroup_headroom_bytes = gib}),
            gib * 3 / 10 / 4096 * 4096);
  EXPECT_EQ(default_store_capacity({.available_bytes = gib, .cgroup_headroom_bytes = 10 * gib}),
            gib * 3 / 10 / 4096 * 4096);
  EXPECT_EQ(default_store_capacity({.available_bytes = gib, .cgroup_headroom_bytes = 0}), 0u);
}

TEST(StoreCapacity, IsNeverMoreThan200GB) {
  EXPECT_EQ(default_store_capacity({.available_bytes = 4096 * gib}),
            200'000'000'000 / 4096 * 4096);
}

}  // namespace
}  // namespace mobula::internal
