// Ring buffer of the latest rows.
#include <gtest/gtest.h>

#include "base/containers/ring_buffer.h"

namespace mobula::internal {
namespace {

TEST(RingBuffer, KeepsLatestInOrderAndCountsRest) {
  RingBuffer<int, 3> latest;
  EXPECT_EQ(latest.size(), 0u);
  for (int i = 1; i <= 8; ++i) {
    latest.add(i);
    const std::size_t kept = std::min<std::size_t>(3, static_cast<std::size_t>(i));
    ASSERT_EQ(latest.size(), kept);
    for (std::size_t at = 0; at < kept; ++at)
      EXPECT_EQ(latest[at], i - static_cast<int>(kept - 1 - at));
    EXPECT_EQ(latest.forgotten(), static_cast<std::uint64_t>(i) - kept);
  }
}

}  // namespace
}  // namespace mobula::internal
