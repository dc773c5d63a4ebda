#include "bench/measure/measure.h"

#include <gtest/gtest.h>

namespace mobula::bench {
namespace {

Figure rate_of(double rate, double floor) {
  auto found = figure("a rate", "rate", rate, "calls/s");
  put_beside(found, {"the floor", floor, "calls/s"}, rate, false);
  return found;
}

TEST(BenchLimits, RatioBeyondLimit_NamesFigureAndBoth) {
  auto slow = rate_of(80, 100);
  EXPECT_EQ(why_beyond_limit(slow), "") << "without a limit";
  slow.largest_ratio = 1.3;
  EXPECT_EQ(why_beyond_limit(slow), "");
  slow.largest_ratio = 1 / 0.9;
  EXPECT_EQ(why_beyond_limit(slow), "a rate: 1.250 times the floor, and the limit is 1.111");
}

TEST(BenchLimits, NoFloor_NoLimit) {
  auto found = figure("a rate", "rate", 5, "calls/s");
  found.largest_ratio = 0.1;
  EXPECT_EQ(why_beyond_limit(found), "");
}

}  // namespace
}  // namespace mobula::bench
