// What executors print: read from a pipe without ever waiting, cut into complete lines, kept in one
// capped file per slot. Bounded everywhere, and a process that prints is never held up for long.
// Used by one thread at a time.
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

// One or more complete lines, each with its '\n'. Longer ones than `OutputPipe::max_line` come in
// pieces, each a line of its own.
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

// The reading end of a process's stdout and stderr.
class OutputPipe {
 public:
  static constexpr std::size_t max_line = 64 * 1024;

  // The pipe, and the end that the process gets.
  // `exact`: bytes are given out as they come, not by lines.
  static Result<std::pair<OutputPipe, Fd>> create(bool exact = false);

  int fd() const { return read_.get(); }
  // Reads what is there, up to a share that leaves time for others; false once every writer is
  // gone.
  bool read_some(const LineSink& sink);
  // Reads all that is there and gives out a last line without an end too. The process has ended.
  void finish(const LineSink& sink);
  const LineTail& tail() const { return tail_; }

 private:
  enum class Read { some, nothing, closed };
  OutputPipe(Fd read, bool exact) : read_(std::move(read)), exact_(exact) {}
  Read read_once(const LineSink& sink);
  void give(const LineSink& sink, std::string_view lines);

  Fd read_;
  bool exact_ = false;
  std::string partial_;  // a line that has not ended: less than max_line
  LineTail tail_;
};

// A log file that is rotated at `max_bytes`; one predecessor, PATH.1, is kept. A disk that refuses
// costs lines, never the agent: they are counted.
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
