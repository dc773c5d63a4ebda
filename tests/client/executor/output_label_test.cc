#include "client/executor/output_label.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/messages/output_label_line.h"

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const made = std::malloc(size)) return made;
  throw std::bad_alloc();
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }

namespace mobula::internal::executor {
namespace {

class OutputLabels : public testing::Test {
 protected:
  OutputLabels() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    read_ = Fd(ends[0]);
    write_ = Fd(ends[1]);
  }
  // Labels written since the last call: the name, and the task if one is named.
  std::vector<std::string> labels() {
    std::string text(64 * 1024, '\0');
    text.resize(static_cast<std::size_t>(::read(read_.get(), text.data(), text.size())));
    std::vector<std::string> found;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      const auto line = split_label(own_, std::string_view(text).substr(at, end - at));
      if (!line.label) return {"no label"};
      const bool has_task = !line.label->task.empty();
      found.push_back(line.label->name + (has_task ? " " + line.label->task.brief() : ""));
      at = end + 1;
    }
    return found;
  }
  static std::string named(const char* name, unsigned task) {
    return std::string(name) + " " + TaskId::of(task).brief();
  }

  Fd read_, write_;
  const ProcessId own_ = ProcessId::of(7);
  const Time now_ = Time::from_ns(1'000'000'000);
};

TEST_F(OutputLabels, WritesLabelForEachTask) {
  OutputLabel label(write_.get());
  unsigned task = 0;
  for (const char* name : {"a", "a", "b", "a"}) label.runs(own_, name, TaskId::of(++task), now_);
  label.runs(own_, "a", TaskId::of(task), now_);
  EXPECT_EQ(labels(),
            (std::vector<std::string>{named("a", 1), named("a", 2), named("b", 3), named("a", 4)}));
}

// The name is longer than the buffer inside a string.
TEST_F(OutputLabels, AllocatesNothingForLabels) {
  OutputLabel label(write_.get());
  const std::string_view names[] = {"a name that needs memory of the heap: first",
                                    "a name that needs memory of the heap: other"};
  unsigned task = 0;
  const auto run_each = [&](Time now) {
    for (const auto name : names) label.runs(own_, name, TaskId::of(++task), now);
  };
  run_each(now_);
  const std::size_t before = allocations;
  for (int i = 1; i <= 20; ++i) run_each(now_ + i * 10ms);
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_EQ(labels().size(), 42u);
}

TEST_F(OutputLabels, TasksAlternateQuickly_OneLabelForAll) {
  OutputLabel label(write_.get());
  for (unsigned i = 1; i <= 100; ++i) label.runs(own_, i % 2 == 0 ? "a" : "b", TaskId::of(i), now_);
  const auto written = labels();
  ASSERT_EQ(written.size(), 33u);
  EXPECT_EQ(written.back(), several_tasks);
  label.runs(own_, "a", TaskId::of(102), now_ + 1ms + 1us);
  EXPECT_EQ(labels(), std::vector<std::string>{named("a", 102)});
}

// The name stays right, and no line is attributed to an earlier task.
TEST_F(OutputLabels, TasksOfOneNameFollowQuickly_NoTaskNamed) {
  OutputLabel label(write_.get());
  for (unsigned i = 1; i <= 100; ++i) label.runs(own_, "a", TaskId::of(i), now_);
  const auto written = labels();
  ASSERT_EQ(written.size(), 34u);
  EXPECT_EQ(written.back(), "a");
  // A task each 6 ms: every second one gets a label.
  Time now = now_;
  for (unsigned i = 101; i <= 120; ++i) label.runs(own_, "a", TaskId::of(i), now = now + 6ms);
  const auto later = labels();
  EXPECT_GE(later.size(), 12u);
  EXPECT_EQ(std::count(later.begin(), later.end(), named("a", 102)), 1);
}

// Each label costs a system call, and wakes the agent. A name of quick tasks is written once.
TEST_F(OutputLabels, QuickTasks_EarnNoLabels) {
  OutputLabel label(write_.get());
  Time now = now_;
  unsigned task = 0;
  for (int i = 0; i < 100'000; ++i) label.runs(own_, "a", TaskId::of(++task), now = now + 10us);
  ASSERT_EQ(labels().size(), 34u);
  for (int i = 0; i < 100'000; ++i)
    label.runs(own_, i % 2 == 0 ? "b" : "a", TaskId::of(++task), now = now + 10us);
  EXPECT_EQ(labels().size(), 32u);
}

TEST_F(OutputLabels, LongTaskAndPause_EarnLabels) {
  OutputLabel label(write_.get());
  unsigned task = 0;
  for (int i = 0; i < 100; ++i) label.runs(own_, "a", TaskId::of(++task), now_);
  (void)labels();
  label.runs(own_, "a", TaskId::of(++task), now_ + 25ms);
  label.runs(own_, "a", TaskId::of(++task), now_ + 25ms);
  label.runs(own_, "a", TaskId::of(++task), now_ + 25ms);
  EXPECT_EQ(labels(), (std::vector<std::string>{named("a", 101), named("a", 102), "a"}));
  label.runs(own_, "a", TaskId::of(++task), now_ + 31ms);
  EXPECT_EQ(labels(), std::vector<std::string>{named("a", 104)});
}

TEST(OutputLabelLine, FollowsUnterminatedText) {
  const auto own = ProcessId::of(7);
  std::string line = "half a line" + output_label_line(own, {"task\nname", TaskId::of(3)});
  line.pop_back();
  const LabeledLine split = split_label(own, line);
  EXPECT_EQ(split.text, "half a line");
  EXPECT_EQ(split.label, (OutputLabelText{"task?name", TaskId::of(3)}));
  EXPECT_FALSE(split_label(own, "half a line").label);
}

TEST(OutputLabelLine, LineOfAnotherProcess_IsOutput) {
  std::string line = output_label_line(ProcessId::of(8), {"name", TaskId::of(3)});
  line.pop_back();
  const LabeledLine split = split_label(ProcessId::of(7), line);
  EXPECT_FALSE(split.label);
  EXPECT_EQ(split.text, line);
  for (const char* forged : {"\x1e\x02mobula-task:name\x03", "\x1e\x02mobula-task:7:\x03"})
    EXPECT_FALSE(split_label(ProcessId::of(7), forged).label) << forged;
}

}  // namespace
}  // namespace mobula::internal::executor
