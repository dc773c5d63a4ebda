#include "protocol/recording/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/logging/log.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal {
namespace {

// Bytes below the limit that stay free for the record with the reason for the end.
constexpr std::uint64_t last_words_bytes = 256;

}  // namespace

Result<RecordOptions> record_options_from_environment() {
  RecordOptions options;
  const char* directory = std::getenv(record_variable);
  if (directory != nullptr && *directory != '\0') {
    std::error_code code;
    options.directory = std::filesystem::absolute(directory, code).string();
    if (code) return errno_failure(fmt::format("find the directory {}", directory), code.value());
  }
  const char* given = std::getenv(record_limit_variable);
  if (given == nullptr || *given == '\0') return options;
  const std::string_view text = given;
  const auto [end, fault] =
      std::from_chars(text.data(), text.data() + text.size(), options.limit_bytes);
  if (fault != std::errc() || end != text.data() + text.size() || options.limit_bytes == 0) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}={} is not a number of bytes", record_limit_variable, text));
  }
  return options;
}

Result<std::unique_ptr<Recorder>> Recorder::start(const RecordOptions& options,
                                                  RecordingHeader header) {
  if (options.directory.empty()) return std::unique_ptr<Recorder>();
  if (auto made = make_private_dir(options.directory); !made) return made.error();
  header.pid = ::getpid();
  header.started_ms = wall_clock_ms();
  const std::string path = fmt::format("{}/{}-{}-{}.mobrec", options.directory, header.role,
                                       header.pid, hex_of(header.incarnation));
  // The file is renamed once its header is written, because the process may be killed at any time.
  const std::string unfinished = path + ".new";
  Fd fd(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
  if (!fd) return errno_failure("make the recording " + unfinished, errno);
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(fd), path, options.limit_bytes));
  recorder->waiting_ = recording_begin(header);
  recorder->flush();
  if (::rename(unfinished.c_str(), path.c_str()) != 0) {
    return errno_failure("name the recording " + path, errno);
  }
  return recorder;
}

Recorder::Recorder(Fd fd, std::string path, std::uint64_t limit_bytes)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      limit_bytes_(limit_bytes),
      scrubber_(random_bits()) {}

Recorder::~Recorder() { flush(); }

void Recorder::took(Time at, std::span<const std::byte> event) {
  if (!recording()) return;
  if (written_ + waiting_.size() + event.size() + last_words_bytes > limit_bytes_) {
    return stop(fmt::format("the limit of {} bytes is reached", limit_bytes_));
  }
  append_input(waiting_, at, event);
  flush();
}

void Recorder::gave(std::span<const Bytes> commands) {
  if (!recording()) return;
  std::size_t size = 0;
  for (const Bytes& each : commands) size += 4 + each.size();
  if (written_ + size + last_words_bytes > limit_bytes_) {
    return stop(fmt::format("the limit of {} bytes is reached", limit_bytes_));
  }
  append_output(waiting_, commands);
}

void Recorder::flush() {
  std::size_t done = 0;
  while (recording() && done < waiting_.size()) {
    const ssize_t count = ::write(fd_.get(), waiting_.data() + done, waiting_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const auto why = errno_failure("write", errno);
      fd_.reset();
      log_warn("recording to {} has stopped: {}", path_, why.text);
      break;
    }
    done += static_cast<std::size_t>(count);
  }
  written_ += done;
  waiting_.clear();
}

void Recorder::stop(const std::string& why) {
  append_stop(waiting_, why);
  flush();
  if (!recording()) return;  // flush() has logged the reason
  fd_.reset();
  log_warn("recording to {} has stopped: {}", path_, why);
}

}  // namespace mobula::internal
