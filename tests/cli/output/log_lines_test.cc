// Log lines for a terminal.
#include <gtest/gtest.h>

#include "cli/output/log_lines.h"
#include "cli/output/loss_report.h"

namespace mobula::internal::cli {
namespace {

struct Printed {
  std::string text;
  LogLines lines;
  explicit Printed(LogLines::Options options)
      : lines(*LogLines::create(std::move(options), [this](const std::string& line) {
          text += line;
          return true;
        })) {}
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
};

TEST(LogLines, EscapesTerminalSequences) {
  EXPECT_EQ(printable("plain\ttext \xc3\xa4"), "plain\ttext \xc3\xa4");
  EXPECT_EQ(printable("\x1b[31mred\x1b[0m"), "red");
  EXPECT_EQ(printable("\x1b]0;title\x07:)"), ":)");
  EXPECT_EQ(printable("\x1b]52;c;evil\x1b\\:)"), ":)");
  EXPECT_EQ(printable("a\rb\bc\x07"), "a\\x0db\\x08c\\x07");
  EXPECT_EQ(printable("\x1b"
                      "c"),
            "\\x1bc")
      << "a reset";
  EXPECT_EQ(printable("\x1b[31"), "\\x1b[31") << "it has no end";
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\x9b2J");
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\\x9b2J")
      << "a byte alone";
  for (int c = 0; c < 256; ++c) {
    for (const char shown : printable(std::string(1, static_cast<char>(c)))) {
      EXPECT_TRUE(static_cast<unsigned char>(shown) >= 0x20 || shown == '\t') << c;
    }
  }
}

TEST(LogLines, AssemblesWholeLines) {
  Printed printed({});
  for (const char c : std::string("one\ntwo\nthr")) printed.lines.take(std::string_view(&c, 1));
  EXPECT_EQ(printed.text, "one\ntwo\n");
  printed.lines.settle(true);
  EXPECT_EQ(printed.text, "one\ntwo\n");
  printed.lines.take("ee\n");
  EXPECT_EQ(printed.text, "one\ntwo\nthree\n");
  printed.lines.take("rest");
  printed.lines.settle(false);
  EXPECT_EQ(printed.text, "one\ntwo\nthree\nrest\n");
}

TEST(LogLines, EndlessLine_UsesBoundedMemory) {
  Printed printed({});
  printed.lines.take(std::string(3 * LogLines::max_line, 'x'));
  EXPECT_EQ(printed.text.size(), 3 * (LogLines::max_line + 1));
}

TEST(LogLines, AppliesTailToMatchingLines) {
  Printed printed({.pattern = "^(warn|err)", .raw = false, .tail = 2});
  printed.lines.take("warn 1\ninfo\nerr 2\nwarn 3\ninfo\n");
  EXPECT_EQ(printed.text, "");
  printed.lines.settle(true);
  EXPECT_EQ(printed.text, "err 2\nwarn 3\n");
  printed.lines.take("info\nwarn 4\n");
  EXPECT_EQ(printed.text, "err 2\nwarn 3\nwarn 4\n") << "lines after the settled part are printed";
}

TEST(LogLines, RejectsInvalidPattern) {
  const auto wrong = LogLines::create({.pattern = "(", .raw = false, .tail = -1}, nullptr);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::invalid_argument);
}

TEST(LogLines, Raw_IsUnchanged) {
  Printed printed({.pattern = "", .raw = true, .tail = -1});
  printed.lines.take("\x1b[31mred\n");
  EXPECT_EQ(printed.text, "\x1b[31mred\n");
}

// A log that loses bytes in each of its chunks, as that of `yes`.
TEST(LossReport, RepeatedLosses_AreReportedSeldom) {
  LossReport lost;
  EXPECT_EQ(lost.add(0), std::nullopt);
  EXPECT_EQ(lost.add(1'000), 1'000u);
  EXPECT_EQ(lost.add(999), std::nullopt);
  EXPECT_EQ(lost.add(1), 2'000u);
  int reports = 0;
  for (int i = 0; i < 10'000; ++i) reports += lost.add(1'000) ? 1 : 0;
  EXPECT_EQ(reports, 12);
}

}  // namespace
}  // namespace mobula::internal::cli
