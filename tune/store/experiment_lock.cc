#include "tune/store/experiment_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "base/time.h"

namespace mobula::internal::tune {
namespace {

// The lock belongs to the open file, so that a second open of this process conflicts too.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

std::string text_of(int file) {
  std::array<char, 512> bytes{};
  const ssize_t size = ::pread(file, bytes.data(), bytes.size(), 0);
  std::string text(bytes.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  text = text.substr(0, text.find('\n'));
  return text.empty() ? "another process" : text;
}

std::string own_text() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("process {} on host {} since {:%Y-%m-%dT%H:%M:%SZ}\n", ::getpid(), host.data(),
                     fmt::gmtime(static_cast<std::time_t>(wall_clock_ms() / 1000)));
}

}  // namespace

Result<ExperimentLock> ExperimentLock::take(const std::string& path,
                                            const std::string& experiment) {
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return errno_failure("lock experiment '" + experiment + "': open " + path, errno);
  struct flock lock = whole_file();
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) {
    if (errno != EAGAIN && errno != EACCES) {
      return errno_failure("lock experiment '" + experiment + "': " + path, errno);
    }
    return failure(ErrorCode::already_exists,
                   fmt::format("lock experiment '{}': {} runs it; wait for its end, or stop it",
                               experiment, text_of(file.get())));
  }
  // On a full disk the lock works without its text.
  const std::string text = own_text();
  if (::ftruncate(file.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(file.get(), text.data(), text.size(), 0);
  }
  return ExperimentLock(std::move(file));
}

std::string ExperimentLock::holder(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  struct flock lock = whole_file();
  if (::fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return {};
  return text_of(file.get());
}

}  // namespace mobula::internal::tune
