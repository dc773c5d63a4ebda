// Totals of the calls of a process by class and name, and their reports to the head.
#include "client/core/calls/use_counters.h"

#include <gtest/gtest.h>

#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

class ClassUseReports : public SmallClient {
 protected:
  ClassUseReports() { step(ReceivedFromAgent{HeadStatus{true, 1, protocol_version}}); }
  std::vector<ClassUseRow> reported() {
    std::vector<ClassUseRow> rows;
    for (auto& each : to_head<ClassUse>())
      rows.insert(rows.end(), each.rows.begin(), each.rows.end());
    return rows;
  }
  std::vector<ClassUseRow> after(Duration span) {
    now_ = now_ + span;
    step(Tick{});
    return reported();
  }
};

TEST_F(ClassUseReports, SendsTotalsOnceAfterInterval) {
  submit();
  now_ = now_ + 3s;
  slot(1, 30);
  reply_value(30, "done");
  EXPECT_TRUE(after(6s).empty());
  const auto rows = after(1s);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "task 101");
  EXPECT_EQ(rows[0].submitted, 1u);
  EXPECT_EQ(rows[0].finished, 1u);
  EXPECT_EQ(rows[0].failed, 0u);
  EXPECT_EQ(rows[0].wait_us, 3'000'000u);
  EXPECT_EQ(rows[0].waits, (std::vector<UseBucket>{{12, 1}})) << "2^11 ms < 3 s <= 2^12 ms";
  EXPECT_EQ(rows[0].runs.size(), 1u);
  EXPECT_TRUE(after(60s).empty()) << "nothing changed";
}

TEST_F(ClassUseReports, Cancelled_IsNoFailure) {
  const TaskId task = submit();
  step(CancelObject{result(task), false, true});
  const auto rows = after(10s);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].submitted, 1u);
  EXPECT_EQ(rows[0].cancelled, 1u);
  EXPECT_EQ(rows[0].failed + rows[0].finished, 0u);
  EXPECT_TRUE(rows[0].waits.empty()) << "it was never sent";
}

TEST_F(ClassUseReports, RestatesAllTotalsToNewHead) {
  submit();
  EXPECT_EQ(after(10s).size(), 1u);
  step(ReceivedFromAgent{HeadStatus{true, 2, protocol_version}});
  const auto rows = after(Duration(0));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].submitted, 1u);
}

TEST_F(ClassUseReports, SendsNothingToOlderHead) {
  step(ReceivedFromAgent{HeadStatus{true, 2, version_with_class_use - 1}});
  submit();
  EXPECT_TRUE(after(60s).empty());
  EXPECT_TRUE(core_.unreported_use().rows.empty());
  step(ReceivedFromAgent{HeadStatus{true, 3, version_with_class_use}});
  EXPECT_EQ(after(Duration(0)).size(), 1u) << "a newer head gets the totals since the start";
}

TEST_F(ClassUseReports, EndingProcessKnowsUnreportedTotals) {
  submit();
  EXPECT_EQ(core_.unreported_use().rows.size(), 1u);
  after(10s);
  EXPECT_TRUE(core_.unreported_use().rows.empty());
}

TEST(UseCounters, ManyNames_ShareOneRow) {
  UseCounters counters;
  const Time now = Time::from_ns(1);
  counters.set_accepted(true, now);
  for (std::size_t i = 0; i < 3 * UseCounters::max_rows; ++i) {
    CallForm form;
    form.name = "f" + std::to_string(i);
    counters.submitted(form, ClassId::of(1), now);
    counters.submitted(form, ClassId::of(1), now);
  }
  const auto use = counters.unreported();
  EXPECT_EQ(use.rows.size(), UseCounters::max_rows);
  std::uint64_t sum = 0;
  for (const auto& row : use.rows) sum += row.submitted;
  EXPECT_EQ(sum, 6 * UseCounters::max_rows);
  EXPECT_EQ(use.rows[0].name, "");
}

TEST(UseCounters, SumsShortSpansExactly) {
  UseCounters counters;
  const Time now = Time::from_ns(1);
  counters.set_accepted(true, now);
  CallForm form;
  form.name = "f";
  const CopyOnWrite<CallForm> shared(form);
  for (int i = 0; i < 1000; ++i) {
    counters.ended(shared, ClassId::of(1), {.waited = Duration(0), .ran = Duration(2750)}, now);
  }
  EXPECT_EQ(counters.unreported().rows.at(0).run_us, 2750u);
}

TEST(UseBuckets, EndAtPowersOfTwo) {
  EXPECT_EQ(use_bucket_of(Duration(0)), 0u);
  EXPECT_EQ(use_bucket_of(1ms), 0u);
  EXPECT_EQ(use_bucket_of(1ms + 1ns), 1u);
  EXPECT_EQ(use_bucket_of(2ms), 1u);
  EXPECT_EQ(use_bucket_of(2ms + 1ns), 2u);
  EXPECT_EQ(use_bucket_of(1024ms), 10u);
  EXPECT_EQ(use_bucket_of(std::chrono::hours(10'000)), use_buckets - 1);
}

}  // namespace
}  // namespace mobula::internal::client
