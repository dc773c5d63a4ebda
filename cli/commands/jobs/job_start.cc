#include "cli/commands/jobs/job_start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/model/jobs/job_files_variable.h"
#include "cli/output/write_all.h"
#include "cli/tool_client.h"
#include "deploy/job_files.h"
#include "protocol/program/cluster_files.h"
#include "protocol/program/program_files.h"

extern char** environ;

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;

constexpr int start_failed_code = 127;
constexpr Duration files_timeout = 60s;  // for a head that restarts
constexpr Duration files_backoff = 500ms;
constexpr auto upload_timeout = std::chrono::hours(1);
constexpr std::uint64_t cache_bytes = std::uint64_t{1} << 30;

struct JobStart {
  std::string head;
  std::string key_path;
  std::string hash;
  std::string cache;      // directory of archives, shared by the node's jobs
  std::string directory;  // directory of this job alone
  std::vector<char*> program;
};

// Archives of a node: each is fetched once; concurrent users wait for it.
class FilesCache {
 public:
  explicit FilesCache(const JobStart& start)
      : start_(start), path_(start.cache + "/" + start.hash) {}

  Result<Fd> open() {
    if (auto made = make_private_dir(start_.cache); !made) return made.error();
    // Files are renamed when complete, and an open file survives its name.
    if (Fd there = known(); there) return there;
    // One lock per archive, so that a slow transfer blocks only its users.
    auto lock = locked(path_ + ".lock");
    if (!lock) return lock.error();
    Fd file = known();
    if (!file) {
      if (auto brought = bring(); !brought) return brought.error();
      file = known();
      if (!file) return errno_failure("read " + path_, errno);
    }
    ::unlink((path_ + ".lock").c_str());  // waiting processes see that the name is removed
    const auto all = locked(start_.cache + "/lock");
    if (!all) return all.error();
    forget_oldest();
    return file;
  }
  // The bytes do not match the hash: the next job fetches them again.
  void forget() const { ::unlink(path_.c_str()); }

 private:
  // A process removes the file only under its lock, so a lock on a nameless file is void.
  static Result<Fd> locked(const std::string& path) {
    for (;;) {
      Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      if (!lock) return errno_failure("lock " + path, errno);
      while (::flock(lock.get(), LOCK_EX) != 0) {
        if (errno != EINTR) return errno_failure("lock " + path, errno);
      }
      struct stat own {
      }, named{};
      if (::fstat(lock.get(), &own) == 0 && ::stat(path.c_str(), &named) == 0 &&
          own.st_ino == named.st_ino)
        return lock;
    }
  }

  Fd known() const {
    Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (file) ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
    return file;
  }

