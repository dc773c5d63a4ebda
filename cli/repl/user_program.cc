#include "cli/repl/user_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text/json_writer.h"
#include "base/time.h"

extern "C" char** environ;

namespace mobula::internal::cli::repl {
namespace {

constexpr int socket_number = 198;  // number in the program
constexpr std::size_t longest_answer = std::size_t{65} << 20;
constexpr int ending_ms = 5000;
constexpr int ended_ms = 500;  // from the end of its socket to that of the process
constexpr Duration takes_nothing = 60s;
constexpr const char* interruption = "{\"do\":\"interrupt\"}\n";  // see request_reader.h
constexpr std::size_t most_unsent = std::size_t{8} << 20;

// The environment of this process, except for the variables that select the cluster and the
// console.
std::vector<std::string> environment_for(const ClusterAddress& cluster,
                                         const std::string& state_dir) {
  // A token is in the environment of this process, which the program inherits.
  const bool by_file = !cluster.by_token && !cluster.key_path.empty();
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const auto is = [&](std::string_view name) {
      return variable.starts_with(name) && variable.substr(name.size()).starts_with('=');
    };
    if (is("MOBULA_ADDRESS") || is("MOBULA_STATE_DIR") || is("MOBULA_CONSOLE_FD")) continue;
    if (by_file && is("MOBULA_KEY_FILE")) continue;
    variables.emplace_back(variable);
  }
  variables.push_back("MOBULA_ADDRESS=" + cluster.address);
  variables.push_back("MOBULA_STATE_DIR=" + state_dir);
  if (by_file) variables.push_back("MOBULA_KEY_FILE=" + cluster.key_path);
  variables.push_back(fmt::format("MOBULA_CONSOLE_FD={}", socket_number));
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& each : words) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

int spawn(pid_t& pid, std::vector<std::string> words, std::vector<std::string> variables,
          int socket, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (output >= 0) {
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  }
  ::posix_spawn_file_actions_adddup2(&actions, socket, socket_number);
  // Ctrl-C is handled by the console.
  sigset_t defaults;
  ::sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGPIPE, SIGWINCH}) ::sigaddset(&defaults, number);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  auto argv = pointers_to(words);
  auto envp = pointers_to(variables);
  const int code =
      ::posix_spawnp(&pid, argv.front(), &actions, &attributes, argv.data(), envp.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return code;
}

}  // namespace

Result<UserProgram> UserProgram::start(const std::vector<std::string>& words,
                                       const ClusterAddress& cluster, const std::string& state_dir,
                                       int output) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return errno_failure("create a socket", errno);
  Fd own(ends[0]);
  const Fd theirs(ends[1]);
  pid_t pid = 0;
  if (const int code = spawn(pid, words, environment_for(cluster, state_dir), theirs.get(), output);
      code != 0) {
    return failure(ErrorCode::not_found,
                   fmt::format("run {}: {}; give the path of a program that uses Mobula",
                               words.front(), std::strerror(code)));
  }
  return UserProgram(std::move(own), pid, words.front());
}

UserProgram::UserProgram(UserProgram&& other) noexcept
    : socket_(std::move(other.socket_)),
      pid_(std::exchange(other.pid_, 0)),
      name_(std::move(other.name_)),
      answered_(other.answered_),
      unsent_(std::move(other.unsent_)),
      text_(std::move(other.text_)),
      scanned_(other.scanned_),
      owed_(other.owed_),
      interruptible_(other.interruptible_) {}

