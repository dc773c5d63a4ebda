#include "worker/process/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "worker/process/agent_shim.h"
#include "worker/process/pipe.h"

namespace mobula::internal::worker {
namespace {

constexpr int could_not_start = 70;  // EX_SOFTWARE of sysexits.h

std::string describe(int wait_status) {
  if (WIFSIGNALED(wait_status)) return fmt::format("was ended by signal {}", WTERMSIG(wait_status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(wait_status));
}

std::string last_lines(const std::string& path) {
  std::ifstream file(path, std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::int64_t>(file.tellg());
  file.seekg(std::max<std::int64_t>(0, size - 2048));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (size > 2048) text.erase(0, text.find('\n') + 1);
  return text;
}

// Ends a message. The end of the pipe is no sign, because processes forked by the agent hold it
// open, too.
constexpr char end_of_message = '\0';
constexpr int poll_interval_ms = 200;  // interval of calls of `given_up`
constexpr char kind_ready = '+';
constexpr char kind_failed = '-';
constexpr char kind_waiting = '~';

// Reads the messages of the shim and then of the agent.
class StartReports {
 public:
  StartReports(const Fd& pipe, const std::function<bool()>& given_up)
      : pipe_(pipe), given_up_(given_up) {}

  // Pid of the shim, which is its first message; empty if it exited without one.
  std::optional<std::int32_t> pid() {
    while (text_.size() < sizeof(std::int32_t)) {
      if (!read_more()) return std::nullopt;
    }
    std::int32_t pid = 0;
    std::memcpy(&pid, text_.data(), sizeof pid);
    text_.erase(0, sizeof pid);
    shim_ = pid;
    return pid;
  }
  // The next message; empty: the agent exited without one.
  std::string message() {
    for (;;) {
      if (const auto end = text_.find(end_of_message); end != std::string::npos) {
        std::string message = text_.substr(0, end);
        text_.erase(0, end + 1);
        return message;
      }
      if (!read_more()) return {};
    }
  }

 private:
  bool read_more() {
    std::array<char, 4096> part;
    for (;;) {
      // No other process has this pid: the shim exits after its agent, which holds the pipe.
      if (shim_ > 0 && !ended_ && given_up_ && given_up_()) ended_ = ::kill(shim_, SIGTERM) == 0;
      pollfd item{pipe_.get(), POLLIN, 0};
      if (::poll(&item, 1, poll_interval_ms) <= 0) continue;  // timeout or signal
      const ssize_t size = ::read(pipe_.get(), part.data(), part.size());
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return false;
      text_.append(part.data(), static_cast<std::size_t>(size));
      return true;
    }
  }

  const Fd& pipe_;
  const std::function<bool()>& given_up_;
  std::string text_;
  std::int32_t shim_ = 0;
  bool ended_ = false;
};

bool detach(const std::string& log_path) {
  ::setsid();
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd log(
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600));
  return null && log && ::dup2(null.get(), STDIN_FILENO) >= 0 &&
         ::dup2(log.get(), STDOUT_FILENO) >= 0 && ::dup2(log.get(), STDERR_FILENO) >= 0;
}

[[noreturn]] void keep_in_background(const std::string& log_path, Pipe report,
                                     const std::function<int(Readiness&)>& agent_main,
                                     const SparedProcesses& spares) {
  report.read.reset();
  // Signal handlers of the caller do not apply here.
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  const std::int32_t own_pid = ::getpid();
  (void)!::write(report.write.get(), &own_pid, sizeof own_pid);
  if (!detach(log_path)) {
    const std::string why = std::strerror(errno);
    Readiness(std::move(report.write)).failed(fmt::format("open the log {}: {}", log_path, why));
    ::_exit(could_not_start);
  }
  const auto start = [&] {
    Readiness readiness(std::move(report.write));
    return agent_main(readiness);
  };
  ::_exit(run_under_shim(start, &report.write, spares));
}

}  // namespace

void Readiness::ready(const std::string& message) {
  tell(kind_ready, message);
  pipe_.reset();
}
void Readiness::failed(const std::string& why) {
  tell(kind_failed, why);
  pipe_.reset();
}
void Readiness::waiting(const std::string& why) { tell(kind_waiting, why); }

void Readiness::tell(char kind, const std::string& text) {
  if (!pipe_) return;
  const std::string line = kind + text + end_of_message;
  (void)!::write(pipe_.get(), line.data(), line.size());
}

Result<Daemon> start_daemon(const std::string& log_path,
                            const std::function<int(Readiness&)>& agent_main,
                            const std::function<void(const std::string&)>& waiting,
                            const std::function<bool()>& given_up, const SparedProcesses& spares) {
  auto report = make_pipe();
  if (!report) return report.error();
  std::fflush(nullptr);
  const pid_t between = ::fork();
  if (between < 0) return errno_failure("fork the shim of the agent", errno);
  if (between == 0) {
    // Forked twice, so that the caller need not reap the shim.
    const pid_t shim = ::fork();
    if (shim != 0) ::_exit(shim < 0 ? could_not_start : 0);
    keep_in_background(log_path, std::move(*report), agent_main, spares);
  }
  report->write.reset();
  int status = 0;
  while (::waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  StartReports reports(report->read, given_up);
  const auto shim = reports.pid();
  if (!shim) {
    return failure(ErrorCode::unavailable, "start the shim of the agent: it " + describe(status));
  }
  std::string said = reports.message();
  for (; said.starts_with(kind_waiting); said = reports.message()) {
    if (waiting) waiting(said.substr(1));
  }
  if (said.starts_with(kind_ready)) return Daemon{*shim, said.substr(1)};
  if (said.starts_with(kind_failed)) return failure(ErrorCode::unavailable, said.substr(1));
  return failure(ErrorCode::unavailable,
                 fmt::format("the agent ended before it was ready. The end of its log {}:\n{}",
                             log_path, last_lines(log_path)));
}

}  // namespace mobula::internal::worker
