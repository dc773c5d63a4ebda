// Preloaded library: moves the wall clock of a program ahead by SKEWED_CLOCK_SECONDS, or by the
// number of seconds in the file SKEWED_CLOCK_FILE, which may change while the program runs.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>

namespace {

long seconds_ahead() {
  const char* const path = std::getenv("SKEWED_CLOCK_FILE");
  if (path == nullptr) {
    const char* const ahead = std::getenv("SKEWED_CLOCK_SECONDS");
    return ahead == nullptr ? 0 : std::atol(ahead);
  }
  const int saved = errno;
  char text[32] = {};
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  const bool has_text = file >= 0 && ::read(file, text, sizeof text - 1) > 0;
  if (file >= 0) ::close(file);
  errno = saved;
  return has_text ? std::atol(text) : 0;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* to) {
  const long failed = ::syscall(SYS_clock_gettime, clock, to);
  if (failed == 0 && clock == CLOCK_REALTIME) to->tv_sec += seconds_ahead();
  return static_cast<int>(failed);
}
