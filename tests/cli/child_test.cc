// A child process and its siblings.
#include "cli/child.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace mobula::internal::cli {
namespace {

TEST(Child, ReturnsCodeOfItsBody) {
  auto child = Child::start([](const auto&) { return 7; });
  ASSERT_TRUE(child);
  EXPECT_EQ(child->wait(), 7);
}

// The destructors of the parent's frames, run in the child, would kill the sibling.
TEST(Child, BodyThrows_SiblingLives) {
  auto sibling = Child::start([](const auto&) {
    ::pause();
    return 0;
  });
  ASSERT_TRUE(sibling);
  auto child = Child::start([](const auto&) -> int { throw std::runtime_error("a defect"); });
  ASSERT_TRUE(child);
  EXPECT_EQ(child->wait(), 128 + SIGABRT);
  EXPECT_FALSE(sibling->ended());
}

}  // namespace
}  // namespace mobula::internal::cli
