// Compares the oracle with the functions that it models.
#include <gtest/gtest.h>

#include "sim/workload/plan.h"

namespace mobula::internal::sim {
namespace {

Plan throwing(std::uint32_t throws, bool retried, std::int32_t max_retries) {
  Plan plan;
  plan.throws = throws;
  plan.retry_exceptions = retried;
  plan.max_retries = max_retries;
  return plan;
}

TEST(PlanOracle, MustFail_ThrowsInEveryAttempt) {
  for (const bool retried : {false, true}) {
    for (std::uint32_t throws = 0; throws < 4; ++throws) {
      for (std::int32_t max_retries = 0; max_retries < 4; ++max_retries) {
        const Plan plan = throwing(throws, retried, max_retries);
        const bool must_fail = evaluate({plan}, 0, {}).must_fail;
        bool ends_well = false;
        for (std::uint32_t attempt = 0; attempt <= static_cast<std::uint32_t>(max_retries);
             ++attempt) {
          ends_well |= !throws_in(plan, attempt);
        }
        EXPECT_EQ(must_fail, !ends_well)
            << throws << " throws, retried " << retried << ", " << max_retries;
      }
    }
  }
}

}  // namespace
}  // namespace mobula::internal::sim
