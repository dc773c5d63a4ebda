#include "base/logging/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace mobula::internal {
namespace {

TEST(Log, EscapesForeignTextToOneLine) {
  EXPECT_EQ(log_text("refused 'a\n2026 E forged'"), "refused 'a\\x0a2026 E forged'");
  EXPECT_EQ(log_text("\x1b]0;title\x07\r\x7f"), "\\x1b]0;title\\x07\\x0d\\x7f");
  EXPECT_EQ(log_text("\xc2\x9b"
                     "31m"),
            "\\x9b31m");
  EXPECT_EQ(log_text("tab\t, ä, 日本 and \xff"), "tab\t, ä, 日本 and \xff");
}

TEST(Log, CreatesPrivateFile) {
  const std::string path = testing::TempDir() + "mobula-log-test-" + std::to_string(::getpid());
  ASSERT_TRUE(open_log({.role = "test", .level = LogLevel::info, .file = path}).ok());
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_TRUE(open_log({.role = "test", .level = LogLevel::warn, .file = {}}).ok());
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace mobula::internal
