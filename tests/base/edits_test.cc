#include "base/edits.h"

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

TEST(Edits, CountsEachEditOnce) {
  EXPECT_EQ(edits_between("status", "status"), 0u);
  EXPECT_EQ(edits_between("statu", "status"), 1u) << "left out";
  EXPECT_EQ(edits_between("statuss", "status"), 1u) << "added";
  EXPECT_EQ(edits_between("stasus", "status"), 1u) << "another";
  EXPECT_EQ(edits_between("stauts", "status"), 1u) << "in each other's place";
  EXPECT_EQ(edits_between("stauts", "start"), 2u);
  EXPECT_EQ(edits_between("", "abc"), 3u);
  EXPECT_EQ(edits_between("abc", ""), 3u);
  EXPECT_EQ(edits_between("", ""), 0u);
  EXPECT_EQ(edits_between("kitten", "sitting"), 3u);
}

}  // namespace
}  // namespace mobula::internal
