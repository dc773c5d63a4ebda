// Output of executors: read from a pipe without blocking, split into complete lines, and stored in
// one capped file per slot. All buffers are bounded, and a printing process is never delayed for
// long.
// Thread: owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::worker {

// One or more complete lines, each with its '\n'. Lines longer than `OutputPipe::max_line` are
// split into several lines.
using LineSink = std::function<void(std::string_view lines)>;

// The last lines of an output, for error messages.
class LineTail {
 public:
  void append(std::string_view lines);
  // Joined by '\n', empty if nothing was printed.
  std::string text() const;

 private:
  static constexpr std::size_t max_lines = 20;
  static constexpr std::size_t max_line_bytes = 512;
  std::deque<std::string> lines_;
};

// The read end of a process's stdout and stderr.
class OutputPipe {
 public:
  static constexpr std::size_t max_line = 64 * 1024;

  // Returns the pipe and the write end for the process. `exact`: bytes are passed on unsplit, not
  // by lines.
  static Result<std::pair<OutputPipe, Fd>> create(bool exact = false);

  int fd() const { return read_.get(); }
  // Reads available bytes, up to a fixed share per call. False when all writers have closed the
  // pipe.
  bool read_some(const LineSink& sink);
  // Reads all available bytes and passes on an incomplete last line, too. Call it after the exit of
  // the process.
  void finish(const LineSink& sink);
  const LineTail& tail() const { return tail_; }

 private:
  enum class Read { some, nothing, closed };
  OutputPipe(Fd read, bool exact) : read_(std::move(read)), exact_(exact) {}
  Read read_once(const LineSink& sink);
  void give(const LineSink& sink, std::string_view lines);

  Fd read_;
  bool exact_ = false;
  std::string partial_;  // incomplete line, shorter than max_line
  LineTail tail_;
};

// A log file that is rotated at `max_bytes`; one predecessor, PATH.1, is kept. A failed write loses
// lines, which are counted.
class CappedLog {
 public:
  static constexpr std::uint64_t default_max_bytes = 16u << 20;

  static Result<CappedLog> open(std::string path, std::uint64_t max_bytes = default_max_bytes);

  void append(std::string_view lines);
  const LineTail& tail() const { return tail_; }
  const std::string& path() const { return path_; }
  std::uint64_t lost_bytes() const { return lost_bytes_; }

 private:
  CappedLog(std::string path, std::uint64_t max_bytes)
      : path_(std::move(path)), max_bytes_(max_bytes) {}
  Result<void> reopen();
  void write(std::string_view bytes);

  std::string path_;
  std::uint64_t max_bytes_;
  std::uint64_t size_ = 0;
  std::uint64_t lost_bytes_ = 0;
  Fd file_;
  LineTail tail_;
};

}  // namespace mobula::internal::worker
