#include "scheduler/queues/reservation_gate.h"

#include <gtest/gtest.h>

namespace mobula::internal::scheduler {
namespace {

using namespace std::chrono_literals;

class ReservationGateTest : public testing::Test {
 protected:
  // Checks each 100 ms; returns the time until it opens, or nothing within an hour.
  std::optional<Duration> opens_within_an_hour(bool blocked = false) {
    const Time from = now_;
    for (; now_ < from + 1h; now_ = now_ + 100ms) {
      if (withheld_.check(now_, blocked, settings_).opened) return now_ - from;
    }
    return std::nullopt;
  }
  Time now_{Time() + 1h};
  ReservationGateSettings settings_;
  ReservationGate withheld_;
};

TEST_F(ReservationGateTest, OpensAfterIdleTimeAndSoonerForTask) {
  EXPECT_EQ(opens_within_an_hour(), 10s);
  withheld_ = {};
  EXPECT_EQ(opens_within_an_hour(true), 2s);
}

TEST_F(ReservationGateTest, StaysOpenUntilGrantAndBrieflyAfter) {
  opens_within_an_hour();
  now_ = now_ + 1min;
  withheld_.check(now_, false, settings_);
  EXPECT_TRUE(withheld_.is_open()) << "no request has passed";
  withheld_.passed(now_);
  withheld_.passed(now_ + 50ms);
  EXPECT_EQ(withheld_.check(now_ + 99ms, false, settings_).again, now_ + 100ms);
  EXPECT_TRUE(withheld_.is_open());
  withheld_.check(now_ + 100ms, false, settings_);
  EXPECT_FALSE(withheld_.is_open());
}

TEST_F(ReservationGateTest, ClosesAtOnceWhenSlotReturns) {
  opens_within_an_hour();
  withheld_.came_back(Time());
  EXPECT_FALSE(withheld_.is_open());
  EXPECT_EQ(opens_within_an_hour(), 10s);
}

TEST_F(ReservationGateTest, DoublesIntervalUpToLimit) {
  for (const Duration expected : {10s, 20s, 40s, 80s, 160s, 320s, 600s, 600s}) {
    EXPECT_EQ(opens_within_an_hour(), expected);
    withheld_.passed(now_);
    now_ = now_ + 100ms;
    withheld_.check(now_, false, settings_);
  }
}

TEST_F(ReservationGateTest, ReturnedSlot_DefersOpening) {
  for (int i = 0; i < 30; ++i) {
    now_ = now_ + 9s;
    withheld_.came_back(Time());
    EXPECT_FALSE(withheld_.check(now_, false, settings_).opened);
  }
  EXPECT_EQ(opens_within_an_hour(), 10s);
}

// Otherwise the work that is admitted each time would still be present the next time.
TEST_F(ReservationGateTest, StaysClosedLongerThanGrantedTime) {
  opens_within_an_hour();
  const Time granted = now_;
  now_ = now_ + 60s;
  withheld_.came_back(granted);
  EXPECT_EQ(opens_within_an_hour(), 120s);
}

TEST_F(ReservationGateTest, IgnoresTimeOfEarlierGrants) {
  withheld_.check(now_, false, settings_);
  now_ = now_ + 5s;
  withheld_.came_back(now_ - 1h);
  EXPECT_EQ(opens_within_an_hour(), 10s);
}

}  // namespace
}  // namespace mobula::internal::scheduler
