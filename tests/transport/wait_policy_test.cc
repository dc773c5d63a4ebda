// How long a thread spins, and when it parks for a fixed time.
#include "transport/ring/wait_policy.h"

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

constexpr WaitParameters parameters{.longest_spin = 8us,
                                    .shortest_spin = 2us,
                                    .coalesced_park = 75us,
                                    .coalesced_worth = 4,
                                    .parks_between_trials = 5};

class WaitPolicyTest : public ::testing::Test {
 protected:
  int parks_until_spin(Duration longest) {
    int parks = 0;
    while (policy_.next_spin(longest) == Duration(0)) ++parks;
    return parks;
  }
  int parks_until_coalesced() {
    int parks = 0;
    while (!policy_.next_park_coalesces()) ++parks;
    return parks;
  }

  WaitPolicy policy_{parameters};
};

TEST_F(WaitPolicyTest, HalvesSpinThatWasNotRung) {
  EXPECT_EQ(policy_.next_spin(8us), 8us);
  policy_.not_rung();
  EXPECT_EQ(policy_.next_spin(8us), 4us);
  policy_.rung(8us);
  EXPECT_EQ(policy_.next_spin(8us), 8us);
}

TEST_F(WaitPolicyTest, LimitsSpinToLongestAllowed) {
  EXPECT_EQ(policy_.next_spin(3us), 3us);
  EXPECT_EQ(policy_.next_spin(1us), Duration(0));
  EXPECT_EQ(policy_.next_spin(Duration(0)), Duration(0));
  policy_.rung(20us);
  EXPECT_EQ(policy_.next_spin(20us), 20us);
}

TEST_F(WaitPolicyTest, RetriesSpinAfterParks) {
  for (int spins = 0; spins < 3; ++spins) {
    EXPECT_EQ(parks_until_spin(8us), 0);
    policy_.not_rung();
  }
  EXPECT_EQ(parks_until_spin(8us), parameters.parks_between_trials - 1);
  EXPECT_EQ(policy_.next_spin(8us), 8us);
}

// A thread without a permit does not spin, and its length stays.
TEST_F(WaitPolicyTest, KeepsSpinWhenNotUsed) {
  policy_.not_rung();
  EXPECT_EQ(policy_.next_spin(8us), 4us);
  EXPECT_EQ(policy_.next_spin(8us), 4us);
}

TEST_F(WaitPolicyTest, CoalescesWhenCallsGatherAndRetriesLater) {
  EXPECT_EQ(parks_until_coalesced(), parameters.parks_between_trials - 1);
  policy_.coalesced(parameters.coalesced_worth - 1);
  EXPECT_EQ(parks_until_coalesced(), parameters.parks_between_trials - 1);
  for (int parks = 0; parks < 3; ++parks) {
    policy_.coalesced(parameters.coalesced_worth);
    EXPECT_EQ(parks_until_coalesced(), 0);
  }
  policy_.coalesced(0);
  EXPECT_EQ(parks_until_coalesced(), parameters.parks_between_trials - 1);
}

}  // namespace
}  // namespace mobula::internal
