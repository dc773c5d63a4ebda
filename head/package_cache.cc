#include "head/package_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <vector>

#include "protocol/program/cluster_files.h"

namespace mobula::internal::head {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t name_digits = 32;

bool is_name(const std::string& text) {
  return text.size() == name_digits && bits_from_hex(text).has_value();
}

std::optional<std::uint64_t> size_of(const std::string& path) {
  struct stat seen {};
  if (::stat(path.c_str(), &seen) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(seen.st_size);
}

// Sets the modification time, which is the time of the last use.
void touch(const std::string& path) { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

std::string have_text(std::uint64_t have, std::uint64_t size) {
  return fmt::format(R"({{"have": {}, "size": {}}})", have, size);
}

Failure wrong(const std::string& kind) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("'{}' names no part of a job's files", kind));
}

}  // namespace

PackageCache::PackageCache(std::string directory, std::function<bool(const std::string&)> needed,
                           PackageLimits limits)
    : directory_(std::move(directory)), needed_(std::move(needed)), limits_(limits) {
  std::error_code code;
  for (const auto& each : fs::directory_iterator(directory_, code)) {
    if (each.path().extension() == ".new") fs::remove(each.path(), code);
  }
}

ToolReply PackageCache::answer(const ToolRequest& request) {
  ToolReply reply;
  reply.request = request.request;
  const auto done = request.verb == "package_put" ? put(request) : get(request, reply.bytes);
  reply.ok = done.ok();
  if (done) {
    reply.json = *done;
  } else {
    reply.code = done.error().code;
    reply.text = done.error().text;
  }
  return reply;
}

Result<std::string> PackageCache::put(const ToolRequest& request) {
  if (directory_.empty()) return failure(ErrorCode::unavailable, "the head keeps no files of jobs");
  std::istringstream words(request.kind);
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  if (!(words >> name >> size >> offset) || !is_name(name)) return wrong(request.kind);
  if (const auto there = size_of(path_of(name))) {
    touch(path_of(name));
    return have_text(*there, *there);
  }
  if (size == 0 || size > limits_.bytes_each) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("a job's files are {} bytes, and the head takes {} at most", size,
                               limits_.bytes_each));
  }
  // A query without bytes starts no upload and does not extend one.
  if (request.argument.empty() && !arriving_.contains(name)) return have_text(0, size);
  auto found = arriving(name, size);
  if (!found) return found.error();
  Arriving& package = **found;
  if (offset != package.have || request.argument.empty()) return have_text(package.have, size);
  package.last = monotonic_now();
  if (request.argument.size() > std::min(chunk_bytes, size - package.have))
    return wrong(request.kind);
  const auto bytes = std::as_bytes(std::span(request.argument));
  const ssize_t written =
      ::pwrite(package.file.get(), bytes.data(), bytes.size(), static_cast<off_t>(package.have));
  if (written != static_cast<ssize_t>(bytes.size())) {
    const int why = written < 0 ? errno : ENOSPC;
    drop(name);
    return failure(ErrorCode::resource_exhausted,
                   errno_failure("keep a job's files in " + directory_, why).text +
                       "; free space on the head's disk");
  }
  // Starts the writeback now, so that the last chunk does not wait for all bytes.
  ::sync_file_range(package.file.get(), static_cast<off_t>(package.have), written,
                    SYNC_FILE_RANGE_WRITE);
  package.hash.add(bytes);
  package.have += bytes.size();
  if (package.have < size) return have_text(package.have, size);
  if (auto stored = store(name, package); !stored) return stored.error();
  return have_text(size, size);
}

