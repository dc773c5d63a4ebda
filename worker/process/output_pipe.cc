#include "worker/process/output_pipe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "worker/process/pipe.h"

namespace mobula::internal::worker {
namespace {

constexpr int reads_per_turn = 4;
// Limits the reads after the exit of a process whose pipe another process still writes to.
constexpr int reads_at_end = 64;

}  // namespace

void LineTail::append(std::string_view lines) {
  // Only the last lines are kept: finds their beginning before any copy.
  std::size_t begin = lines.size();
  for (std::size_t count = 0; begin > 0 && count < max_lines; ++count) {
    const std::size_t previous = begin < 2 ? std::string_view::npos : lines.rfind('\n', begin - 2);
    begin = previous == std::string_view::npos ? 0 : previous + 1;
  }
  lines.remove_prefix(begin);
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    lines_.emplace_back(lines.substr(0, std::min(end, max_line_bytes)));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (lines_.size() > max_lines) lines_.pop_front();
  }
}

std::string LineTail::text() const {
  std::string text;
  for (const std::string& line : lines_) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

Result<std::pair<OutputPipe, Fd>> OutputPipe::create(bool exact) {
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  if (::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK) != 0) {
    return errno_failure("set up a pipe for a process's output", errno);
  }
  return std::pair(OutputPipe(std::move(pipe->read), exact), std::move(pipe->write));
}

void OutputPipe::give(const LineSink& sink, std::string_view lines) {
  tail_.append(lines);
  if (sink) sink(lines);
}

OutputPipe::Read OutputPipe::read_once(const LineSink& sink) {
  std::array<char, max_line + 1> buffer;
  std::memcpy(buffer.data(), partial_.data(), partial_.size());
  const std::size_t space = max_line - partial_.size();
  const ssize_t size = ::read(read_.get(), buffer.data() + partial_.size(), space);
  if (size < 0) return errno == EINTR ? Read::some : Read::nothing;
  if (size == 0) return Read::closed;
  std::size_t filled = partial_.size() + static_cast<std::size_t>(size);
  const std::string_view all(buffer.data(), filled);
  if (exact_) {
    give(sink, all);
    return Read::some;
  }
  std::size_t complete = all.rfind('\n') + 1;  // npos + 1 is 0: no complete line
  if (complete == 0 && filled == max_line) {
    buffer[filled++] = '\n';
    complete = filled;
  }
  if (complete > 0) give(sink, std::string_view(buffer.data(), complete));
  partial_.assign(buffer.data() + complete, filled - complete);
  return Read::some;
}

bool OutputPipe::read_some(const LineSink& sink) {
  for (int i = 0; i < reads_per_turn; ++i) {
    const Read outcome = read_once(sink);
    if (outcome != Read::some) return outcome != Read::closed;
  }
  return true;
}

void OutputPipe::finish(const LineSink& sink) {
  for (int i = 0; i < reads_at_end && read_once(sink) == Read::some; ++i) {
  }
  if (!partial_.empty()) give(sink, std::exchange(partial_, {}) + '\n');
  read_.reset();
}

Result<CappedLog> CappedLog::open(std::string path, std::uint64_t max_bytes) {
  CappedLog log(std::move(path), max_bytes);
  if (const auto opened = log.reopen(); !opened) return opened.error();
  return log;
}

Result<void> CappedLog::reopen() {
  file_ = Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  struct stat seen {};
  if (!file_ || ::fstat(file_.get(), &seen) != 0)
    return errno_failure("open the log " + path_, errno);
  size_ = static_cast<std::uint64_t>(seen.st_size);
  return {};
}

void CappedLog::append(std::string_view lines) {
  tail_.append(lines);
  if (size_ > 0 && size_ + lines.size() > max_bytes_) {
    const std::string previous = path_ + ".1";
    // After a failed rotation, the file remains unchanged and takes no further lines.
    if (::rename(path_.c_str(), previous.c_str()) != 0 || !reopen()) {
      lost_bytes_ += lines.size();
      return;
    }
  }
  write(lines);
}

void CappedLog::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(file_.get(), bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      lost_bytes_ += bytes.size();
      return;
    }
    size_ += static_cast<std::uint64_t>(size);
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

}  // namespace mobula::internal::worker
