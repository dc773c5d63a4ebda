// A log that is rotated while it is read.
#include "base/logging/rotated_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mobula::internal {
namespace {

namespace fs = std::filesystem;

class RotatedLog : public testing::Test {
 protected:
  RotatedLog() {
    std::string pattern = (fs::temp_directory_path() / "rotated-log-XXXXXX").string();
    directory = ::mkdtemp(pattern.data());
    paths = {directory + "/a.log", directory + "/a.log.1"};
  }
  ~RotatedLog() override { fs::remove_all(directory); }

  void append(const std::string& text) const { std::ofstream(paths[0], std::ios::app) << text; }
  void rotate() const { fs::rename(paths[0], paths[1]); }
  // Reads all bytes from `place` on, in parts, and updates `place`.
  std::string rest(LogPosition& position, std::uint64_t limit = 3, bool* lost = nullptr) const {
    std::string text;
    for (;;) {
      const auto part = read_log(paths, position, limit);
      EXPECT_TRUE(part.ok());
      if (!part) return text;
      if (lost != nullptr) *lost = *lost || part->lost;
      text.append(reinterpret_cast<const char*>(part->bytes.data()), part->bytes.size());
      const bool moved = part->next.file != position.file || part->next.from != position.from;
      position = part->next;
      if (part->left == 0 && !moved) return text;
    }
  }

  std::string directory;
  std::vector<std::string> paths;
};

TEST_F(RotatedLog, Reader_ContinuesAcrossRotation) {
  append("one two ");
  LogPosition position;
  EXPECT_EQ(rest(position), "one two ");
  append("three ");
  rotate();
  append("four");
  EXPECT_EQ(rest(position), "three four");
  append(" five");
  EXPECT_EQ(rest(position), " five");
}

TEST_F(RotatedLog, FileRemoved_ReportsLossAndReadsOldest) {
  append("first");
  LogPosition position;
  EXPECT_EQ(rest(position), "first");
  for (const char* text : {"second", "third"}) {
    rotate();
    append(text);
  }
  bool lost = false;
  EXPECT_EQ(rest(position, 100, &lost), "secondthird")
      << "the file it was in is no longer there, whatever inode is used again";
  EXPECT_TRUE(lost);
}

TEST_F(RotatedLog, NegativePosition_CountsFromEnd) {
  append("0123456789");
  rotate();
  append("abc");
  LogPosition position{0, -5};
  EXPECT_EQ(rest(position), "89abc");
  LogPosition before{0, -1000};
  EXPECT_EQ(rest(before), "0123456789abc");
  EXPECT_EQ(read_log({directory + "/none"}, {}, 10).error().code, ErrorCode::not_found);
}

TEST_F(RotatedLog, RejectsSymbolicLink) {
  fs::create_symlink("/etc/passwd", paths[0]);
  EXPECT_FALSE(read_log(paths, {}, 10).ok());
}

TEST_F(RotatedLog, ParsesPrintedPositions) {
  const LogPosition position{12345678901234567890u, -42};
  const auto again = parse_log_position(to_string(position));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->file, position.file);
  EXPECT_EQ(again->from, position.from);
  EXPECT_TRUE(parse_log_position("").ok());
  for (const char* wrong : {"1", "a:b", "1:2x", ":", "1:", "-1:0", "99999999999999999999:1"})
    EXPECT_FALSE(parse_log_position(wrong).ok()) << wrong;
  EXPECT_EQ(rotated_log_path("/x.d/head.log"), "/x.d/head.1.log");
  EXPECT_EQ(rotated_log_path("/x.d/head"), "/x.d/head.1");
}

}  // namespace
}  // namespace mobula::internal
