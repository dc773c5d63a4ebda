#include "worker/process/output_pipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace mobula::internal::worker {
namespace {

class OutputTest : public ::testing::Test {
 protected:
  OutputTest() {
    auto made = OutputPipe::create();
    pipe_.emplace(std::move(made->first));
    end_ = std::move(made->second);
  }
  void write(const std::string& bytes) {
    ASSERT_EQ(::write(end_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  std::optional<OutputPipe> pipe_;
  Fd end_;
  std::vector<std::string> given_;
  LineSink sink_ = [this](std::string_view lines) { given_.emplace_back(lines); };
};

TEST_F(OutputTest, DeliversOnlyCompleteLines) {
  write("one\ntw");
  EXPECT_TRUE(pipe_->read_some(sink_));
  EXPECT_THAT(given_, ::testing::ElementsAre("one\n"));
  write("o\n");
  EXPECT_TRUE(pipe_->read_some(sink_));
  EXPECT_THAT(given_, ::testing::ElementsAre("one\n", "two\n"));
  end_.reset();
  EXPECT_FALSE(pipe_->read_some(sink_));
}

TEST_F(OutputTest, SplitsOverlongLine) {
  const std::string half(OutputPipe::max_line / 2, 'x');
  write(half);
  EXPECT_TRUE(pipe_->read_some(sink_));
  EXPECT_TRUE(given_.empty());
  write(half);
  EXPECT_TRUE(pipe_->read_some(sink_));
  ASSERT_EQ(given_.size(), 1u);
  EXPECT_EQ(given_[0].size(), OutputPipe::max_line + 1);
  EXPECT_TRUE(given_[0].ends_with('\n'));
}

TEST(LineTail, KeepsLastLinesAndCutsLongOnes) {
  LineTail tail;
  for (int i = 0; i < 100; ++i) tail.append("line " + std::to_string(i) + "\nand\n");
  const std::string text = tail.text();
  EXPECT_TRUE(text.starts_with("line 90\nand\n"));
  EXPECT_TRUE(text.ends_with("line 99\nand"));
  tail.append(std::string(5000, 'x') + "\n");
  EXPECT_LT(tail.text().size(), 1000u);
}

class CappedLogTest : public ::testing::Test {
 protected:
  CappedLogTest() {
    directory_ =
        std::filesystem::temp_directory_path() / ("mobula-log-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
  }
  ~CappedLogTest() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return (directory_ / "log").string(); }
  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::path directory_;
};

TEST_F(CappedLogTest, RotatesAtLimitAndKeepsOnePredecessor) {
  auto log = CappedLog::open(path(), 10);
  ASSERT_TRUE(log.ok());
  for (const char* line : {"aaaa\n", "bbbb\n", "cccc\n", "dddd\n", "eeee\n"}) log->append(line);
  EXPECT_EQ(content(path()), "eeee\n");
  EXPECT_EQ(content(path() + ".1"), "cccc\ndddd\n");
  EXPECT_EQ(log->lost_bytes(), 0u);
}

TEST_F(CappedLogTest, NextGeneration_ContinuesFile) {
  CappedLog::open(path()).value().append("first\n");
  CappedLog::open(path()).value().append("second\n");
  EXPECT_EQ(content(path()), "first\nsecond\n");
}

TEST_F(CappedLogTest, CountsLostLines) {
  auto log = CappedLog::open("/dev/full", 1000);
  ASSERT_TRUE(log.ok());
  log->append("line\n");
  EXPECT_EQ(log->lost_bytes(), 5u);
}

}  // namespace
}  // namespace mobula::internal::worker
