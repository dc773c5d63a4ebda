// Writes the log of a Mobula process to one process-wide sink that `main` opens. Lines are
// formatted with fmt.
// Thread: any.
// Not: cores, which return commands instead of logging.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace mobula::internal {

enum class LogLevel { trace, debug, info, warn, error, off };

struct LogOptions {
  std::string role;  // printed in each line: "head", "agent", "driver"
  LogLevel level = LogLevel::info;
  std::string file;  // empty: stderr
  // size in bytes at which a file is rotated; one predecessor is kept
  std::size_t max_bytes = 64u << 20;
};

Result<LogLevel> parse_log_level(std::string_view text);
// Replaces the sink of the process. Without a sink, warnings and errors go to stderr.
Result<void> open_log(const LogOptions& options);
bool log_enabled(LogLevel level);
// Writes one line. Control characters, which may come from outside, are written as \xNN.
void log_line(LogLevel level, std::string_view line);
std::string log_text(std::string_view line);

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::info))
    log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::debug))
    log_line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::warn))
    log_line(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::error))
    log_line(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace mobula::internal
