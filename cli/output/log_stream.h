// Several logs as one stream: read in chunks, filtered by pattern and time, merged, labeled if
// there are several, optionally limited to a tail, then followed. Stores one chunk per log and a
// tail.
// Thread: main.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands/logs/log_source.h"
#include "cli/output/log_lines.h"
#include "cli/output/log_merge.h"
#include "cli/output/loss_report.h"

namespace mobula::internal::cli {

// Lines of one process between two times, in microseconds since 1970.
struct LinesWanted {
  std::int64_t from_us = 0;
  std::int64_t to_us = 0;
  std::int64_t pid = 0;  // 0: unknown
  std::string task{};    // digits of the task; lines that name a task are selected by them
};

// Whether a line of a slot's log belongs to the process, and to the task or the period.
bool is_of(const std::string& line, const LinesWanted& wanted);

class LogStream {
 public:
  // `line` has the flags, and must outlive the stream.
  static Result<LogStream> create(const CommandLine& line,
                                  std::optional<LinesWanted> wanted = std::nullopt);

  // Adds a log; `name` labels its lines if there are several.
  void add(std::string name, LogSource source);
  bool has(const std::string& name) const;
  std::size_t size() const { return logs_.size(); }
  void name_lines() { names_ = true; }

  // Prints all present lines. False: stdout has no reader, or no log can be read; `code` is the
  // exit code.
  bool print_all();
  // Prints new lines and returns whether there were any; nothing: as above.
  std::optional<bool> print_news();
  // Reports whether any of the logs may grow.
  bool open() const;
  int code() const { return code_; }

 private:
  struct Log {
    std::string name;
    LogSource source;
    std::optional<LogLines> lines;
    LossReport lost{};
    bool cut = false;  // its first line is incomplete
    bool open = true;
    bool failed = false;
    std::uint64_t left = 0;
    std::uint64_t read_bytes = 0;  // size of the latest chunk
    std::uint64_t wanted = 0;      // position where the wanted lines begin
  };

  LogStream(const CommandLine& line, std::optional<LinesWanted> wanted)
      : line_(&line), wanted_(wanted) {}
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
  bool taken_ = true;  // false when the reader is done
  int code_ = 0;
};

}  // namespace mobula::internal::cli
