#include "base/containers/queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "base/random.h"

namespace mobula::internal {
namespace {

TEST(Queue, KeepsOrder) {
  Queue<int> queue;
  std::deque<int> model;
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    const bool grows = (i / 3000) % 2 == 0;  // grows to thousands, then shrinks to zero
    if (model.empty() || random.below(10) < (grows ? 7u : 3u)) {
      queue.push_back(i);
      model.push_back(i);
    } else if (random.below(2) == 0) {
      ASSERT_EQ(queue.take_front(), model.front());
      model.pop_front();
    } else {
      queue.pop_front();
      model.pop_front();
    }
    ASSERT_EQ(queue.size(), model.size());
    ASSERT_EQ(queue.empty(), model.empty());
    if (model.empty()) continue;
    ASSERT_EQ(queue.front(), model.front());
    ASSERT_EQ(queue[model.size() - 1], model.back());
    if (i % 97 == 0) {
      ASSERT_TRUE(std::equal(queue.begin(), queue.end(), model.begin(), model.end()));
    }
  }
}

TEST(Queue, ReleasesTakenValues) {
  Queue<std::shared_ptr<int>> queue;
  const auto row = std::make_shared<int>(1);
  queue.push_back(row);
  queue.push_back(row);
  EXPECT_EQ(row.use_count(), 3);
  queue.pop_front();
  EXPECT_EQ(row.use_count(), 2);
  EXPECT_EQ(queue.take_front(), row);
  EXPECT_EQ(row.use_count(), 1);
}

TEST(Queue, MovesAndCopiesAsAValue) {
  Queue<int> queue;
  for (int i = 0; i < 20; ++i) queue.push_back(i);
  queue.pop_front();
  Queue<int> copy = queue;
  copy.pop_front();
  EXPECT_EQ(queue.front(), 1);
  EXPECT_EQ(copy.front(), 2);
  const Queue<int> moved = std::move(copy);
  EXPECT_EQ(moved.size(), 18u);
  EXPECT_TRUE(copy.empty())
      << "and may be used again";  // NOLINT: reuse after the move is under test
  copy.push_back(5);
  EXPECT_EQ(copy.front(), 5);
}

}  // namespace
}  // namespace mobula::internal
