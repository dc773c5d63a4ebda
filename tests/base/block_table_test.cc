#include "base/containers/block_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace mobula::internal {
namespace {

using Rows = BlockTable<TaskId, std::string>;

// Many keys have equal hashes in their lower bits, so that runs of slots are long.
TaskId key_of(std::uint64_t number, int step) { return TaskId::of(number << (step % 3 * 20)); }

// Compares with a list that is searched. The table grows beyond several blocks and shrinks.
TEST(BlockTable, MatchesListOfRows) {
  std::mt19937_64 draw(7);
  Rows table;
  std::vector<std::pair<TaskId, std::string>> rows;
  std::map<TaskId, const std::string*> addresses;
  for (int step = 0; step < 12'000; ++step) {
    const TaskId id = key_of(draw() % 700, step);
    const auto at = std::ranges::find(rows, id, [](const auto& each) { return each.first; });
    const bool grows = (step / 3'000) % 2 == 0;
    if (draw() % 10 < (grows ? 7u : 2u)) {
      const auto [there, is_new] = table.ensure(id);
      ASSERT_EQ(is_new, at == rows.end());
      if (is_new) {
        *there = "row " + std::to_string(step);
        rows.emplace_back(id, *there);
        addresses[id] = there;
      }
    } else if (at != rows.end() && draw() % 2 == 0) {
      ASSERT_EQ(table.take(id), at->second);
      rows.erase(at);
    } else {
      ASSERT_EQ(table.erase(id), at != rows.end());
      if (at != rows.end()) rows.erase(at);
    }
    ASSERT_EQ(table.size(), rows.size());
    ASSERT_EQ(table.contains(id),
              std::ranges::any_of(rows, [&](const auto& each) { return each.first == id; }));
    if (step % 500 != 0) continue;
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
  table.clear();
  EXPECT_TRUE(table.empty());
  EXPECT_TRUE(table.begin() == table.end());
  EXPECT_EQ(table.find(rows.front().first), nullptr);
}

TEST(BlockTable, FreesLargeEmptyBlocks) {
  BlockTable<TaskId, std::uint64_t> table;
  constexpr std::uint64_t count = 200'000;
  for (std::uint64_t i = 1; i <= count; ++i) table[TaskId::of(i)] = i;
  const std::size_t most = table.allocated_bytes();
  EXPECT_GE(most, count * (sizeof(TaskId) + sizeof(std::uint64_t)));
  // The last row keeps its block.
  for (std::uint64_t i = 1; i < count; ++i) ASSERT_TRUE(table.erase(TaskId::of(i)));
  EXPECT_LE(table.allocated_bytes(), most / 2 + (2u << 20));
  EXPECT_EQ(table.at(TaskId::of(count)), count);
  table.clear();
  EXPECT_LE(table.allocated_bytes(), 1u << 20);
  table[TaskId::of(7)] = 7;
  EXPECT_EQ(table.at(TaskId::of(7)), 7u);
}

// A row whose destructor uses the table.
struct Chained {
  BlockTable<TaskId, Chained>* table = nullptr;
  TaskId next;
  ~Chained() {
    if (table != nullptr) table->erase(next);
  }
};

TEST(BlockTable, RowsMayEraseOthersAtTheirEnd) {
  BlockTable<TaskId, Chained> table;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    Chained& row = table[TaskId::of(i)];
    row.table = &table;
    row.next = TaskId::of(i + 1);
  }
  EXPECT_TRUE(table.erase(TaskId::of(41)));
  EXPECT_EQ(table.size(), 40u);
  EXPECT_FALSE(table.contains(TaskId::of(100)));
  EXPECT_TRUE(table.contains(TaskId::of(40)));
}

}  // namespace
}  // namespace mobula::internal
