// Several logs on their way to people as one stream: read part by part, lines chosen by a pattern and by
// time, merged, named after their logs where there are several, perhaps the last ones only, then followed.
// Keeps no more than a part of each log, and a tail. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/log_lines.h"
#include "cli/log_merge.h"
#include "cli/log_source.h"

namespace mobula::internal::cli {

// Lines of one process between two times, in microseconds since 1970.
struct LinesWanted {
  std::int64_t from_us = 0;
  std::int64_t to_us = 0;
  std::int64_t pid = 0;  // 0: not known
};

class LogStream {
 public:
  // `line` has the flags, and outlives this.
  static Result<LogStream> create(const CommandLine& line, std::optional<LinesWanted> wanted = std::nullopt);

  // `name` stands before its lines where there are several.
  void add(std::string name, LogSource source);
  bool has(const std::string& name) const;
  std::size_t size() const { return logs_.size(); }
  void name_lines() { names_ = true; }

  // All that is there now. False: nobody takes it, or nothing could be read; then `code` says what to end with.
  bool print_all();
  // What has come since; whether there was any. Nothing: as above.
  std::optional<bool> print_news();
  // Somebody may write into one of them.
  bool open() const;
  int code() const { return code_; }

 private:
  struct Log {
    std::string name;
    LogSource source;
    std::optional<LogLines> lines;
    bool cut = false;      // its first line is not whole
    bool open = true;
    bool failed = false;
    std::uint64_t left = 0;
    std::uint64_t read_bytes = 0;  // of the last part
    std::uint64_t wanted = 0;  // of what is there now
  };

  LogStream(const CommandLine& line, std::optional<LinesWanted> wanted) : line_(&line), wanted_(wanted) {}
  bool read(std::size_t log);
  bool is_wanted(const std::string& text) const;
  bool give();
  bool any_works() const;

  const CommandLine* line_;
  std::optional<LinesWanted> wanted_;
  bool names_ = false;
  std::vector<std::unique_ptr<Log>> logs_;
  std::unique_ptr<LogMerge> merge_;
  std::unique_ptr<LogLines> out_;
  bool taken_ = true;  // by whoever reads this
  int code_ = 0;
};

}  // namespace mobula::internal::cli
