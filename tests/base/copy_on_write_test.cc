#include "base/containers/copy_on_write.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace mobula::internal {
namespace {

using Text = CopyOnWrite<std::string>;

TEST(CopyOnWrite, Copies_ShareValueUntilChanged) {
  const Text first(std::string("a"));
  Text second = first;
  EXPECT_EQ(&*first, &*second);
  second.edit() += "b";
  EXPECT_EQ(*first, "a");
  EXPECT_EQ(*second, "ab");
  const auto* const own = &*second;
  second.edit() += "c";
  EXPECT_EQ(&*second, own);
}

TEST(CopyOnWrite, Empty_IsDefaultValueUntilChanged) {
  Text empty;
  EXPECT_TRUE(empty.is_empty());
  EXPECT_EQ(empty->size(), 0u);
  empty.edit() = "a";
  EXPECT_FALSE(empty.is_empty());
  EXPECT_TRUE(Text()->empty());
}

TEST(CopyOnWrite, Take_MovesUnsharedValue) {
  Text alone(std::string(100, 'x'));
  const auto* const bytes = alone->data();
  EXPECT_EQ(std::move(alone).take().data(), bytes);

  const Text first(std::string("a"));
  Text second = first;
  EXPECT_EQ(std::move(second).take(), "a");
  EXPECT_EQ(*first, "a");
}

TEST(CopyOnWrite, ComparesValues) {
  EXPECT_EQ(Text(std::string("a")), Text(std::string("a")));
  EXPECT_FALSE(Text(std::string("a")) == Text(std::string("b")));
  EXPECT_EQ(Text(), Text(std::string()));
  EXPECT_FALSE(Text().is_same(Text(std::string())));
}

}  // namespace
}  // namespace mobula::internal
