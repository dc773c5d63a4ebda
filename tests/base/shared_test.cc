#include "base/shared.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace mobula::internal {
namespace {

TEST(Shared, CopiesShareTheValueUntilOneIsChanged) {
  Shared<std::string> first(std::string("a"));
  Shared<std::string> second = first;
  EXPECT_EQ(&first.read(), &second.read());
  *second += "b";
  EXPECT_EQ(first.read(), "a");
  EXPECT_EQ(second.read(), "ab");
  const auto* const own = &second.read();
  *second += "c";
  EXPECT_EQ(&second.read(), own);
}

TEST(Shared, ReadingOneThatIsNotConstForWritingCopiesIt) {
  Shared<std::string> first(std::string("a"));
  const Shared<std::string> second = first;
  EXPECT_EQ(second->size(), 1u);
  EXPECT_EQ(&first.read(), &*second);
  EXPECT_NE(&*first, &*second);
}

TEST(Shared, TakingMovesAValueThatNobodyElseHas) {
  Shared<std::string> alone(std::string(100, 'x'));
  const auto* const bytes = alone->data();
  const auto taken = std::move(alone).take();
  EXPECT_EQ(taken->data(), bytes);

  Shared<std::string> first(std::string("a"));
  Shared<std::string> second = first;
  EXPECT_EQ(std::move(second).take(), "a");
  EXPECT_EQ(first.read(), "a");
}

TEST(Shared, ComparesValuesAndKnowsNone) {
  EXPECT_EQ(Shared<std::string>(std::string("a")), Shared<std::string>(std::string("a")));
  EXPECT_FALSE(Shared<std::string>(std::string("a")) == Shared<std::string>());
  EXPECT_EQ(Shared<std::string>(), Shared<std::string>(std::nullopt));
  EXPECT_FALSE(Shared<std::string>().has_value());
  EXPECT_FALSE(Shared<std::string>().take().has_value());
}

}  // namespace
}  // namespace mobula::internal
