#include "base/logging/stderr_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <system_error>

namespace mobula::internal {
namespace {

// Returns true if `fd` accepts a write of PIPE_BUF bytes within the timeout. Files always do.
bool takes_bytes(int fd, int timeout_ms) {
  pollfd item{fd, POLLOUT, 0};
  return ::poll(&item, 1, timeout_ms) > 0;
}

}  // namespace

StderrQueue::~StderrQueue() {
  flush(std::chrono::milliseconds(100));
  {
    const MutexLock lock(mutex_);
    forget_writer_of_parent();
    ending_ = true;
    const std::uint64_t one = 1;
    if (wake_) (void)!::write(wake_.get(), &one, sizeof one);
  }
  if (writer_.joinable()) writer_.join();
}

void StderrQueue::print(std::string_view line) {
  const MutexLock lock(mutex_);
  if (broken_) return;
  forget_writer_of_parent();
  if (waiting_.size() + line.size() + 1 > max_bytes_) {
    ++dropped_;
    ++unreported_;
    return;
  }
  queue_text(fmt::format("{}\n", line));
}

void StderrQueue::print_block(std::string_view lines) {
  const MutexLock lock(mutex_);
  if (broken_ || !waiting_.empty()) return;
  forget_writer_of_parent();
  queue_text(lines);
  block_lines_ = std::count(lines.begin(), lines.end(), '\n');
}

void StderrQueue::queue_text(std::string_view text) {
  // Moves the cursor to the beginning of the block, and clears the screen from there.
  if (block_lines_ > 0) waiting_ += fmt::format("\x1b[{}A\x1b[J", block_lines_);
  block_lines_ = 0;
  waiting_ += text;
  if (writing_) return;
  write_some();
  if (!waiting_.empty() && !broken_) start_writer();
}

// Never blocks.
void StderrQueue::write_some() {
  while (!waiting_.empty() && takes_bytes(fd_, 0)) {
    const auto count =
        ::write(fd_, waiting_.data(), std::min<std::size_t>(waiting_.size(), PIPE_BUF));
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count < 0) {
      broken_ = true;
      waiting_.clear();
      return;
    }
    waiting_.erase(0, static_cast<std::size_t>(count));
    if (waiting_.empty()) report_dropped();
  }
}

void StderrQueue::report_dropped() {
  if (unreported_ == 0) return;
  waiting_ =
      fmt::format("mobula: {} lines were dropped because nothing read this output\n", unreported_);
  unreported_ = 0;
}

// A fork copies the object but not its thread.
void StderrQueue::forget_writer_of_parent() {
  if (!writer_.joinable() || owner_ == ::getpid()) return;
  writer_.detach();
  writing_ = false;
  waiting_.clear();
}

void StderrQueue::start_writer() {
  if (writer_.joinable()) writer_.join();  // it has exited, or exits without the lock
  if (!wake_) wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return;
  writing_ = true;
  owner_ = ::getpid();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    writer_ = std::thread([this] { write_later(); });
  } catch (const std::system_error&) {
    writing_ = false;  // the next line tries again
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void StderrQueue::write_later() {
  for (;;) {
    std::array<pollfd, 2> items{{{fd_, POLLOUT, 0}, {wake_.get(), POLLIN, 0}}};
    (void)::poll(items.data(), items.size(), -1);
    const MutexLock lock(mutex_);
    write_some();
    if (waiting_.empty() || ending_) {
      writing_ = false;
      return;
    }
  }
}

void StderrQueue::flush(Duration timeout) {
  Time until = monotonic_now() + timeout;
  std::size_t before = 0;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      write_some();
      if (waiting_.empty()) return;
      if (waiting_.size() != before) until = monotonic_now() + timeout;
      before = waiting_.size();
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - monotonic_now()).count();
    if (left <= 0 || !takes_bytes(fd_, static_cast<int>(left))) return;
  }
}

std::uint64_t StderrQueue::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

// Never destroyed, because threads may print until the process ends.
StderrQueue& stderr_queue() {
  static StderrQueue& queue = *[] {
    (void)std::atexit([] { stderr_queue().flush(std::chrono::milliseconds(100)); });
    return new StderrQueue(STDERR_FILENO);
  }();
  return queue;
}

void open_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", O_RDWR);
  }
}

}  // namespace mobula::internal
