#include "base/text/amount_text.h"

#include <gtest/gtest.h>

#include "base/id.h"

namespace mobula::internal {
namespace {

TEST(AmountText, ReadsSizes) {
  EXPECT_EQ(*parse_bytes("0"), 0);
  EXPECT_EQ(*parse_bytes("10GiB"), std::int64_t{10} << 30);
  EXPECT_EQ(*parse_bytes("10gib"), std::int64_t{10} << 30);
  EXPECT_EQ(*parse_bytes("10g"), std::int64_t{10} << 30);
  EXPECT_EQ(*parse_bytes("10GB"), 10'000'000'000);
  EXPECT_EQ(*parse_bytes("1.5K"), 1536);
  for (const char* bad :
       {"", "G", ".", "1..5G", "-1", "1e3", "10 GiB", "10GX", "2000000T", "0x10"}) {
    EXPECT_FALSE(parse_bytes(bad).ok()) << bad;
  }
}

TEST(AmountText, ReadsTimes) {
  EXPECT_DOUBLE_EQ(*parse_seconds("90"), 90);
  EXPECT_DOUBLE_EQ(*parse_seconds("90s"), 90);
  EXPECT_DOUBLE_EQ(*parse_seconds("1m"), 60);
  EXPECT_DOUBLE_EQ(*parse_seconds("1.5h"), 5400);
  EXPECT_DOUBLE_EQ(*parse_seconds("2d"), 172'800);
  EXPECT_DOUBLE_EQ(*parse_seconds("250ms"), 0.25);
  for (const char* bad : {"", "m", "-1s", "1 m", "1w", "1:30", "nan"})
    EXPECT_FALSE(parse_seconds(bad).ok()) << bad;
}

TEST(Ids, BriefForm_IsPrefix) {
  const NodeId id(*bits_from_hex("fba868de620ade6ea8124867334f578e"));
  EXPECT_EQ(id.brief(), "fba868de");
}

}  // namespace
}  // namespace mobula::internal
