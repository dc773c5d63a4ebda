#include "worker/process/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "worker/process/keeper.h"
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

// Ends what is told. Its pipe may stay open: processes that the agent has forked hold it, too.
constexpr char end_of_message = '\0';

// The keeper's pid, and what the agent has told, if anything.
std::string read_told(const Fd& pipe) {
  std::string text;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t size = ::read(pipe.get(), part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(size));
    if (text.size() > sizeof(std::int32_t) && text.back() == end_of_message) {
      text.pop_back();
      return text;
    }
  }
}

bool detach(const std::string& log_path) {
  ::setsid();
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd log(
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600));
  return null && log && ::dup2(null.get(), STDIN_FILENO) >= 0 &&
         ::dup2(log.get(), STDOUT_FILENO) >= 0 && ::dup2(log.get(), STDERR_FILENO) >= 0;
}

[[noreturn]] void keep_in_background(const std::string& log_path, Pipe report,
                                     const std::function<int(Readiness&)>& agent_main) {
  report.read.reset();
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
  ::_exit(run_under_keeper(start, &report.write));
}

}  // namespace

void Readiness::ready(const std::string& message) { tell('+', message); }
void Readiness::failed(const std::string& why) { tell('-', why); }

void Readiness::tell(char outcome, const std::string& text) {
  if (!pipe_) return;
  const std::string line = outcome + text + end_of_message;
  (void)!::write(pipe_.get(), line.data(), line.size());
  pipe_.reset();
}

Result<Daemon> start_daemon(const std::string& log_path,
                            const std::function<int(Readiness&)>& agent_main) {
  auto report = make_pipe();
  if (!report) return report.error();
  std::fflush(nullptr);
  const pid_t between = ::fork();
  if (between < 0) return errno_failure("fork a keeper", errno);
  if (between == 0) {
    // Forked twice, so that the caller need not reap the keeper.
    const pid_t keeper = ::fork();
    if (keeper != 0) ::_exit(keeper < 0 ? could_not_start : 0);
    keep_in_background(log_path, std::move(*report), agent_main);
  }
  report->write.reset();
  int status = 0;
  while (::waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string told = read_told(report->read);
  Daemon daemon;
  if (told.size() < sizeof(std::int32_t)) {
    return failure(ErrorCode::unavailable,
                   "the keeper could not be started: it " + describe(status));
  }
  std::int32_t keeper = 0;
  std::memcpy(&keeper, told.data(), sizeof keeper);
  daemon.keeper = keeper;
  const std::string said = told.substr(sizeof keeper);
  if (said.starts_with('+')) {
    daemon.message = said.substr(1);
    return daemon;
  }
  if (said.starts_with('-')) return failure(ErrorCode::unavailable, said.substr(1));
  return failure(ErrorCode::unavailable,
                 fmt::format("the agent ended before it was ready. The end of its log {}:\n{}",
                             log_path, last_lines(log_path)));
}

}  // namespace mobula::internal::worker
