#include "worker/process/pool/launch.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

namespace mobula::internal::worker {
namespace {

constexpr int cannot_run = 127;      // the loader's exit code for a missing library
constexpr int cannot_run_now = 126;  // wrong arguments, or lack of memory or descriptors
constexpr int busy_attempts = 100;
constexpr int busy_pause_ms = 10;

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Code between fork and exec, in a copy of a multithreaded process: system calls only, no
// allocation.

// True if the file itself is the cause, so that another attempt would fail, too.
bool is_fault_of_file(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EACCES:
    case EPERM:
    case ENOEXEC:
    case EINVAL:
    case ELIBBAD: return true;
    default: return false;
  }
}

[[noreturn]] void give_up(const char* what, const char* on) {
  const int code = is_fault_of_file(errno) ? cannot_run : cannot_run_now;
  const char* why = ::strerrordesc_np(errno);
  // One write, because the reader may read in between.
  std::array<iovec, 7> text{};
  std::size_t at = 0;
  for (const char* part : {"mobula: ", what, " ", on, ": ", why != nullptr ? why : "?", "\n"}) {
    text[at++] = iovec{const_cast<char*>(part), std::strlen(part)};
  }
  (void)!::writev(STDERR_FILENO, text.data(), static_cast<int>(text.size()));
  ::_exit(code);
}

void reset_signals() {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &plain, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void enter_directory(const Launch& what) {
  if (!what.working_directory.empty() && ::chdir(what.working_directory.c_str()) == 0) return;
  if (what.needs_working_directory)
    give_up("cannot enter the directory", what.working_directory.c_str());
  const char* scratch = what.scratch_directory.empty() ? "/" : what.scratch_directory.c_str();
  if (::chdir(scratch) != 0) give_up("enter the directory", scratch);
}

[[noreturn]] void become_program(const Launch& what, pid_t parent, char* const* argv,
                                 char* const* environment) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(cannot_run_now);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(what.output_fd, STDOUT_FILENO) < 0 ||
      ::dup2(what.output_fd, STDERR_FILENO) < 0) {
    ::_exit(cannot_run_now);
  }
  ::syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
  if (what.control_fd >= 0) ::fcntl(what.control_fd, F_SETFD, 0);
  enter_directory(what);
  reset_signals();
  // A bare name was not found in PATH. It must not be taken from the working directory.
  if (what.program.find('/') == std::string::npos) {
    errno = ENOENT;
    give_up("cannot run", what.program.c_str());
  }
  // ETXTBSY: a process forked by another thread during the write of the file holds it open until
  // its own exec. No event reports that, so exec is retried.
  for (int attempts = 0; attempts < busy_attempts; ++attempts) {
    ::execve(what.program.c_str(), argv, environment);
    if (errno != ETXTBSY) break;
    ::poll(nullptr, 0, busy_pause_ms);
  }
  give_up("cannot run", what.program.c_str());
}

}  // namespace

std::vector<std::string> with_variables(std::vector<std::string> base,
                                        const std::vector<EnvironmentVariable>& settings) {
  for (const auto& [name, value] : settings) {
    const std::string prefix = name + "=";
    const auto entry = std::find_if(base.begin(), base.end(), [&](const std::string& entry) {
      return entry.starts_with(prefix);
    });
    if (entry != base.end()) {
      *entry = prefix + value;
    } else {
      base.push_back(prefix + value);
    }
  }
  return base;
}

Result<Launched> launch(const Launch& what) {
  MOBULA_CHECK(what.output_fd > STDERR_FILENO, "an fd for output that is not stdio");
  const auto argv = pointers_to(what.argv);
  const auto environment = pointers_to(what.environment);
  if (!what.scratch_directory.empty()) ::mkdir(what.scratch_directory.c_str(), 0700);
  const pid_t parent = ::getpid();

  // No signal may run a handler of this process in the child.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) become_program(what, parent, argv.data(), environment.data());
  const int fork_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return errno_failure("fork to run " + what.program, fork_error);

  Launched launched{pid, Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))};
  if (!launched.pidfd) {
    const int why = errno;
    ::kill(pid, SIGKILL);
    return errno_failure("watch the new process of " + what.program, why);
  }
  return launched;
}

}  // namespace mobula::internal::worker
