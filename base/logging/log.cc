#include "base/logging/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <mutex>

#include "base/logging/stderr_queue.h"

namespace mobula::internal {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::trace: return spdlog::level::trace;
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::off: return spdlog::level::off;
  }
  return spdlog::level::off;
}

// A stopped terminal must not stop the process that logs to it.
class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::string_view line(text.data(), text.size());
    while (line.ends_with('\n')) line.remove_suffix(1);
    stderr_queue().print(line);
  }
  void flush_() override {}
};

std::shared_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink, const LogOptions& options) {
  auto logger = std::make_shared<spdlog::logger>(options.role, std::move(sink));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %L %n[%P] %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog_level(options.level));
  logger->flush_on(spdlog::level::info);
  return logger;
}

// The process-wide sink, made thread-safe by spdlog. Replaced only by open_log.
std::shared_ptr<spdlog::logger>& process_logger() {
  static auto logger =
      make_logger(std::make_shared<StderrSink>(),
                  LogOptions{.role = "mobula", .level = LogLevel::warn, .file = {}});
  return logger;
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view text) {
  constexpr std::pair<std::string_view, LogLevel> names[] = {
      {"trace", LogLevel::trace}, {"debug", LogLevel::debug}, {"info", LogLevel::info},
      {"warn", LogLevel::warn},   {"error", LogLevel::error}, {"off", LogLevel::off}};
  for (const auto& [name, level] : names) {
    if (name == text) return level;
  }
  return failure(
      ErrorCode::invalid_argument,
      "log level '" + std::string(text) + "' is not one of trace, debug, info, warn, error, off");
}

Result<void> open_log(const LogOptions& options) {
  try {
    spdlog::sink_ptr sink;
    if (options.file.empty()) {
      sink = std::make_shared<StderrSink>();
    } else {
      spdlog::file_event_handlers handlers;
      handlers.after_open = [](const spdlog::filename_t&, std::FILE* file) {
        (void)::fchmod(::fileno(file), 0600);
      };
      sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(options.file, options.max_bytes,
                                                                    1, false, handlers);
    }
    process_logger() = make_logger(std::move(sink), options);
  } catch (const spdlog::spdlog_ex& e) {
    return failure(ErrorCode::unavailable, "open log file " + options.file + ": " + e.what());
  }
  return {};
}

bool log_enabled(LogLevel level) { return process_logger()->should_log(spdlog_level(level)); }

void log_line(LogLevel level, std::string_view line) {
  process_logger()->log(spdlog_level(level), "{}", log_text(line));
}

std::string log_text(std::string_view line) {
  std::string text;
  text.reserve(line.size());
  for (std::size_t at = 0; at < line.size(); ++at) {
    const auto c = static_cast<unsigned char>(line[at]);
    const auto next = at + 1 < line.size() ? static_cast<unsigned char>(line[at + 1]) : 0u;
    // a C1 control character in UTF-8
    const bool is_c1 = c == 0xc2 && next >= 0x80 && next <= 0x9f;
    if (is_c1) ++at;
    if (is_c1 || (c < 0x20 && c != '\t') || c == 0x7f) {
      text += fmt::format("\\x{:02x}", is_c1 ? next : c);
    } else {
      text += line[at];
    }
  }
  return text;
}

}  // namespace mobula::internal
