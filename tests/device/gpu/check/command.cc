#include "device/gpu/check/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/fd.h"

extern "C" char** environ;

namespace mobula::internal::gpu_check {
namespace {

constexpr std::size_t kept_bytes = 64u << 10;

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> all;
  for (const auto& [name, value] : variables) {
    if (!value.empty()) all.push_back(name + "=" + value);
  }
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string variable = *each;
    if (!variables.contains(variable.substr(0, variable.find('=')))) all.push_back(variable);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& each : words) all.push_back(each.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

CommandEnd run_command(const std::vector<std::string>& words,
                       const std::map<std::string, std::string>& variables, Duration limit,
                       const std::function<void(const std::string&)>& on_line) {
  const Time until = monotonic_now() + limit;
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const Fd from(ends[0]);
  auto arguments = words, environment = environment_with(variables);
  const auto argv = pointers_to(arguments), envp = pointers_to(environment);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  if (child < 0) return {};
  CommandEnd end;
  std::string line;
  int status = 0;
  bool exited = false;
  // A daemon that the program started may keep the pipe open, so the exit of the program decides.
  while (true) {
    if (!exited) exited = ::waitpid(child, &status, WNOHANG) == child;
    const auto left_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - monotonic_now()).count();
    if (left_ms <= 0 && !exited) break;
    pollfd readable{from.get(), POLLIN, 0};
    const int found =
        ::poll(&readable, 1, exited ? 0 : static_cast<int>(std::min<std::int64_t>(left_ms, 10)));
    if (found < 0 && errno != EINTR) break;
    if (found == 0 && exited) break;
    if (found <= 0) continue;
    char text[4096];
    const ssize_t count = ::read(from.get(), text, sizeof text);
    if (count <= 0) {
      if (exited) break;
      ::usleep(1'000);
      continue;
    }
    end.out.append(text, static_cast<std::size_t>(count));
    if (end.out.size() > kept_bytes) end.out.erase(0, end.out.size() - kept_bytes);
    line.append(text, static_cast<std::size_t>(count));
    for (std::size_t at = 0; (at = line.find('\n')) != std::string::npos; line.erase(0, at + 1)) {
      if (on_line) on_line(line.substr(0, at));
    }
  }
  if (!exited) {
    ::kill(child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return end;
  }
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return end;
}

}  // namespace mobula::internal::gpu_check
