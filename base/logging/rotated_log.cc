#include "base/logging/rotated_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/fd.h"

namespace mobula::internal {
namespace {

struct File {
  Fd fd;
  std::uint64_t id = 0;
  std::uint64_t size = 0;
};

// Inodes are reused immediately, so the id includes the birth time if the file system has one.
std::uint64_t id_of(const struct statx& seen) {
  const std::uint64_t born =
      (seen.stx_mask & STATX_BTIME) == 0
          ? 0
          : static_cast<std::uint64_t>(seen.stx_btime.tv_sec) * 1'000'000'000u +
                seen.stx_btime.tv_nsec;
  const std::uint64_t id =
      (seen.stx_ino * 0x9e3779b97f4a7c15u) ^ born ^ (std::uint64_t{seen.stx_dev_minor} << 56);
  return std::max<std::uint64_t>(id >> 1, 1);
}

// The oldest first. The newest name is opened first, so a file that is rotated in between is seen
// twice instead of missed.
std::vector<File> open_files(const std::vector<std::string>& paths) {
  std::vector<File> files;
  for (const auto& path : paths) {
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct statx seen {};
    if (!fd || ::statx(fd.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &seen) != 0)
      continue;
    const std::uint64_t id = id_of(seen);
    if (std::ranges::find(files, id, &File::id) != files.end()) continue;
    files.push_back({std::move(fd), id, seen.stx_size});
  }
  std::ranges::reverse(files);
  return files;
}

}  // namespace

Result<LogBytes> read_log(const std::vector<std::string>& paths, LogPosition position,
                          std::uint64_t limit) {
  const auto files = open_files(paths);
  if (files.empty()) return failure(ErrorCode::not_found, "no such log exists");
  LogBytes read;
  std::size_t at = 0;
  std::uint64_t from = 0;
  if (position.file == 0) {
    std::uint64_t all = 0;
    for (const auto& file : files) all += file.size;
    const std::uint64_t back =
        position.from < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(position.from) : all;
    from = all - std::min(back, all);
    while (at + 1 < files.size() && from >= files[at].size) from -= files[at++].size;
  } else {
    const auto found = std::ranges::find(files, position.file, &File::id);
    read.lost = found == files.end() || position.from < 0 ||
                static_cast<std::uint64_t>(position.from) > found->size;
    if (!read.lost) {
      at = static_cast<std::size_t>(found - files.begin());
      from = static_cast<std::uint64_t>(position.from);
    }
  }
  while (at + 1 < files.size() && from >= files[at].size) {
    ++at;
    from = 0;
  }
  const File& file = files[at];
  read.bytes.resize(std::min(limit, file.size - std::min(from, file.size)));
  const ssize_t size =
      ::pread(file.fd.get(), read.bytes.data(), read.bytes.size(), static_cast<off_t>(from));
  if (size < 0) return errno_failure("read a log", errno);
  read.bytes.resize(static_cast<std::size_t>(size));
  from += static_cast<std::uint64_t>(size);
  read.left = file.size - std::min(from, file.size);
  for (std::size_t later = at + 1; later < files.size(); ++later) read.left += files[later].size;
  const bool over = from >= file.size && at + 1 < files.size();
  read.next = over ? LogPosition{files[at + 1].id, 0}
                   : LogPosition{file.id, static_cast<std::int64_t>(from)};
  return read;
}

std::string rotated_log_path(const std::string& path) {
  const auto dot = path.rfind('.');
  const auto slash = path.rfind('/');
  const bool has_ending =
      dot != std::string::npos && dot > 0 && (slash == std::string::npos || dot > slash + 1);
  return has_ending ? path.substr(0, dot) + ".1" + path.substr(dot) : path + ".1";
}

std::string to_string(const LogPosition& position) {
  return fmt::format("{}:{}", position.file, position.from);
}

Result<LogPosition> parse_log_position(const std::string& text) {
  LogPosition position;
  if (text.empty()) return position;
  const char* end = text.data() + text.size();
  const auto file = std::from_chars(text.data(), end, position.file);
  const bool colon = file.ec == std::errc() && file.ptr != end && *file.ptr == ':';
  const auto from = colon ? std::from_chars(file.ptr + 1, end, position.from) : file;
  if (!colon || from.ec != std::errc() || from.ptr != end) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("parse log position '{}': expected FILE:FROM", text.substr(0, 60)));
  }
  return position;
}

}  // namespace mobula::internal
