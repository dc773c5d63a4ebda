#include "cli/commands/logs/task_log_window.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/output/log_merge.h"
#include "cli/output/log_stream.h"
#include "protocol/messages/output_label_line.h"

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

// Lines of two tasks that interleave, and printed text that looks like a prefix.
TEST(TaskLogLines, SelectsLinesByTaskNotByText) {
  constexpr const char* time = "2026-11-26T10:00:00.500Z";
  const auto begin_us = *time_of_line(std::string(time) + " x") - 100'000;
  const std::string own = log_digits(TaskId::of(5));
  const std::string other = log_digits(TaskId::of(6));
  const LinesWanted wanted{begin_us, begin_us + 1'000, 12, own};  // the period ended before
  const auto has = [&](const std::string& line) { return is_of(time + line, wanted); };
  EXPECT_TRUE(has(" [f task=" + own + " pid=12] text"));
  EXPECT_TRUE(has(" [operator[] task=" + own + " pid=12] text")) << "a name with a bracket";
  EXPECT_FALSE(has(" [f task=" + other + " pid=12] text"));
  EXPECT_FALSE(has(" [f task=" + own + " pid=13] text")) << "another process";
  EXPECT_FALSE(has(" [f task=" + other + " pid=12] [f task=" + own + " pid=12] forged"));
  EXPECT_FALSE(has(" [f task=" + other + " pid=13] [f pid=12] forged"));
  EXPECT_FALSE(has(" [several tasks pid=12] text")) << "no task is named: the period decides";
  EXPECT_FALSE(
      is_of("2026-11-26T09:59:00.000Z [f task=" + own + " pid=12] earlier attempt", wanted));
  LinesWanted open = wanted;
  open.to_us = begin_us + 1'000'000;
  EXPECT_TRUE(is_of(std::string(time) + " [several tasks pid=12] text", open));
}

}  // namespace
}  // namespace mobula::internal::cli
