#include "client/api/completion/completion_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>

namespace mobula::detail {
namespace {

using Tokens = std::vector<std::uint64_t>;

Tokens take_all(CompletionRows& rows) {
  std::array<std::uint64_t, 64> tokens{};
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(rows.take(tokens))};
}

TEST(CompletionRows, ReturnsTokensInOrderOfReadiness) {
  CompletionRows rows;
  const auto a = rows.add(1, {});
  const auto b = rows.add(2, {});
  EXPECT_FALSE(rows.has_ready());
  rows.set_ready(b);
  rows.set_ready(a);
  rows.set_ready(a);
  EXPECT_EQ(take_all(rows), (Tokens{2, 1}));
  EXPECT_EQ(rows.size(), 0u);
  rows.set_ready(a);
  EXPECT_FALSE(rows.has_ready());
}

TEST(CompletionRows, NumberOfReusedSlot_IsUnknown) {
  CompletionRows rows;
  const auto old = rows.add(1, {});
  rows.erase(old);
  const auto next = rows.add(2, {});
  EXPECT_NE(old, next);
  rows.set_ready(old);
  rows.erase(old);
  EXPECT_FALSE(rows.has_ready());
  EXPECT_EQ(rows.size(), 1u);
}

TEST(CompletionRows, FindsTokensThatPrecedeTheIndex) {
  CompletionRows rows;
  const auto first = rows.add(7, {});
  rows.erase(rows.add(8, {}));
  rows.add(7, {});
  rows.add(9, {});
  rows.set_ready(first);
  EXPECT_EQ(take_all(rows), (Tokens{7}));
  ASSERT_TRUE(rows.find(7).has_value());
  rows.erase(rows.find(7)->number);
  EXPECT_FALSE(rows.find(7).has_value());
  EXPECT_FALSE(rows.find(8).has_value());
  EXPECT_TRUE(rows.find(9).has_value());
  rows.add(8, {});
  EXPECT_TRUE(rows.find(8).has_value());
}

TEST(CompletionRows, AgreesWithAModel) {
  std::mt19937_64 random(5);
  CompletionRows rows;
  std::map<std::uint64_t, std::uint64_t> token_of;  // by number
  Tokens ready;                                     // numbers
  for (int i = 0; i < 20'000; ++i) {
    switch (random() % 4) {
      case 0: {
        const std::uint64_t token = random() % 8;
        token_of[rows.add(token, {})] = token;
        break;
      }
      case 1: {
        if (token_of.empty()) break;
        auto at = std::next(token_of.begin(), static_cast<long>(random() % token_of.size()));
        rows.set_ready(at->first);
        if (std::find(ready.begin(), ready.end(), at->first) == ready.end())
          ready.push_back(at->first);
        break;
      }
      case 2: {
        const auto row = rows.find(random() % 8);
        if (!row) break;
        ASSERT_TRUE(token_of.contains(row->number));
        ASSERT_EQ(row->ready, std::find(ready.begin(), ready.end(), row->number) != ready.end());
        rows.erase(row->number);
        token_of.erase(row->number);
        std::erase(ready, row->number);
        break;
      }
      default: {
        std::array<std::uint64_t, 2> tokens{};
        const std::size_t count = rows.take(tokens);
        ASSERT_EQ(count, std::min<std::size_t>(2, ready.size()));
        for (std::size_t k = 0; k < count; ++k) {
          ASSERT_EQ(tokens[k], token_of.at(ready.front()));
          token_of.erase(ready.front());
          ready.erase(ready.begin());
        }
      }
    }
    ASSERT_EQ(rows.size(), token_of.size());
    ASSERT_EQ(rows.has_ready(), !ready.empty());
  }
}

}  // namespace
}  // namespace mobula::detail
