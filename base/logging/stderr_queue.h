// Writes lines to stderr without blocking the caller: a stopped terminal or an unread pipe must not
// block a loop. Lines wait in a bounded queue. Lines beyond its limit are dropped, and their number
// is printed when the reader continues.
// Thread: any. Not: lines that were queued at a fork; the child drops them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <sys/types.h>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/time.h"

namespace mobula::internal {

class StderrQueue {
 public:
  // Writes to `fd`, which stays open.
  explicit StderrQueue(int fd, std::size_t max_bytes = 1u << 20) : fd_(fd), max_bytes_(max_bytes) {}
  // As flush(100ms).
  ~StderrQueue();
  StderrQueue(const StderrQueue&) = delete;
  StderrQueue& operator=(const StderrQueue&) = delete;

  void print(std::string_view line);  // appends a newline
  // Prints lines that the next line or block erases, so that lines appear above the block. For
  // terminals that are wider and higher than the block. Prints nothing while lines wait.
  void print_block(std::string_view lines);
  // Waits until all lines are written, or until `timeout` passes without progress.
  void flush(Duration timeout);
  std::uint64_t dropped() const;

 private:
  void queue_text(std::string_view text) MOBULA_REQUIRES(mutex_);
  void write_some() MOBULA_REQUIRES(mutex_);
  void report_dropped() MOBULA_REQUIRES(mutex_);
  void start_writer() MOBULA_REQUIRES(mutex_);
  void forget_writer_of_parent() MOBULA_REQUIRES(mutex_);
  void write_later();

  const int fd_;
  const std::size_t max_bytes_;
  mutable Mutex mutex_;
  std::string waiting_ MOBULA_GUARDED_BY(mutex_);
  std::int64_t block_lines_ MOBULA_GUARDED_BY(mutex_) = 0;  // lines to erase
  std::uint64_t unreported_ MOBULA_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ MOBULA_GUARDED_BY(mutex_) = 0;
  bool broken_ MOBULA_GUARDED_BY(mutex_) = false;   // the other end is closed
  bool writing_ MOBULA_GUARDED_BY(mutex_) = false;  // the thread runs
  bool ending_ MOBULA_GUARDED_BY(mutex_) = false;
  pid_t owner_ MOBULA_GUARDED_BY(mutex_) = 0;  // process that started the thread
  Fd wake_;
  std::thread writer_;
};

// The queue of this process for stderr.
StderrQueue& stderr_queue();

template <class... Args>
void print_stderr(fmt::format_string<Args...> format, Args&&... args) {
  stderr_queue().print(fmt::format(format, std::forward<Args>(args)...));
}

// Opens each closed descriptor of 0 to 2, so that no other file or socket gets its number.
void open_standard_descriptors();

}  // namespace mobula::internal
