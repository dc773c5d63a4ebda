// Merges several logs into one.
#include "cli/output/log_merge.h"

#include <gtest/gtest.h>

#include <utility>

namespace mobula::internal::cli {
namespace {

using Lines = std::vector<std::pair<std::size_t, std::string>>;

class LogMerges : public testing::Test {
 protected:
  static std::string at(int second, const std::string& text) {
    return "2026-11-24T03:14:" + std::string(second < 10 ? "0" : "") + std::to_string(second) +
           ".5Z " + text;
  }
  // Returns the lines without their times.
  Lines given() {
    Lines all;
    for (auto& [log, line] : std::exchange(out, {}))
      all.emplace_back(log, line.substr(line.rfind(' ') + 1));
    return all;
  }

  Lines out;
  LogMerge merge{[this](std::size_t log, const std::string& line) {
    out.emplace_back(log, line);
    return true;
  }};
};

TEST_F(LogMerges, ParsesTimesToMicrosecond) {
  EXPECT_EQ(time_of_line("1970-01-01T00:00:01.5Z x"), 1'500'000);
  EXPECT_EQ(time_of_line("1970-01-02T00:00:00.000001Z"), 86'400'000'001);
  EXPECT_EQ(*time_of_line("2026-11-24T03:14:25.123Z x"),
            *time_of_line("2026-11-24T03:14:25.123000Z y"));
  for (const char* none :
       {"", "hello", "2026-11-24T03:14:25Z x", "2026-11-24T03:14:25.Z", "2026-13-24T03:14:25.1Z",
        "2026-11-24 03:14:25.1Z", "2026-11-24T03:14:25.1+01:00"}) {
    EXPECT_FALSE(time_of_line(none)) << none;
  }
}

TEST_F(LogMerges, MergesLinesByTime) {
  merge.add();
  merge.add();
  merge.take(0, at(1, "a"));
  merge.take(0, at(4, "d"));
  EXPECT_TRUE(merge.give());
  EXPECT_TRUE(out.empty()) << "the other may have an earlier one";
  merge.take(1, at(2, "b"));
  merge.take(1, at(3, "c"));
  EXPECT_TRUE(merge.give());
  EXPECT_EQ(given(), (Lines{{0, "a"}, {1, "b"}, {1, "c"}}));
  merge.is_silent(1, true);
  EXPECT_TRUE(merge.give());
  EXPECT_EQ(given(), (Lines{{0, "d"}}));
}

TEST_F(LogMerges, KeepsUntimedLineWithPreviousLine) {
  merge.add();
  merge.add();
  merge.take(0, at(1, "first"));
  merge.take(0, "continued");
  merge.take(1, at(2, "second"));
  merge.is_silent(0, true);
  merge.is_silent(1, true);
  EXPECT_TRUE(merge.give());
  EXPECT_EQ(given(), (Lines{{0, "first"}, {0, "continued"}, {1, "second"}}));
}

TEST_F(LogMerges, MergesUntimedLinesAsRead) {
  merge.add();
  merge.add();
  merge.take(1, "x");
  merge.take(0, "y");
  merge.is_silent(0, true);
  merge.is_silent(1, true);
  EXPECT_TRUE(merge.give());
  EXPECT_EQ(out.size(), 2u);
}

TEST_F(LogMerges, SinkRejectsLine_EndsMerge) {
  LogMerge ends([](std::size_t, const std::string&) { return false; });
  ends.add();
  ends.take(0, "a");
  ends.is_silent(0, true);
  EXPECT_FALSE(ends.give());
}

}  // namespace
}  // namespace mobula::internal::cli
