#include "client/engine/armed_deadline.h"

#include <gtest/gtest.h>

namespace mobula::internal::client {
namespace {

Time at(int ms) { return Time::from_ns(1'000'000'000) + ms * 1ms; }

TEST(RingTimeTest, ArmsRequestedDeadlineThoughPast) {
  ArmedDeadline time;
  EXPECT_TRUE(time.want(at(20)));
  EXPECT_FALSE(time.want(std::nullopt)) << "it is gone when the loop looks";
  EXPECT_EQ(time.take(), at(20));
  EXPECT_EQ(time.take(), std::nullopt) << "once";
  EXPECT_FALSE(time.want(at(21))) << "the next one needs no loop";
  EXPECT_EQ(time.take(), std::nullopt);
}

TEST(RingTimeTest, ArmsSoonestDeadline) {
  ArmedDeadline time;
  EXPECT_TRUE(time.want(at(20)));
  EXPECT_TRUE(time.want(at(5)));
  EXPECT_TRUE(time.want(at(9)));
  EXPECT_EQ(time.take(), at(5));
  EXPECT_TRUE(time.want(at(2)));
  EXPECT_EQ(time.take(), at(2));
}

TEST(RingTimeTest, FiredDeadline_CanBeArmedAgain) {
  ArmedDeadline time;
  EXPECT_TRUE(time.want(at(20)));
  EXPECT_EQ(time.take(), at(20));
  time.rang();
  EXPECT_TRUE(time.want(at(40)));
  EXPECT_EQ(time.take(), at(40));
}

}  // namespace
}  // namespace mobula::internal::client
