#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/containers/ordered_runs.h"
#include "base/containers/table.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/quantity.h"
#include "base/random.h"

namespace mobula::internal {
namespace {

// An amount from a request or flag, and its units; empty: rejected.
struct DoubleRow {
  double amount;
  std::optional<std::int64_t> units;
};

class QuantityOfDouble : public testing::TestWithParam<DoubleRow> {};

TEST_P(QuantityOfDouble, RoundsToNearestUnitOrRejects) {
  const auto quantity = Quantity::from_double(GetParam().amount);
  ASSERT_EQ(quantity.ok(), GetParam().units.has_value());
  if (quantity) {
    EXPECT_EQ(quantity->units(), *GetParam().units);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Amounts, QuantityOfDouble,
    testing::Values(DoubleRow{0, 0}, DoubleRow{-0.0, 0}, DoubleRow{1, 10'000},
                    DoubleRow{0.57, 5'700},  // truncation would make it 5699
                    DoubleRow{0.29, 2'900}, DoubleRow{1.1, 11'000}, DoubleRow{0.1 + 0.2, 3'000},
                    DoubleRow{1.0 / 2, 5'000}, DoubleRow{0.0001, 1}, DoubleRow{0.001, 10},
                    DoubleRow{2.5, 25'000}, DoubleRow{100e12, 1'000'000'000'000'000'000},
                    DoubleRow{1099511627776.0, 10'995'116'277'760'000},
                    DoubleRow{0.12345, std::nullopt}, DoubleRow{0.00005, std::nullopt},
                    DoubleRow{0.00001, std::nullopt}, DoubleRow{1e-11, std::nullopt},
                    DoubleRow{1.0 / 3, std::nullopt}, DoubleRow{-1, std::nullopt},
                    DoubleRow{-0.0001, std::nullopt}, DoubleRow{100.1e12, std::nullopt},
                    DoubleRow{std::numeric_limits<double>::quiet_NaN(), std::nullopt},
                    DoubleRow{std::numeric_limits<double>::infinity(), std::nullopt},
                    DoubleRow{-std::numeric_limits<double>::infinity(), std::nullopt}));

struct TextRow {
  const char* text;
  std::optional<std::int64_t> units;
};

class QuantityOfText : public testing::TestWithParam<TextRow> {};

TEST_P(QuantityOfText, ParsesExactlyOrRejects) {
  const auto quantity = Quantity::parse(GetParam().text);
  ASSERT_EQ(quantity.ok(), GetParam().units.has_value()) << GetParam().text;
  if (quantity) {
    EXPECT_EQ(quantity->units(), *GetParam().units);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, QuantityOfText,
    testing::Values(
        TextRow{"0", 0}, TextRow{"2", 20'000}, TextRow{"007", 70'000}, TextRow{"0.57", 5'700},
        TextRow{".5", 5'000}, TextRow{"3.", 30'000}, TextRow{"0.0001", 1},
        TextRow{"1.50000", 15'000}, TextRow{"99999999999999.9999", 999'999'999'999'999'999},
        TextRow{"100000000000000", 1'000'000'000'000'000'000},
        TextRow{"100000000000001", std::nullopt}, TextRow{"100000000000000.0001", std::nullopt},
        TextRow{"0.00001", std::nullopt}, TextRow{"0.12345", std::nullopt},
        TextRow{"", std::nullopt}, TextRow{".", std::nullopt}, TextRow{"-1", std::nullopt},
        TextRow{"+1", std::nullopt}, TextRow{"1e3", std::nullopt}, TextRow{"1,5", std::nullopt},
        TextRow{" 1", std::nullopt}, TextRow{"1 ", std::nullopt}, TextRow{"0x10", std::nullopt},
        TextRow{"nan", std::nullopt}));

TEST(Quantity, PrintsShortestDecimal) {
  EXPECT_EQ(Quantity::from_units(5000).to_string(), "0.5");
  EXPECT_EQ(Quantity::whole(2).to_string(), "2");
  EXPECT_EQ(Quantity::from_units(-1).to_string(), "-0.0001");
}

TEST(Id, ParsesHexAndRejectsOtherText) {
  const auto id = JobId::random();
  EXPECT_EQ(JobId::from_hex(id.hex()), id);
  EXPECT_FALSE(JobId::from_hex("xyz").has_value());
  EXPECT_FALSE(JobId::from_hex(std::string(32, 'G')).has_value());
}

TEST(Id, DerivesRepeatableDistinctIds) {
  const auto parent = TaskId::of(7);
  EXPECT_EQ(TaskId::derived(parent, "child", 1), TaskId::derived(parent, "child", 1));
  EXPECT_NE(TaskId::derived(parent, "child", 1), TaskId::derived(parent, "child", 2));
  EXPECT_NE(ObjectId::derived(parent, "put", 1).bits(),
            ObjectId::derived(parent, "return", 1).bits());
}

// Vectors of the reference implementation (key 00..0f, input 00..n-1).
TEST(Hash, MatchesSipHashVectors) {
  const Hash128 key{0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
  EXPECT_EQ(siphash128(key, {}), (Hash128{0xe6a825ba047f81a3ULL, 0x930255c71472f66dULL}));
  const std::vector<std::byte> one{std::byte{0}};
  EXPECT_EQ(siphash128(key, one), (Hash128{0x44af996bd8c187daULL, 0x45fc229b11597634ULL}));
}

TEST(Random, ForkedStream_LeavesOthersUnchanged) {
  Random a(42);
  Random b(42);
  (void)b.fork("faults").next();
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(Random(42).fork("faults").next(), Random(42).fork("delays").next());
  for (int i = 0; i < 1000; ++i) EXPECT_LT(a.below(7), 7u);
}

// Expects equal entries from `at` on, in order.
template <class A, class B>
void expect_alike(A at, A end, B expected, B expected_end) {
  for (; at != end && expected != expected_end; ++at, ++expected) {
    ASSERT_EQ(at->first, expected->first);
    ASSERT_EQ(at->second, expected->second);
  }
  EXPECT_TRUE(at == end);
  EXPECT_TRUE(expected == expected_end);
}

TEST(OrderedRuns, MatchesStdMap) {
  Random random(3);
  OrderedRuns<std::int64_t, int> runs;
  std::map<std::int64_t, int> map;
  // Grows to several runs, shrinks, and grows again.
  for (int step = 0; step < 20'000; ++step) {
    const bool grows = step / 5'000 % 2 == 0;
    const auto key = static_cast<std::int64_t>(random.below(2'000));
    const auto to = static_cast<std::int64_t>(random.below(2'000));
    if (random.below(3) == 0 && map.contains(key) && !map.contains(to)) {
      runs.move(key, to);
      auto moved = map.extract(key);
      moved.key() = to;
      map.insert(std::move(moved));
    } else if (random.below(8) < (grows ? 6U : 1U)) {
      if (map.emplace(key, step).second) runs.insert(key, step);
    } else {
      ASSERT_EQ(runs.erase(key), map.erase(key) == 1);
    }
    ASSERT_EQ(runs.size(), map.size());
    const auto lower = map.lower_bound(to);
    const auto upper = map.upper_bound(to);
    ASSERT_EQ(runs.lower_bound(to) == runs.end(), lower == map.end());
    ASSERT_EQ(runs.upper_bound(to) == runs.end(), upper == map.end());
    if (step % 100 != 0) continue;
    expect_alike(runs.begin(), runs.end(), map.begin(), map.end());
    expect_alike(runs.lower_bound(to), runs.end(), lower, map.end());
    expect_alike(runs.upper_bound(to), runs.end(), upper, map.end());
  }
}

TEST(OrderedRuns, RemovesFirstAndInsertsLast) {
  OrderedRuns<int, int> runs;
  for (int i = 0; i < 10'000; ++i) {
    runs.insert(i, -i);
    if (i >= 1'500) {
      ASSERT_TRUE(runs.erase(i - 1'500));
    }
    ASSERT_EQ(runs.begin()->second, -std::max(0, i - 1'499));
  }
  EXPECT_EQ(runs.size(), 1'500U);
  runs.move(9'000, 20'000);
  EXPECT_EQ(runs.lower_bound(10'000)->second, -9'000);
  while (!runs.empty()) runs.erase(runs.begin()->first);
  EXPECT_TRUE(runs.begin() == runs.end());
}

TEST(Table, IteratesInInsertionOrder) {
  Table<TaskId, int> table;
  for (const std::uint64_t n : {9u, 1u, 5u}) table.insert(TaskId::of(n), static_cast<int>(n));
  table.erase(TaskId::of(1));
  table.insert(TaskId::of(1), 100);
  std::vector<int> seen;
  for (const auto& [id, row] : table) seen.push_back(row);
  EXPECT_EQ(seen, (std::vector<int>{9, 5, 100}));
  EXPECT_FALSE(table.insert(TaskId::of(9), 0).second);
}

// Compares with a list that is searched. Ids differ in few bits, and exceed the first capacity.
TEST(Table, MatchesListOfRows) {
  std::mt19937_64 draw(7);
  Table<TaskId, std::string> table;
  std::vector<std::pair<TaskId, std::string>> rows;
  std::map<TaskId, const std::string*> addresses;
  for (int step = 0; step < 12'000; ++step) {
    const auto id = TaskId::of((draw() % 700) << (step % 3 * 20));
    const auto at = std::ranges::find(rows, id, [](const auto& each) { return each.first; });
    const bool grows = (step / 3'000) % 2 == 0;
    if (draw() % 10 < (grows ? 7u : 2u)) {
      const std::string row = "row " + std::to_string(step);
      const auto [there, fresh] = table.insert(id, row);
      ASSERT_EQ(fresh, at == rows.end());
      if (fresh) {
        rows.emplace_back(id, row);
        addresses[id] = there;
      }
    } else {
      ASSERT_EQ(table.erase(id), at != rows.end());
      if (at != rows.end()) rows.erase(at);
    }
    ASSERT_EQ(table.size(), rows.size());
    if (step % 1'000 != 0) continue;
    std::size_t position = 0;
    for (const auto& [key, row] : table) {
      ASSERT_EQ(key, rows.at(position).first);
      ASSERT_EQ(row, rows.at(position).second);
      ASSERT_EQ(&row, addresses.at(key)) << "rows keep their address";
      ASSERT_EQ(table.find(key), &row);
      ++position;
    }
    ASSERT_EQ(position, rows.size());
  }
  for (auto at = table.begin(); at != table.end();) {
    at = at->second.ends_with('0') ? table.erase(at) : std::next(at);
  }
  std::erase_if(rows, [](const auto& each) { return each.second.ends_with('0'); });
  const auto same = [&](const Table<TaskId, std::string>& other) {
    return std::ranges::equal(other, rows, [](const auto& a, const auto& b) {
      return a.first == b.first && a.second == b.second;
    });
  };
  EXPECT_TRUE(same(table));
  const Table copy(table);
  Table moved(std::move(table));
  EXPECT_TRUE(same(copy));
  EXPECT_TRUE(same(moved));
  EXPECT_EQ(moved.at(rows.front().first), rows.front().second);
  table = std::move(moved);
  EXPECT_TRUE(same(table));
  table.clear();
  EXPECT_TRUE(table.empty());
  EXPECT_TRUE(table.begin() == table.end());
  EXPECT_FALSE(table.contains(rows.front().first));
}

}  // namespace
}  // namespace mobula::internal
