#include "cli/commands/task_log_window.h"

#include <gtest/gtest.h>

#include <vector>

namespace mobula::internal::cli {
namespace {

constexpr std::int64_t now_us = 1'000'000'000;

// A call that began and ended the given times ago, in ms.
RanSpan ran(std::uint64_t task, int began_ms, int ended_ms) {
  RanSpan span;
  span.task = TaskId::of(task);
  span.began = std::chrono::milliseconds(began_ms);
  span.ended = std::chrono::milliseconds(ended_ms);
  return span;
}

std::vector<ProcessSpans> one_process(std::vector<RanSpan> calls) {
  ProcessSpans process;
  process.process = ProcessId::of(7);
  process.spans.wall_us = now_us;
  process.spans.ran = std::move(calls);
  return {process};
}

std::int64_t ms_ago(std::int64_t us) { return (now_us - us) / 1000; }

TEST(TaskLogWindow, RanAlone_IncludesOutputReadLater) {
  const auto run = run_of(one_process({ran(1, 5000, 4000)}), TaskId::of(1));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->process, ProcessId::of(7));
  EXPECT_EQ(ms_ago(run->lines.from_us), 5000);
  EXPECT_EQ(ms_ago(run->lines.to_us), 3000);
  EXPECT_EQ(run->beside, 0u);
}

TEST(TaskLogWindow, EndsSoonAfterNextRunStarts) {
  const auto run = run_of(one_process({ran(1, 5000, 4000), ran(2, 3700, 3000), ran(3, 2000, 1000)}),
                          TaskId::of(1));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(ms_ago(run->lines.to_us), 3680);
  EXPECT_EQ(run->beside, 1u) << "the next may have printed in those 20 ms";
}

TEST(TaskLogWindow, CountsConcurrentRuns) {
  const auto calls =
      one_process({ran(1, 5000, 4000), ran(2, 4500, 4200), ran(3, 6000, 5010), ran(4, 9000, 8000)});
  const auto run = run_of(calls, TaskId::of(1));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(ms_ago(run->lines.to_us), 3000) << "no later run began after its end";
  EXPECT_EQ(run->beside, 2u);
}

TEST(TaskLogWindow, UnknownTask_HasNoRun) {
  EXPECT_FALSE(run_of(one_process({ran(1, 5000, 4000)}), TaskId::of(2)).has_value());
  EXPECT_FALSE(run_of({}, TaskId::of(2)).has_value());
}

}  // namespace
}  // namespace mobula::internal::cli
