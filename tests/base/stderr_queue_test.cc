#include "base/logging/stderr_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace mobula::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class StderrQueueTest : public ::testing::Test {
 protected:
  StderrQueueTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    read_ = Fd(ends[0]);
    write_ = Fd(ends[1]);
  }
  // Lines up to the first one that begins with `last`.
  std::string read_until(const std::string& last) {
    std::string text;
    std::array<char, 4096> part{};
    while (text.find(last) == std::string::npos || text.back() != '\n') {
      const ssize_t count = ::read(read_.get(), part.data(), part.size());
      if (count <= 0) break;
      text.append(part.data(), static_cast<std::size_t>(count));
    }
    return text;
  }
  Fd read_;
  Fd write_;
};

TEST_F(StderrQueueTest, WritesLinesAtOnce) {
  StderrQueue queue(write_.get());
  queue.print("one");
  queue.print("two");
  EXPECT_EQ(read_until("two"), "one\ntwo\n");
  EXPECT_EQ(queue.dropped(), 0u);
}

TEST_F(StderrQueueTest, PrintsLinesAboveBlock) {
  StderrQueue queue(write_.get());
  queue.print_block("1 of 3\n2 of 3\n");
  queue.print("line");
  queue.print("next");
  queue.print_block("3 of 3\n");
  queue.print_block("done\n");
  queue.print("last");
  EXPECT_EQ(read_until("last"),
            "1 of 3\n2 of 3\n\x1b[2A\x1b[Jline\nnext\n3 of 3\n\x1b[1A\x1b[Jdone\n\x1b[1A\x1b[J"
            "last\n");
}

TEST_F(StderrQueueTest, ReaderStopped_BlockIsSkipped) {
  StderrQueue queue(write_.get(), 100'000);
  while (queue.dropped() == 0) queue.print(std::string(999, 'x'));
  queue.print_block("progress\n");
  EXPECT_EQ(read_until("lines were dropped").find("progress"), std::string::npos);
}

TEST_F(StderrQueueTest, ReaderStopped_WriterContinues) {
  StderrQueue queue(write_.get(), 100'000);
  const std::string line(999, 'x');
  for (int i = 0; i < 1'000; ++i) queue.print(line);  // more than the pipe and the queue hold
  EXPECT_GT(queue.dropped(), 0u);
  const std::string text = read_until("lines were dropped");
  EXPECT_NE(text.find("mobula: " + std::to_string(queue.dropped()) + " lines were dropped"),
            std::string::npos);
  queue.print("last");
  EXPECT_EQ(read_until("last"), "last\n");
}

TEST_F(StderrQueueTest, ReaderStopped_EndsWithinTimeout) {
  StderrQueue queue(write_.get());
  for (int i = 0; i < 200; ++i) queue.print(std::string(999, 'x'));
  queue.flush(milliseconds(1));
}

TEST_F(StderrQueueTest, ReaderClosed_DropsLines) {
  ::signal(SIGPIPE, SIG_IGN);
  StderrQueue queue(write_.get());
  read_.reset();
  for (int i = 0; i < 1'000; ++i) queue.print("nothing reads this");
  queue.flush(seconds(10));
}

TEST(StandardDescriptors, OpensClosedDescriptors) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDIN_FILENO);
    ::close(STDERR_FILENO);
    open_standard_descriptors();
    const int next = ::open("/dev/null", O_RDONLY);
    const bool open = ::fcntl(STDIN_FILENO, F_GETFD) >= 0 && ::fcntl(STDERR_FILENO, F_GETFD) >= 0;
    ::_exit(open && next > STDERR_FILENO ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mobula::internal
