#include "simulated_gpu/taken.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "simulated_gpu/settings.h"

namespace simulated_gpu {
namespace {

// Parts of a file name: place, kind, process, bytes, id.
struct Name {
  int location = 0;
  Taking what = Taking::memory;
  pid_t process = 0;
  std::uint64_t size = 0;
  std::uint64_t id = 0;
};

std::string text_of(const Name& name) {
  char text[128];
  std::snprintf(text, sizeof text, "taken-%d-%c-%d-%" PRIu64 "-%" PRIx64, name.location,
                static_cast<char>(name.what), static_cast<int>(name.process), name.size, name.id);
  return text;
}

std::optional<Name> name_from(const char* text) {
  Name name;
  char what = 0;
  int process = 0;
  if (std::sscanf(text, "taken-%d-%c-%d-%" SCNu64 "-%" SCNx64, &name.location, &what, &process,
                  &name.size, &name.id) != 5) {
    return std::nullopt;
  }
  name.what = static_cast<Taking>(what);
  name.process = process;
  return name;
}

// Serializes queries and allocations of all processes.
class MachineLock {
 public:
  MachineLock()
      : fd_(::open((settings().directory + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (fd_ < 0) misuse("the directory of MOBULA_SIMULATED_GPU cannot be written");
    while (::flock(fd_, LOCK_EX) != 0) {
    }
  }
  ~MachineLock() { ::close(fd_); }
  MachineLock(const MachineLock&) = delete;
  MachineLock& operator=(const MachineLock&) = delete;

 private:
  int fd_;
};

// Entries that are in use; others are removed.
std::vector<Name> held() {
  std::vector<Name> all;
  DIR* const directory = ::opendir(settings().directory.c_str());
  if (directory == nullptr) return all;
  while (const dirent* const each = ::readdir(directory)) {
    const auto name = name_from(each->d_name);
    if (!name) continue;
    const std::string path = settings().directory + "/" + each->d_name;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
      ::unlink(path.c_str());
    } else {
      all.push_back(*name);
    }
    ::close(fd);
  }
  ::closedir(directory);
  return all;
}

std::uint64_t bytes_of(const std::vector<Name>& all, int location) {
  std::uint64_t bytes = 0;
  for (const Name& each : all) {
    if (each.location == location && each.what != Taking::import) bytes += each.size;
  }
  return bytes;
}

std::uint64_t bytes_of_process(const std::vector<Name>& all) {
  std::uint64_t bytes = 0;
  for (const Name& each : all) {
    if (each.process == ::getpid() && each.what == Taking::memory) bytes += each.size;
  }
  return bytes;
}

// Memory that MPS lets this process allocate on its first device: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT,
// "0=256M" or "0=2G", if a control daemon has its pipe in CUDA_MPS_PIPE_DIRECTORY.
std::uint64_t mps_limit() {
  const char* const directory = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const char* const text = std::getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  if (directory == nullptr || text == nullptr || std::strncmp(text, "0=", 2) != 0)
    return UINT64_MAX;
  if (::access((std::string(directory) + "/control").c_str(), F_OK) != 0) return UINT64_MAX;
  char* unit = nullptr;
  const std::uint64_t number = std::strtoull(text + 2, &unit, 10);
  return number << (*unit == 'G' ? 30 : 20);
}

}  // namespace

Taken take(int location, Taking what, std::uint64_t size, std::uint64_t id) {
  const MachineLock lock;
  const auto all = held();
  if (what != Taking::import && bytes_of(all, location) + size > memory_at(location)) return {};
  if (what == Taking::memory && bytes_of_process(all) + size > mps_limit()) return {};
  static std::atomic<std::uint64_t> last{0};
  const auto own = (static_cast<std::uint64_t>(::getpid()) << 32) + ++last;
  const Name name{location, what, ::getpid(), size, id == 0 ? own : id};
  const std::string path = settings().directory + "/" + text_of(name);
  Taken made{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), name.id};
  if (made.fd < 0) return {};
  if (::flock(made.fd, what == Taking::import ? LOCK_SH : LOCK_EX) != 0 ||
      (what == Taking::memory && ::ftruncate(made.fd, static_cast<off_t>(size)) != 0)) {
    ::close(made.fd);
    return {};
  }
  return made;
}

std::uint64_t taken_bytes(int location) {
  const MachineLock lock;
  return bytes_of(held(), location);
}

bool is_imported(std::uint64_t id) {
  const MachineLock lock;
  for (const Name& each : held()) {
    if (each.what == Taking::import && each.id == id) return true;
  }
  return false;
}

std::vector<TakenBy> takers(int location) {
  const MachineLock lock;
  std::map<pid_t, std::uint64_t> bytes;
  const auto all = held();
  for (const Name& each : all) {
    if (each.location == location && each.what == Taking::context) bytes[each.process] = 0;
  }
  // Memory that outlived its process belongs to no process.
  for (const Name& each : all) {
    const auto at = bytes.find(each.process);
    if (each.location == location && each.what != Taking::import && at != bytes.end())
      at->second += each.size;
  }
  std::vector<TakenBy> made;
  for (const auto& [process, size] : bytes) made.push_back({process, size});
  return made;
}

TakenFile file_of(int fd) {
  char link[64], path[512] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (::readlink(link, path, sizeof path - 1) < 0) return {};
  const char* const last = std::strrchr(path, '/');
  const std::string directory(path, last == nullptr ? 0 : static_cast<std::size_t>(last - path));
  char real[4096];
  if (::realpath(settings().directory.c_str(), real) == nullptr || directory != real) return {};
  const auto name = name_from(last + 1);
  if (!name || name->what != Taking::memory) return {};
  return {name->id, name->location, name->size};
}

}  // namespace simulated_gpu
