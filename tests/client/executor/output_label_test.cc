#include "client/executor/output_label.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "protocol/messages/output_label_line.h"

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
  // Labels written since the last call.
  std::vector<std::string> labels() {
    std::string text(64 * 1024, '\0');
    text.resize(static_cast<std::size_t>(::read(read_.get(), text.data(), text.size())));
    std::vector<std::string> found;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      const auto line = split_label(std::string_view(text).substr(at, end - at));
      found.emplace_back(line.label.value_or("no label"));
      at = end + 1;
    }
    return found;
  }

  Fd read_, write_;
  const Time now_ = Time::from_ns(1'000'000'000);
};

TEST_F(OutputLabels, WritesLabelWhenTheNameChanges) {
  OutputLabel label(write_.get());
  for (const char* name : {"a", "a", "b", "b", "a"}) label.runs(name, now_);
  EXPECT_EQ(labels(), (std::vector<std::string>{"a", "b", "a"}));
}

TEST_F(OutputLabels, TasksAlternateQuickly_OneLabelForAll) {
  OutputLabel label(write_.get());
  for (int i = 0; i < 100; ++i) label.runs(i % 2 == 0 ? "a" : "b", now_);
  const auto written = labels();
  ASSERT_EQ(written.size(), 33u);
  EXPECT_EQ(written.back(), several_tasks);
  label.runs("a", now_ + 1ms + 1us);
  EXPECT_EQ(labels(), std::vector<std::string>{"a"});
}

TEST(OutputLabelLine, FollowsUnterminatedText) {
  std::string line = "half a line" + output_label_line("task\nname");
  line.pop_back();
  const LabeledLine split = split_label(line);
  EXPECT_EQ(split.text, "half a line");
  EXPECT_EQ(split.label, "task?name");
  EXPECT_FALSE(split_label("half a line").label);
}

}  // namespace
}  // namespace mobula::internal::executor
