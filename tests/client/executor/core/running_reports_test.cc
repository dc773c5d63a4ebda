#include "client/executor/core/running_reports.h"

#include <gtest/gtest.h>

namespace mobula::internal::executor {
namespace {

using Say = RunningReports::Say;

class RunningReportsTest : public ::testing::Test {
 protected:
  RunningReportsTest() { EXPECT_EQ(starts("first"), Say::now); }
  Say starts(const std::string& name, bool may_run_again = true) {
    if (reports_.as_before(name, may_run_again)) return Say::nothing;
    return reports_.starts(name, TaskId::of(++task_), may_run_again, now_);
  }
  // Alternates two functions until a report is deferred.
  int turns_said() {
    int said = 0;
    while (starts(said % 2 == 0 ? "make" : "look") == Say::now) ++said;
    return said;
  }

  RunningReports reports_;
  Time now_ = Time::from_ns(1'000'000'000);
  std::uint64_t task_ = 0;
};

TEST_F(RunningReportsTest, ReportsSameTaskOnce) {
  EXPECT_EQ(starts("make"), Say::now);
  EXPECT_EQ(starts("make"), Say::nothing);
  EXPECT_EQ(reports_.runs().task, TaskId::of(2));
}

TEST_F(RunningReportsTest, ReportsAllLongCalls) {
  for (int call = 0; call < 1000; ++call) {
    EXPECT_EQ(starts(call % 2 == 0 ? "make" : "look"), Say::now);
    now_ = now_ + RunningReports::for_each;
  }
}

TEST_F(RunningReportsTest, ManyStarts_DelaysReportOfLast) {
  EXPECT_EQ(turns_said(), RunningReports::at_once);
  EXPECT_EQ(starts("other"), Say::nothing) << "one repeat is already scheduled";
  EXPECT_TRUE(reports_.again());
  EXPECT_EQ(reports_.runs().name, "other");
  EXPECT_FALSE(reports_.again());
}

TEST_F(RunningReportsTest, LimitsReportsOfManyShortCalls) {
  int said = 0;
  for (int call = 0; call < 1000; ++call) {
    said += starts(call % 2 == 0 ? "make" : "look") == Say::now ? 1 : 0;
    now_ = now_ + RunningReports::for_each / 10;
  }
  EXPECT_EQ(said, RunningReports::at_once);
}

TEST_F(RunningReportsTest, OmitsRepeatOfLastReport) {
  const int said = turns_said();
  EXPECT_EQ(starts(said % 2 == 0 ? "look" : "make"), Say::nothing);  // the name reported last
  EXPECT_FALSE(reports_.again());
  now_ = now_ + RunningReports::for_each * 5;
  EXPECT_EQ(turns_said(), 5);
}

TEST_F(RunningReportsTest, ReportsChangedRetryabilityAtOnce) {
  (void)turns_said();
  EXPECT_EQ(starts("make", false), Say::now);
  EXPECT_EQ(starts("look", true), Say::now);
  EXPECT_FALSE(reports_.again());
}

}  // namespace
}  // namespace mobula::internal::executor
