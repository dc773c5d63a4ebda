#include "base/result.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

// Writes its state when its lifetime ends.
struct Row {
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  Row() = default;
  Row(Row&&) = default;
  ~Row() {
    if (alive) *alive = false;
  }
};

Result<std::vector<Row>> two_rows() {
  std::vector<Row> rows(2);
  return rows;
}

TEST(Result, LoopOverTemporary_ExtendsItsLifetime) {
  std::vector<std::shared_ptr<bool>> seen;
  for (const Row& row : two_rows().value()) {
    EXPECT_TRUE(*row.alive);
    seen.push_back(row.alive);
  }
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_FALSE(*seen[0]);
  for (const Row& row : *two_rows()) EXPECT_TRUE(*row.alive);
}

TEST(Result, ValueMovesOutOfRvalue) {
  Result<std::unique_ptr<int>> number = std::make_unique<int>(3);
  const auto owned = std::move(number).value();
  EXPECT_EQ(*owned, 3);
}

TEST(Result, FailureKeepsCodeAndText) {
  const Result<int> bad = failure(ErrorCode::not_found, "no such row");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::not_found);
  EXPECT_EQ(bad.error().text, "no such row");
}

}  // namespace
}  // namespace mobula::internal
