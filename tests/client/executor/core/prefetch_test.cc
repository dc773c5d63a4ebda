#include "client/executor/core/prefetch.h"

#include <gtest/gtest.h>

namespace mobula::internal::executor {
namespace {

const ProcessId one = ProcessId::of(1);
const ProcessId two = ProcessId::of(2);

TEST(PrefetchBudget, CountsPrefetchedUntilCallStarts) {
  PrefetchBudget ahead(100);
  for (std::uint64_t token = 1; token <= 4; ++token) ahead.waits(token, one);
  EXPECT_TRUE(ahead.may_pull(1, 60));
  EXPECT_FALSE(ahead.may_pull(2, 60));
  EXPECT_TRUE(ahead.may_pull(3, 40)) << "that fits";
  EXPECT_TRUE(ahead.may_pull(1, 60)) << "asked again";
  EXPECT_FALSE(ahead.may_pull(4, 1)) << "100 bytes are ahead";
  ahead.begun(1);
  EXPECT_TRUE(ahead.may_pull(2, 60));
  EXPECT_FALSE(ahead.may_pull(4, 1));
  ahead.begun(3);
  EXPECT_TRUE(ahead.may_pull(4, 1));
}

TEST(PrefetchBudget, AlwaysAllowsFirstOfEachCaller) {
  PrefetchBudget ahead(100);
  ahead.waits(1, one);  // its tensors are not known yet
  ahead.waits(2, one);
  ahead.waits(3, two);
  EXPECT_TRUE(ahead.may_pull(2, 100));
  EXPECT_TRUE(ahead.may_pull(3, 500)) << "call 1 may wait for it";
  EXPECT_TRUE(ahead.may_pull(1, 500)) << "call 2 waits for it";
}

TEST(PrefetchBudget, DroppedBeforePull_CountsNothing) {
  PrefetchBudget ahead(100);
  ahead.waits(1, one);
  ahead.waits(2, one);
  ahead.begun(1);
  EXPECT_TRUE(ahead.may_pull(2, 1000));
  ahead.begun(2);
  ahead.waits(3, one);
  ahead.waits(4, one);
  EXPECT_TRUE(ahead.may_pull(4, 100)) << "no earlier call counts";
}

}  // namespace
}  // namespace mobula::internal::executor
