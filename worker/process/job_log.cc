#include "worker/process/job_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <vector>

namespace mobula::internal::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_part_bytes = 1u << 20;

struct Segment {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::string path;
  std::uint64_t end() const { return begin + size; }
};

std::string prefix_of(JobId job) { return "job-" + job.hex() + "."; }

std::string segment_path(const std::string& directory, JobId job, std::uint64_t begin) {
  return fmt::format("{}/{}{:016}.log", directory, prefix_of(job), begin);
}

// Segments in ascending order of their offsets.
std::vector<Segment> segments_of(const std::string& directory, JobId job) {
  std::vector<Segment> found;
  const std::string prefix = prefix_of(job);
  std::error_code code;
  for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".log")) continue;
    Segment segment;
    const char* first = name.data() + prefix.size();
    const char* last = name.data() + name.size() - 4;
    const auto read = std::from_chars(first, last, segment.begin);
    struct stat seen {};
    segment.path = at->path().string();
    if (read.ec != std::errc() || read.ptr != last || ::stat(segment.path.c_str(), &seen) != 0)
      continue;
    segment.size = static_cast<std::uint64_t>(seen.st_size);
    found.push_back(std::move(segment));
  }
  std::ranges::sort(found, {}, &Segment::begin);
  return found;
}

}  // namespace

JobLog JobLog::open(std::string directory, JobId job, JobLogLimits limits) {
  JobLog log(std::move(directory), job, limits);
  const auto segments = segments_of(log.directory_, job);
  if (!segments.empty()) {
    log.begin_ = segments.back().begin;
    log.end_ = segments.back().end();
    for (const auto& each : segments) log.older_bytes_ += each.begin == log.begin_ ? 0 : each.size;
  }
  return log;
}

bool JobLog::open_segment() {
  const std::string path = segment_path(directory_, job_, begin_);
  file_ = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  return static_cast<bool>(file_);
}

void JobLog::drop_oldest() {
  auto segments = segments_of(directory_, job_);
  while (segments.size() > segments_) {
    std::error_code ignored;
    fs::remove(segments.front().path, ignored);
    segments.erase(segments.begin());
  }
  older_bytes_ = 0;
  for (const auto& each : segments) older_bytes_ += each.begin == begin_ ? 0 : each.size;
}

void JobLog::lose(std::uint64_t bytes) {
  lost_bytes_ += bytes;
  gap_ += bytes;
  skip_gap();
}

// Output after a gap begins a new segment at its offset. The segment is created at once, because
// its name tells readers about the gap. At most one segment is empty, however often this happens.
bool JobLog::skip_gap() {
  if (gap_ == 0) return true;
  const std::uint64_t next = end_ + gap_;
  const bool empty = file_ && end_ == begin_;
  const std::string path = segment_path(directory_, job_, next);
  if (empty) {
    if (::rename(segment_path(directory_, job_, begin_).c_str(), path.c_str()) != 0) return false;
  } else {
    Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!file) return false;
    file_ = std::move(file);
  }
  begin_ = end_ = next;
  gap_ = 0;
  if (!empty) drop_oldest();
  return true;
}

void JobLog::keep(std::size_t segments) {
  segments = std::min(segments, limits_.segments);
  if (std::exchange(segments_, segments) > segments) drop_oldest();
}

void remove_job_log(const std::string& directory, JobId job, bool mark) {
  const auto segments = segments_of(directory, job);
  if (segments.empty()) return;
  const std::string last = segment_path(directory, job, segments.back().end());
  // Created first, so that the offset is never lost.
  if (mark) Fd(::open(last.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).reset();
  for (const auto& each : segments) {
    std::error_code ignored;
    if (!mark || each.path != last) fs::remove(each.path, ignored);
  }
}

void JobLog::append(std::string_view bytes) {
  if (!bytes.empty() && !skip_gap()) return lose(bytes.size());
  while (!bytes.empty()) {
    if (end_ - begin_ >= limits_.segment_bytes) {
      begin_ = end_;
      file_.reset();
    }
    if (!file_) {
      if (!open_segment()) {
        return lose(bytes.size());
      }
      drop_oldest();
    }
    const std::uint64_t space = limits_.segment_bytes - (end_ - begin_);
    const ssize_t size =
        ::write(file_.get(), bytes.data(), std::min<std::uint64_t>(space, bytes.size()));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      return lose(bytes.size());
    }
    end_ += static_cast<std::uint64_t>(size);
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

ReadJobLogReply read_job_log(const std::string& directory, const ReadJobLogRequest& question) {
  ReadJobLogReply part;
  part.request = question.request;
  const auto segments = segments_of(directory, question.job);
  if (segments.empty()) return part;
  part.end = segments.back().end();
  std::uint64_t from = 0;
  if (question.from >= 0) {
    from = static_cast<std::uint64_t>(question.from);
  } else if (const std::uint64_t back =
                 std::uint64_t{0} - static_cast<std::uint64_t>(question.from);
             back < part.end) {
    from = part.end - back;
  }
  part.from = std::min(std::max(from, segments.front().begin), part.end);
  const auto at =
      std::ranges::find_if(segments, [&](const Segment& each) { return part.from < each.end(); });
  if (at == segments.end()) return part;
  part.from = std::max(part.from, at->begin);
  const Fd file(::open(at->path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    part.fault = errno_failure("read " + at->path, errno).text;
    return part;
  }
  std::vector<std::byte> bytes(std::min({question.limit, max_part_bytes, at->end() - part.from}));
  const ssize_t size =
      ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(part.from - at->begin));
  if (size < 0) part.fault = errno_failure("read " + at->path, errno).text;
  bytes.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  part.bytes = Payload(bytes);
  return part;
}

}  // namespace mobula::internal::worker
