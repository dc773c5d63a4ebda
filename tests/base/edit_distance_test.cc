#include "base/text/edit_distance.h"

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

TEST(Edits, CountsEachEditOnce) {
  EXPECT_EQ(edit_distance("status", "status"), 0u);
  EXPECT_EQ(edit_distance("statu", "status"), 1u) << "left out";
  EXPECT_EQ(edit_distance("statuss", "status"), 1u) << "added";
  EXPECT_EQ(edit_distance("stasus", "status"), 1u) << "another";
  EXPECT_EQ(edit_distance("stauts", "status"), 1u) << "in each other's place";
  EXPECT_EQ(edit_distance("stauts", "start"), 2u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

}  // namespace
}  // namespace mobula::internal