Result<PackageCache::Arriving*> PackageCache::arriving(const std::string& name,
                                                       std::uint64_t size) {
  if (const auto at = arriving_.find(name); at != arriving_.end()) {
    if (at->second.size == size) return &at->second;
    return failure(ErrorCode::invalid_argument, "the same files arrive with another size");
  }
  std::vector<std::string> stuck;
  for (const auto& [each, package] : arriving_) {
    if (monotonic_now() - package.last > limits_.chunk_timeout) stuck.push_back(each);
  }
  for (const auto& each : stuck) drop(each);
  if (arriving_.size() >= limits_.arriving) {
    return failure(ErrorCode::unavailable,
                   fmt::format("the files of {} jobs arrive at the head already; try again",
                               limits_.arriving));
  }
  if (auto made = make_private_dir(directory_); !made) return made.error();
  if (auto space = free_space(size); !space) return space.error();
  Arriving package;
  package.file =
      Fd(::open(new_path_of(name).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!package.file) return errno_failure("write " + new_path_of(name), errno);
  package.size = size;
  package.last = monotonic_now();
  return &arriving_.emplace(name, std::move(package)).first->second;
}

// Uploads in progress count with their final size.
Result<void> PackageCache::free_space(std::uint64_t bytes) {
  struct StoredPackage {
    fs::file_time_type used;
    std::string name;
    std::uint64_t bytes;
  };
  std::vector<StoredPackage> stored;
  std::uint64_t sum = bytes;
  std::error_code code;
  for (const auto& each : fs::directory_iterator(directory_, code)) {
    const std::string name = each.path().filename().string();
    std::error_code gone;
    if (!is_name(name)) continue;
    StoredPackage row{each.last_write_time(gone), name, each.file_size(gone)};
    if (gone) continue;
    sum += row.bytes;
    stored.push_back(std::move(row));
  }
  for (const auto& [name, package] : arriving_) sum += package.size;
  std::ranges::sort(stored, {}, [](const StoredPackage& each) {
    return std::pair(each.used, std::string_view(each.name));
  });
  std::uint64_t most = limits_.bytes;
  struct statvfs disk {};
  // The limit is half of the available space, in which the stored files count. The journal and the
  // logs need the rest.
  if (::statvfs(directory_.c_str(), &disk) == 0) {
    most = std::min(most, (std::uint64_t{disk.f_bavail} * disk.f_frsize + (sum - bytes)) / 2);
  }
  for (const auto& each : stored) {
    if (sum <= most) break;
    if (needed_(each.name)) continue;
    ::unlink(path_of(each.name).c_str());
    sum -= each.bytes;
  }
  if (sum <= most) return {};
  return failure(ErrorCode::resource_exhausted,
                 fmt::format("the head keeps at most {} bytes of jobs' files, and all its files "
                             "arrive now or are needed by jobs that have not ended; try again when "
                             "one has, or free space on the head's disk",
                             most));
}

Result<void> PackageCache::store(const std::string& name, Arriving& package) {
  const Hash128 seen = package.hash.end();
  if (hex_of(seen) != name) {
    drop(name);
    return failure(ErrorCode::corrupt,
                   fmt::format("the files of a job arrived with the hash {} in place of {}",
                               hex_of(seen), name));
  }
  // The file is synced before it is renamed: a named file is complete, even after a power failure.
  const bool stored = ::fdatasync(package.file.get()) == 0 &&
                      ::rename(new_path_of(name).c_str(), path_of(name).c_str()) == 0;
  const int why = errno;
  if (!stored) {
    drop(name);
    return errno_failure("keep " + path_of(name), why);
  }
  arriving_.erase(name);
  return {};
}

void PackageCache::drop(const std::string& name) {
  arriving_.erase(name);
  ::unlink(new_path_of(name).c_str());
}

Result<std::string> PackageCache::get(const ToolRequest& request, Payload& bytes) {
  std::istringstream words(request.kind);
  std::string name;
  std::uint64_t offset = 0;
  if (!(words >> name >> offset) || !is_name(name)) return wrong(request.kind);
  const Fd file(::open(path_of(name).c_str(), O_RDONLY | O_CLOEXEC));
  const auto size = size_of(path_of(name));
  if (!file || !size) {
    return failure(
        ErrorCode::not_found,
        fmt::format("the head does not keep the files {} any more; submit the job again", name));
  }
  touch(path_of(name));
  std::vector<std::byte> chunk(std::min(chunk_bytes, *size - std::min(offset, *size)));
  const ssize_t count = ::pread(file.get(), chunk.data(), chunk.size(), static_cast<off_t>(offset));
  if (count < 0) return errno_failure("read " + path_of(name), errno);
  chunk.resize(static_cast<std::size_t>(count));
  bytes = Payload(chunk);
  return fmt::format(R"({{"size": {}}})", *size);
}

}  // namespace mobula::internal::head
