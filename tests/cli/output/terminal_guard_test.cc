// Output of jobs for a terminal.
#include "cli/output/terminal_guard.h"

#include <gtest/gtest.h>

namespace mobula::internal::cli {
namespace {

std::string guarded(std::string_view text) {
  TerminalGuard guard;
  std::string shown = guard.pass(text);
  return shown + guard.end();
}

TEST(TerminalGuard, PassesColorsAndProgressBars) {
  EXPECT_EQ(guarded("plain\ttext \xc3\xa4\r\n"), "plain\ttext \xc3\xa4\r\n");
  EXPECT_EQ(guarded("\r 50 %\x1b[K\b"), "\r 50 %\x1b[K\b");
  EXPECT_EQ(guarded("\x1b[1;31mred"), "\x1b[1;31mred\x1b[0m") << "later output is not red";
}

TEST(TerminalGuard, EscapesOtherSequences) {
  EXPECT_EQ(guarded("\x1b]0;title\x07:)"), "\\x1b]0;title\\x07:)");
  EXPECT_EQ(guarded("\x1b[2J\x1b[H"), "\\x1b[2J\\x1b[H");
  EXPECT_EQ(guarded("\x1b[6n"), "\\x1b[6n") << "an answer would be typed";
  EXPECT_EQ(guarded("\x1b[?1049h"), "\\x1b[?1049h");
  EXPECT_EQ(guarded("\x1b"
                    "c"),
            "\\x1bc");
  EXPECT_EQ(guarded("\x1b\x1b[2J"), "\\x1b\\x1b[2J");
  EXPECT_EQ(guarded("\xc2\x9b"
                    "2J \x9b"
                    "2J"),
            "\\x9b2J \\x9b2J");
  EXPECT_EQ(guarded("\x1b[" + std::string(100'000, '1') + "m").substr(0, 8), "\\x1b[111");
  for (int c = 0; c < 256; ++c) {
    for (const char each : guarded(std::string(1, static_cast<char>(c)))) {
      const auto shown = static_cast<unsigned char>(each);
      EXPECT_TRUE(shown >= 0x20 || shown == '\n' || shown == '\t' || shown == '\r' || shown == '\b')
          << c;
      EXPECT_NE(shown, 0x7f) << c;
    }
  }
}

TEST(TerminalGuard, HandlesSequencesCutBetweenPieces) {
  for (const std::string text : {"a\x1b[31mb\x1b[0m\x1b[2Jc\x1b]0;t\x07",
                                 "\xc2\x9b"
                                 "2J",
                                 "\xc3\xa4\xe2\x82\xac", "x\x1b\x1b[31", "\x1b[3"}) {
    TerminalGuard guard;
    std::string shown;
    for (const char each : text) shown += guard.pass({&each, 1});
    EXPECT_EQ(shown + guard.end(), guarded(text));
  }
}

}  // namespace
}  // namespace mobula::internal::cli
