#include "base/model/jobs/isolation.h"

#include <gtest/gtest.h>

#include "base/model/node_shape.h"

namespace mobula::internal {
namespace {

TEST(Isolation, Empty_IsAdvisory) {
  EXPECT_TRUE(Isolation().promise_only());
  EXPECT_EQ(to_string(Isolation()), "promise only");
}

TEST(Isolation, PrintsInWords) {
  EXPECT_EQ(to_string(Isolation{.prevents = Prevents::mig}), "MIG");
  const Isolation watched{
      .detects = Detects::per_process, .detect_period_ms = 1000, .reacts = Reacts::log};
  EXPECT_FALSE(watched.promise_only());
  EXPECT_EQ(to_string(watched), "per process every 1000 ms: log");
  const Isolation both{Prevents::driver_mps, Detects::device_total, 500, Reacts::kill};
  EXPECT_EQ(to_string(both), "driver MPS; device total every 500 ms: kill");
}

TEST(Isolation, PrintsUnknownValuesOfNewerVersions) {
  EXPECT_EQ(to_string(static_cast<Prevents>(99)), "unknown");
  EXPECT_EQ(to_string(static_cast<Detects>(99)), "unknown");
  EXPECT_EQ(to_string(static_cast<Reacts>(99)), "unknown");
}

TEST(Isolation, PartOfSlice_IsAdvisory) {
  InstanceShape slice;
  slice.isolation.prevents = Prevents::mig;
  EXPECT_EQ(slice.isolation_of(Quantity::whole(1)).prevents, Prevents::mig);
  EXPECT_TRUE(slice.isolation_of(Quantity::from_units(9'999)).promise_only());
}

}  // namespace
}  // namespace mobula::internal
