#include "base/log.h"

#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

TEST(Log, WhatSomebodySaysIsOneLineThatNoTerminalObeys) {
  EXPECT_EQ(log_text("refused 'a\n2026 E forged'"), "refused 'a\\x0a2026 E forged'");
  EXPECT_EQ(log_text("\x1b]0;title\x07\r\x7f"), "\\x1b]0;title\\x07\\x0d\\x7f");
  EXPECT_EQ(log_text("\xc2\x9b"
                     "31m"),
            "\\x9b31m");
  EXPECT_EQ(log_text("tab\t, ä, 日本 and \xff"), "tab\t, ä, 日本 and \xff");
}

}  // namespace
}  // namespace mobula::internal
