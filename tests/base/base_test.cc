#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/id.h"
#include "base/quantity.h"
#include "base/random.h"
#include "base/table.h"

namespace mobula::internal {
namespace {

TEST(Quantity, DoublesAreRoundedToTheNearestUnitNotTruncated) {
  EXPECT_EQ(Quantity::from_double(0.57)->units(), 5700);
  EXPECT_EQ(Quantity::from_double(0.1 + 0.2)->units(), 3000);
  EXPECT_EQ(Quantity::from_double(0.0001)->units(), 1);
  EXPECT_EQ(Quantity::from_double(0)->units(), 0);
}

TEST(Quantity, AmountsThatCannotBeBookedAreRefused) {
  for (const double bad : {-1.0, 0.12345, 0.00001, 1e15, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(Quantity::from_double(bad).ok()) << bad;
  }
}

TEST(Quantity, TextIsParsedExactly) {
  EXPECT_EQ(Quantity::parse("0.57")->units(), 5700);
  EXPECT_EQ(Quantity::parse("2")->units(), 20000);
  EXPECT_EQ(Quantity::parse(".5")->units(), 5000);
  EXPECT_EQ(Quantity::parse("1.50000")->units(), 15000);
  for (const char* bad : {"", ".", "-1", "1e3", "0.12345", "1,5", " 1", "999999999999999", "0x10"}) {
    EXPECT_FALSE(Quantity::parse(bad).ok()) << bad;
  }
}

TEST(Quantity, PrintsTheShortestDecimal) {
  EXPECT_EQ(Quantity::from_units(5000).to_string(), "0.5");
  EXPECT_EQ(Quantity::whole(2).to_string(), "2");
  EXPECT_EQ(Quantity::from_units(-1).to_string(), "-0.0001");
}

TEST(Id, HexRoundTripsAndRefusesOtherText) {
  const auto id = JobId::random();
  EXPECT_EQ(JobId::from_hex(id.hex()), id);
  EXPECT_FALSE(JobId::from_hex("xyz").has_value());
  EXPECT_FALSE(JobId::from_hex(std::string(32, 'G')).has_value());
}

TEST(Id, DerivedIdsRepeatAndDiffer) {
  const auto parent = TaskId::of(7);
  EXPECT_EQ(TaskId::derived(parent, "child", 1), TaskId::derived(parent, "child", 1));
  EXPECT_NE(TaskId::derived(parent, "child", 1), TaskId::derived(parent, "child", 2));
  EXPECT_NE(ObjectId::derived(parent, "put", 1).bits(), ObjectId::derived(parent, "return", 1).bits());
}

// Vectors of the reference implementation (key 00..0f, input 00..n-1).
TEST(Hash, SipHashMatchesThePublishedVectors) {
  const Hash128 key{0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
  EXPECT_EQ(siphash128(key, {}), (Hash128{0xe6a825ba047f81a3ULL, 0x930255c71472f66dULL}));
  const std::vector<std::byte> one{std::byte{0}};
  EXPECT_EQ(siphash128(key, one), (Hash128{0x44af996bd8c187daULL, 0x45fc229b11597634ULL}));
}

TEST(Random, AStreamOfItsOwnDoesNotDisturbTheOthers) {
  Random a(42);
  Random b(42);
  (void)b.fork("faults").next();
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(Random(42).fork("faults").next(), Random(42).fork("delays").next());
  for (int i = 0; i < 1000; ++i) EXPECT_LT(a.below(7), 7u);
}

TEST(Table, IteratesInOrderOfInsertionWhateverTheIds) {
  Table<TaskId, int> table;
  for (const std::uint64_t n : {9u, 1u, 5u}) table.insert(TaskId::of(n), static_cast<int>(n));
  table.erase(TaskId::of(1));
  table.insert(TaskId::of(1), 100);
  std::vector<int> seen;
  for (const auto& [id, row] : table) seen.push_back(row);
  EXPECT_EQ(seen, (std::vector<int>{9, 5, 100}));
  EXPECT_FALSE(table.insert(TaskId::of(9), 0).second);
}

}  // namespace
}  // namespace mobula::internal