  Result<void> bring() const {
    const std::string incoming = path_ + ".new";
    Fd file(::open(incoming.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return errno_failure("write " + incoming, errno);
    auto read = read_into(file.get());
    if (read) {
      const auto seen = hash_file(incoming);
      if (!seen) return seen.error();
      if (hex_of(*seen) != start_.hash)
        read = failure(ErrorCode::corrupt, "read the job's files: the hash does not match");
    }
    if (read && ::fdatasync(file.get()) != 0) read = errno_failure("store " + path_, errno);
    if (!read) {
      ::unlink(incoming.c_str());
      return read;
    }
    if (::rename(incoming.c_str(), path_.c_str()) != 0)
      return errno_failure("store " + path_, errno);
    return {};
  }

  Result<void> read_into(int file) const {
    ClusterAddress cluster;
    cluster.address = start_.head;
    cluster.key_path = start_.key_path;
    if (::access(start_.key_path.c_str(), F_OK) == 0) {
      auto key = load_key_file(start_.key_path);
      if (!key) return key.error();
      cluster.key = std::move(key).value();
    }
    std::optional<ToolClient> client;
    Time last_received = monotonic_now();
    for (std::uint64_t at = 0;;) {
      if (!client) {
        auto opened = ToolClient::open(cluster);
        if (!opened) return opened.error();
        client.emplace(std::move(*opened));
      }
      const auto answer = client->request("package_get", fmt::format("{} {}", start_.hash, at));
      if (answer) {
        const auto json = nlohmann::json::parse(*answer, nullptr, false);
        const auto size = json.is_object() ? json.value("size", std::uint64_t{0}) : 0;
        const auto bytes = client->bytes();
        if (!write_all(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}))
          return errno_failure("write " + start_.cache, errno == 0 ? ENOSPC : errno);
        at += bytes.size();
        if (at >= size) return {};
        if (bytes.empty())
          return failure(ErrorCode::corrupt, "read the job's files: truncated at the head");
        last_received = monotonic_now();
        continue;
      }
      const Failure& why = answer.error();
      // A slow head cannot be distinguished from a head with another key.
      const bool passes = why.code == ErrorCode::unavailable || why.code == ErrorCode::timed_out ||
                          why.code == ErrorCode::permission_denied;
      if (!passes || monotonic_now() - last_received >= files_timeout) return why;
      client.reset();
      ::poll(nullptr, 0, static_cast<int>(files_backoff / 1ms));
    }
  }

  // Removes the least recently used archive; readers have it open.
  void forget_oldest() const {
    struct StoredPackage {
      fs::file_time_type used;
      fs::path path;
      std::uint64_t bytes;
    };
    std::vector<StoredPackage> retained;
    std::uint64_t sum = 0;
    std::error_code code;
    for (const auto& entry : entries_of(start_.cache)) {
      const fs::directory_entry each(entry, code);
      std::error_code gone;
      if (each.path() == path_ || each.path().filename() == "lock") continue;
      const auto extension = each.path().extension();
      // In progress, or left by a killed process.
      const bool comes = extension == ".lock" || extension == ".new";
      if (comes && fs::file_time_type::clock::now() - each.last_write_time(gone) < upload_timeout)
        continue;
      StoredPackage row{each.last_write_time(gone), each.path(), each.file_size(gone)};
      if (gone) continue;
      sum += row.bytes;
      retained.push_back(std::move(row));
    }
    std::ranges::sort(retained, {}, &StoredPackage::used);
    for (const auto& each : retained) {
      if (sum <= cache_bytes) return;
      fs::remove(each.path, code);
      sum -= each.bytes;
    }
  }

  const JobStart& start_;
  const std::string path_;
};

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Prepends to the variable.
void put_before(const char* name, const std::string& directory) {
  const std::string there = value_of(name);
  ::setenv(name, (there.empty() ? directory : directory + ":" + there).c_str(), 1);
}

void set_later_variables() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with(later_prefix)) entries.emplace_back(*entry);
  }
  for (const auto& entry : entries) {
    const auto equals = entry.find('=');
    const auto name = entry.substr(0, equals);
    ::setenv(name.c_str() + std::string_view(later_prefix).size(), entry.c_str() + equals + 1, 1);
    ::unsetenv(name.c_str());
  }
}

// Searches like an agent does for the program of a job: empty entries of PATH, which mean the
// working directory, are skipped.
std::string found_in_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const std::string path = value_of("PATH");
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string directory = path.substr(at, end - at);
    at = end + 1;
    if (directory.empty()) continue;
    const std::string candidate = directory + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

int complain_of_files(const std::string& why) {
  std::fprintf(stderr, "mobula: the job's files: %s\n", why.c_str());
  return start_failed_code;
}

}  // namespace

int start_job_program(int argc, char** argv) {
  if (argc < 9 || std::string_view(argv[7]) != "--") {
    std::fprintf(stderr, "mobula: job-start: only agents run this command\n");
    return start_failed_code;
  }
  JobStart start{argv[2], argv[3], argv[4], argv[5], argv[6], {argv + 8, argv + argc}};
  start.program.push_back(nullptr);
  {
    FilesCache cache(start);
    const auto file = cache.open();
    if (!file) return complain_of_files(file.error().text);
    if (auto made = make_private_dir(fs::path(start.directory).parent_path().string()); !made) {
      return complain_of_files(made.error().text);
    }
    if (auto unpacked = deploy::unpack_job_files(file->get(), start.directory); !unpacked) {
      if (unpacked.error().code == ErrorCode::corrupt) cache.forget();
      return complain_of_files(unpacked.error().text);
    }
  }
  set_later_variables();
  const auto has = [&](const char* name) {
    return ::access((start.directory + name).c_str(), F_OK) == 0;
  };
  if (has("/bin")) put_before("PATH", start.directory + "/bin");
  if (has("/lib")) put_before("LD_LIBRARY_PATH", start.directory + "/lib");
  if (has("/work")) {
    if (::chdir((start.directory + "/work").c_str()) != 0)
      return complain_of_files(std::strerror(errno));
    ::setenv("PWD", (start.directory + "/work").c_str(), 1);
  }
  const std::string program = found_in_path(start.program.front());
  errno = ENOENT;
  if (!program.empty()) ::execv(program.c_str(), start.program.data());
  std::fprintf(stderr, "mobula: run %s: %s\n", start.program.front(), std::strerror(errno));
  return start_failed_code;
}

}  // namespace mobula::internal::cli
