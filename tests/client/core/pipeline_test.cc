// Several short calls at one executor, and the return of queued calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/core/small_client.h"

namespace mobula::internal::client {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class Pipeline : public SmallClient {
 protected:
  // Submits `tasks` tasks, gives the class a slot, and replies to the first with this run time.
  void begin(int tasks, Duration run_time, std::int32_t max_calls = 0,
             std::int32_t max_retries = 3) {
    for (int i = 0; i < tasks; ++i) {
      SubmitTask given = task(static_cast<std::uint64_t>(1'000 + i));
      given.demand_class.max_calls = max_calls;
      given.max_retries = max_retries;
      submit(given);
    }
    slot(3, 20);
    EXPECT_THAT(calls_at(20), SizeIs(1)) << "nothing is known of how long they take";
    answer(run_time);
  }
  void answer(Duration run_time) {
    CallReply reply_now;
    reply_now.results.push_back(value("done"));
    reply_now.run_time = run_time;
    reply(20, reply_now);
  }
  // Returns the calls behind the running one, like a blocked executor.
  void hand_back_waiting() {
    const auto calls = calls_at(20);
    for (std::size_t i = 1; i < calls.size(); ++i) {
      say(20, CallReturned{calls[i].number, calls[i].call.task, "", false});
    }
  }
};

TEST_F(Pipeline, HoldsAboutOneMillisecondOfWork) {
  begin(40, 100us);
  EXPECT_THAT(calls_at(20), SizeIs(11));
}

TEST_F(Pipeline, LimitsLengthForShortCalls) {
  begin(200, Duration(0));
  EXPECT_THAT(calls_at(20), SizeIs(ClientOptions().max_pipeline));
}

TEST_F(Pipeline, LongCalls_UseNoPipeline) {
  begin(40, 5ms);
  EXPECT_THAT(calls_at(20), SizeIs(1));
}

TEST_F(Pipeline, StaysWithinExecutorLifetime) {
  begin(40, 100us, 1);
  EXPECT_THAT(calls_at(20), SizeIs(1));
}

// Asymmetric average: longer calls count at once, shorter ones gradually.
TEST_F(Pipeline, ShrinksAtOnceAndGrowsSlowly) {
  begin(150, 100us);
  while (calls_at(20).size() > 1) answer(100ms);
  EXPECT_THAT(calls_at(20), SizeIs(1));
  answer(100us);
  EXPECT_THAT(calls_at(20), SizeIs(1));
  for (int i = 0; i < 60 && calls_at(20).size() == 1; ++i) answer(100us);
  EXPECT_GT(calls_at(20).size(), 1u);
}

TEST_F(Pipeline, OmitsNonRetryableTasks) {
  begin(40, 100us, 0, 0);
  EXPECT_THAT(calls_at(20), SizeIs(1));
}

TEST_F(Pipeline, CallsReturned_PausesUntilReply) {
  begin(40, 100us);
  hand_back_waiting();
  EXPECT_THAT(to_executor<PushCall>(), IsEmpty());
  submit(task(5'000));
  EXPECT_THAT(to_executor<PushCall>(), IsEmpty()) << "or calls go to and fro while it blocks";
  answer(100us);
  EXPECT_THAT(to_executor<PushCall>(), SizeIs(10 + 1));
}

TEST_F(Pipeline, ReturnsTasksBehindLongCall) {
  begin(12, 100us);
  ASSERT_THAT(calls_at(20), SizeIs(11));
  pass(19ms);
  EXPECT_THAT(to_executor<ReturnCallsRequest>(), IsEmpty());
  ASSERT_TRUE(core_.next_deadline());
  EXPECT_LE(*core_.next_deadline(), now_ + 1ms);
  pass(1ms);
  EXPECT_THAT(to_executor<ReturnCallsRequest>(), SizeIs(1));
  pass(20ms);
  EXPECT_THAT(to_executor<ReturnCallsRequest>(), IsEmpty()) << "once";
  hand_back_waiting();
  pass(20ms);
  const auto demands = to_head<Demand>();
  ASSERT_FALSE(demands.empty());
  EXPECT_EQ(demands.back().waiting_tasks, 10) << "the head hears of them";
  slot(4, 21);
  EXPECT_THAT(calls_at(21), SizeIs(10)) << "the new slot takes all waiting calls";
}

// The other calls never started, so they are not charged a retry.
TEST_F(Pipeline, ExecutorLost_OnlyStartedCallIsCharged) {
  begin(4, 100us, 0, 1);
  ASSERT_THAT(calls_at(20), SizeIs(3));
  slot_executor_ends(3, 20, EndKind::signalled);
  slot(3, 21, 1);
  for (int i = 0; i < 3; ++i) {
    pass(10s);
    while (!calls_at(21).empty()) reply_value(21, "done");
  }
  for (std::uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(state(result(TaskId::of(1'000 + i))), "value") << i;
}

}  // namespace
}  // namespace mobula::internal::client
