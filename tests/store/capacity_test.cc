#include "store/capacity.h"

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

TEST(StoreCapacity, DefaultsToThreeTenthsOfAvailableMemory) {
  EXPECT_EQ(default_store_capacity({.available_bytes = 10 * gib}), 3 * gib);
  EXPECT_EQ(default_store_capacity({.available_bytes = 0}), 0u);
}

TEST(StoreCapacity, FollowsSmallerCgroup) {
  EXPECT_EQ(default_store_capacity({.available_bytes = 10 * gib, .cgroup_headroom_bytes = gib}),
            gib * 3 / 10 / 4096 * 4096);
  EXPECT_EQ(default_store_capacity({.available_bytes = gib, .cgroup_headroom_bytes = 10 * gib}),
            gib * 3 / 10 / 4096 * 4096);
  EXPECT_EQ(default_store_capacity({.available_bytes = gib, .cgroup_headroom_bytes = 0}), 0u);
}

TEST(StoreCapacity, RejectsCapacityBeyondMachine) {
  EXPECT_EQ(given_store_capacity(20 * gib, 20 * gib).value(), 20 * gib);
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, 999 * gib}) {
    const auto refused = given_store_capacity(bytes, 20 * gib);
    ASSERT_FALSE(refused.ok()) << bytes;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().text.find("--object-store-memory"), std::string::npos);
  }
}

TEST(StoreCapacity, LimitsDefaultTo200GB) {
  EXPECT_EQ(default_store_capacity({.available_bytes = 4096 * gib}), 200'000'000'000 / 4096 * 4096);
}

}  // namespace
}  // namespace mobula::internal
