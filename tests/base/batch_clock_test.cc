#include "base/batch_clock.h"

#include <gtest/gtest.h>

#include <optional>

namespace mobula::internal::batch_clock {
namespace {

void let_time_pass() {
  for (const Time before = monotonic_now(); monotonic_now() == before;) {
  }
}

TEST(BatchClock, ReadsEachTimeOutsideBatch) {
  BatchClock clock;
  const Time first = clock.now();
  let_time_pass();
  EXPECT_GT(clock.now(), first);
}

TEST(BatchClock, ReadsSameTimeWithinBatch) {
  BatchClock clock;
  const BatchClock::Batch batch(clock);
  const Time first = clock.now();
  let_time_pass();
  for (int i = 1; i < BatchClock::events_per_reading; ++i) EXPECT_EQ(clock.now(), first);
  EXPECT_GT(clock.now(), first);
}

TEST(BatchClock, ReadsAgainAfterOutermostBatch) {
  BatchClock clock;
  std::optional<BatchClock::Batch> outer(std::in_place, clock);
  const Time first = clock.now();
  {
    const BatchClock::Batch inner(clock);
    EXPECT_EQ(clock.now(), first);
  }
  EXPECT_EQ(clock.now(), first);
  outer.reset();
  let_time_pass();
  EXPECT_GT(clock.now(), first);
}

}  // namespace
}  // namespace mobula::internal::batch_clock
