#include "deploy/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

extern "C" char** environ;

namespace mobula::internal::deploy {
namespace {

constexpr std::size_t max_output_bytes = 4 << 20;

struct Pipe {
  Fd reads;
  Fd writes;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_failure("make a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string each = *at;
    if (!more.contains(each.substr(0, each.find('=')))) all.push_back(each);
  }
  for (const auto& [name, value] : more) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& each : texts) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

int milliseconds_of(Duration span) {
  const auto ms = std::max<std::int64_t>(0, (span + 999'999ns) / 1ms);
  return static_cast<int>(std::min<std::int64_t>(ms, 1'000'000'000));
}

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// In the child after fork: only async-signal-safe calls.
[[noreturn]] void become(char* const* words, char* const* environment,
                         const std::array<int, 3>& streams, int fault, const Command& command,
                         pid_t parent) {
  const auto give_up = [&] {
    const int number = errno;
    (void)!::write(fault, &number, sizeof number);
    ::_exit(127);
  };
  if (command.own_group) ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, command.dies_with_parent ? SIGKILL : SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  for (int stream = 0; stream < 3; ++stream) {
    const int end = streams[static_cast<std::size_t>(stream)];
    if (end >= 0 && ::dup2(end, stream) < 0) give_up();
  }
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGCHLD}) ::sigaction(number, &plain, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(words[0], words, environment);
  give_up();
  std::abort();
}

// While it lives, a write to a pipe without a reader fails without a signal. For its thread.
class WithoutPipeSignal {
 public:
  WithoutPipeSignal() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutPipeSignal(const WithoutPipeSignal&) = delete;
  WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;
  ~WithoutPipeSignal() {
    const timespec now{};
    if (::sigismember(&before_, SIGPIPE) == 0) ::sigtimedwait(&pipe_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace

Result<Process> Process::start(const Command& command) {
  std::array<Pipe, 3> pipes;
  const std::array<bool, 3> wanted{command.pipes_input, command.pipes_output, command.pipes_errors};
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    if (!wanted[i]) continue;
    auto made = make_pipe();
    if (!made) return made.error();
    pipes[i] = std::move(made).value();
  }
  auto fault = make_pipe();
  if (!fault) return fault.error();
  auto words = command.words;
  auto environment = environment_with(command.environment);
  const auto argv = pointers_to(words);
  const auto envp = pointers_to(environment);
  const std::array<int, 3> streams{pipes[0].reads.get(), pipes[1].writes.get(),
                                   pipes[2].writes.get()};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return errno_failure("fork", errno);
  if (pid == 0) become(argv.data(), envp.data(), streams, fault->writes.get(), command, parent);
  Process process(pid);
  process.self_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  process.input_ = std::move(pipes[0].writes);
  process.output_ = std::move(pipes[1].reads);
  process.errors_ = std::move(pipes[2].reads);
  for (const Fd* const each : {&process.input_, &process.output_, &process.errors_}) {
    if (*each) ::fcntl(each->get(), F_SETFL, O_NONBLOCK);
  }
  fault->writes.reset();
  int number = 0;
  if (::read(fault->reads.get(), &number, sizeof number) == sizeof number) {
    const auto code = number == ENOENT ? ErrorCode::not_found : ErrorCode::permission_denied;
    return failure(code,
                   fmt::format("cannot run {}: {}", command.words.front(), std::strerror(number)));
  }
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      self_(std::move(other.self_)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)),
      code_(other.code_) {}

Process::~Process() {
  if (pid_ <= 0 || code_) return;
  signal(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string Process::take(Fd& pipe) {
  std::string text;
  std::array<char, 16384> buffer{};
  while (pipe && text.size() < max_output_bytes) {
    const auto count = ::read(pipe.get(), buffer.data(), buffer.size());
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else {
      if (count == 0 || errno != EAGAIN) pipe.reset();
      break;
    }
  }
  return text;
}

void Process::signal(int number) const {
  if (pid_ > 0 && !code_) ::kill(pid_, number);
}

void Process::signal_group(int number) const {
  if (pid_ > 0 && !code_) ::kill(-pid_, number);
}

std::size_t Process::give_input(std::string_view text) {
  const WithoutPipeSignal quiet;
  const auto count = ::write(input_.get(), text.data(), text.size());
  if (count < 0 && errno != EAGAIN && errno != EINTR) input_.reset();
  return count < 0 ? 0 : static_cast<std::size_t>(count);
}

std::optional<int> Process::ended() {
  if (code_ || pid_ <= 0) return code_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) code_ = code_of(status);
  return code_;
}

std::optional<int> Process::wait(Duration timeout) {
  const Time until = monotonic_now() + timeout;
  while (!ended()) {
    const Duration left = until - monotonic_now();
    if (left <= Duration(0)) break;
    pollfd item{self_.get(), POLLIN, 0};
    ::poll(&item, 1, milliseconds_of(left));
  }
  return code_;
}

int Process::end(int first, Duration grace) {
  for (const int number : {first, SIGINT, SIGKILL}) {
    signal(number);
    if (const auto code = wait(grace)) return *code;
  }
  return 128 + SIGKILL;  // the destructor waits for the kernel
}

Result<Outcome> run(Command command, const std::string& input, Duration timeout) {
  command.pipes_input = command.pipes_output = command.pipes_errors = true;
  auto started = Process::start(command);
  if (!started) return started.error();
  Process process = std::move(started).value();
  Outcome outcome;
  const WithoutPipeSignal quiet;
  const auto keep = [](std::string& to, const std::string& text) {
    to.append(text, 0, max_output_bytes - std::min(max_output_bytes, to.size()));
  };
  std::size_t written = 0;
  if (input.empty()) process.close_input();
  const Time until = monotonic_now() + timeout;
  while (process.input() >= 0 || process.output() >= 0 || process.errors() >= 0) {
    const Duration left = until - monotonic_now();
    if (left <= Duration(0)) break;
    std::array<pollfd, 3> items{{{process.input(), POLLOUT, 0},
                                 {process.output(), POLLIN, 0},
                                 {process.errors(), POLLIN, 0}}};
    ::poll(items.data(), items.size(), milliseconds_of(left));
    if (items[0].revents != 0) {
      const auto count = ::write(process.input(), input.data() + written, input.size() - written);
      if (count > 0) written += static_cast<std::size_t>(count);
      if (written == input.size() || (count < 0 && errno != EAGAIN && errno != EINTR))
        process.close_input();
    }
    if (items[1].revents != 0) keep(outcome.out, process.take_output());
    if (items[2].revents != 0) keep(outcome.err, process.take_errors());
  }
  const auto code = process.wait(until - monotonic_now());
  outcome.timed_out = !code;
  outcome.code = code ? *code : process.end(SIGTERM, 1s);
  return outcome;
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace mobula::internal::deploy
