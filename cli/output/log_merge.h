// Merges lines of several logs by their leading times. A line without a time follows the previous
// line of its log; a log without times is printed as it is read. Holds a line only until every
// other log has a next line or is silent.
// Thread: any; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mobula::internal::cli {

// Returns microseconds since 1970 for a line that begins like "2026-11-24T03:14:25.123Z".
std::optional<std::int64_t> time_of_line(std::string_view line);

class LogMerge {
 public:
  using Sink = std::function<bool(std::size_t log, const std::string& line)>;

  explicit LogMerge(Sink sink) : sink_(std::move(sink)) {}

  // Adds a log and returns its number.
  std::size_t add();
  void take(std::size_t log, std::string line);
  bool has_line(std::size_t log) const { return !logs_[log].lines.empty(); }
  // Marks a log as silent for now, or as active again.
  void is_silent(std::size_t log, bool silent) { logs_[log].silent = silent; }
  // Prints the lines whose order is known. Returns false when the sink is done.
  bool give();
  void set_sink(Sink sink) { sink_ = std::move(sink); }

 private:
  struct Line {
    std::int64_t time_us = 0;
    std::string text;
  };
  struct Log {
    std::deque<Line> lines;
    std::int64_t last_us = 0;
    bool silent = false;
  };

  Sink sink_;
  std::vector<Log> logs_;
};

}  // namespace mobula::internal::cli