namespace {

// Reports whether the process exits within `ms`.
bool end_timeout(pid_t pid, int ms) {
  const Fd ending(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  pollfd item{ending.get(), POLLIN, 0};
  const Time deadline = monotonic_now() + std::chrono::milliseconds(ms);
  int ready = 0;
  while (ending && ready <= 0 && monotonic_now() < deadline)
    ready = ::poll(&item, 1, std::min(ms, 100));
  return ready > 0;
}

}  // namespace

UserProgram::~UserProgram() {
  if (pid_ == 0) return;
  // It ends its job by itself when its socket closes, unless it does not serve the socket.
  const bool serves = socket_ && answered_;
  socket_.reset();
  if (!end_timeout(pid_, serves ? ending_ms : 0)) ::kill(pid_, SIGTERM);
  if (!end_timeout(pid_, ended_ms)) ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Its socket has closed; the process may still run.
Failure UserProgram::why_ended() {
  socket_.reset();
  if (!end_timeout(pid_, ended_ms)) {
    return failure(
        ErrorCode::unavailable,
        fmt::format("use: {} closed its connection and still runs as process {}; `use` ends it and "
                    "restarts a program",
                    name_, pid_));
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  const std::string how = WIFSIGNALED(status) ? fmt::format("by signal {}", WTERMSIG(status))
                                              : fmt::format("with code {}", WEXITSTATUS(status));
  return failure(
      ErrorCode::unavailable,
      fmt::format("use: {} exited {}; {}", name_, how,
                  answered_
                      ? "`use` restarts it"
                      : "it must call mobula::init, preferably as the first statement of main"));
}

bool UserProgram::send_some() {
  std::size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t count = ::send(socket_.get(), unsent_.data() + sent, unsent_.size() - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  unsent_.erase(0, sent);
  return true;
}

bool UserProgram::receive_some() {
  for (;;) {
    std::array<char, 65536> block;
    const ssize_t count = ::recv(socket_.get(), block.data(), block.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0) return false;
    text_.append(block.data(), static_cast<std::size_t>(count));
    return true;
  }
}

std::optional<std::string> UserProgram::take_line() {
  const auto end = text_.find('\n', scanned_);
  if (end == std::string::npos) {
    scanned_ = text_.size();
    return std::nullopt;
  }
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 1);
  scanned_ = 0;
  return line;
}

// The program ends the calls in which it is blocked. Their replies are discarded.
void UserProgram::interrupt() {
  if (!interruptible_ || unsent_.size() > most_unsent) return;
  unsent_ += interruption;
  (void)send_some();  // the next request reports a closed socket
}

Result<Json> UserProgram::request(const Json& request, const WaitReady& wait) {
  if (pid_ == 0 || !socket_)
    return failure(ErrorCode::unavailable, name_ + " has exited; `use` restarts it");
  if (unsent_.size() > most_unsent) {
    return failure(
        ErrorCode::unavailable,
        fmt::format("send to {}: an earlier request is still not accepted; `use` restarts it",
                    name_));
  }
  unsent_ += json_text(request) + "\n";
  ++owed_;
  Time progress = monotonic_now();
  for (;;) {
    const std::size_t before = unsent_.size();
    // Receives while it sends, so that neither side blocks the other.
    if (!send_some()) return why_ended();
    if (unsent_.size() < before) progress = monotonic_now();
    while (const auto answer = take_line()) {
      answered_ = true;
      if (--owed_ > 0) continue;
      Json json = Json::parse(*answer, nullptr, false);
      if (!json.is_object()) return failure(ErrorCode::corrupt, name_ + ": the reply is not JSON");
      if (json.contains("interruptible")) interruptible_ = true;
      return json;
    }
    if (text_.size() > longest_answer)
      return failure(ErrorCode::corrupt, name_ + ": the reply is too long");
    if (!unsent_.empty() && monotonic_now() - progress > takes_nothing) {
      return failure(ErrorCode::unavailable,
                     fmt::format("send to {}: nothing accepted for {} s; `use` restarts it", name_,
                                 takes_nothing / 1s));
    }
    if (!wait(socket_.get(), static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT)))) {
      interrupt();
      return failure(ErrorCode::cancelled, "interrupted");
    }
    const std::size_t received = text_.size();
    if (!receive_some()) return why_ended();
    if (text_.size() > received) progress = monotonic_now();
  }
}

}  // namespace mobula::internal::cli::repl
