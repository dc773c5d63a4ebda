// Lines of several logs as one: by the time with which they begin, where they do. A line without a time
// stays with the one before it in its log; what no line of its log has a time for comes as it is read. Holds
// back a line only until every other log has said what comes next, or that nothing does for now. Pure.
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

// Of a line that begins as "2026-11-24T03:14:25.123Z": microseconds since 1970.
std::optional<std::int64_t> time_of_line(std::string_view line);

class LogMerge {
 public:
  using Sink = std::function<bool(std::size_t log, const std::string& line)>;

  explicit LogMerge(Sink sink) : sink_(std::move(sink)) {}

  // The number of one more log.
  std::size_t add();
  void take(std::size_t log, std::string line);
  bool has_line(std::size_t log) const { return !logs_[log].lines.empty(); }
  // Nothing more of it comes for now, or again something may.
  void is_silent(std::size_t log, bool silent) { logs_[log].silent = silent; }
  // Gives out what has its turn. False: the sink wants no more.
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
