#include "tune/runtime/trial/child_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mobula::internal::tune {
namespace {

// The socket in the child: a shell such as dash knows descriptors of one digit alone.
constexpr int report_number = 3;

Failure start_fault(const std::string& program, int error) {
  return failure(ErrorCode::unavailable,
                 fmt::format("start program {}: {}", program, std::strerror(error)));
}

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A pair of descriptors, close-on-exec: the end of this process does not block.
Result<std::pair<Fd, Fd>> make_pair(const std::string& program, bool both_ways) {
  std::array<int, 2> ends{};
  const int made = both_ways ? ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data())
                             : ::pipe2(ends.data(), O_CLOEXEC);
  if (made != 0) return start_fault(program, errno);
  std::pair pair{Fd(ends[0]), Fd(ends[1])};
  ::fcntl(pair.first.get(), F_SETFL, O_NONBLOCK);
  return pair;
}

// Attributes and actions of posix_spawn.
struct SpawnPlan {
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

}  // namespace

Result<ChildProgram> ChildProgram::start(ProgramStart start) {
  const std::string program = start.argv.front();
  auto reports = make_pair(program, true);
  if (!reports) return reports.error();
  auto errors = make_pair(program, false);
  if (!errors) return errors.error();
  auto output = make_pair(program, false);
  if (!output) return output.error();

  SpawnPlan plan;
  ::posix_spawn_file_actions_adddup2(&plan.actions, errors->second.get(), STDERR_FILENO);
  if (start.read_output)
    ::posix_spawn_file_actions_adddup2(&plan.actions, output->second.get(), STDOUT_FILENO);
  // Last: the descriptors of this process may have the same number.
  ::posix_spawn_file_actions_adddup2(&plan.actions, reports->second.get(), report_number);
  start.environment.push_back(fmt::format("{}={}", start.report_variable, report_number));
  const std::vector<char*> argv = pointers_of(start.argv);
  const std::vector<char*> environment = pointers_of(start.environment);

  ChildProgram child;
  const int error = ::posix_spawnp(&child.process_, program.c_str(), &plan.actions,
                                   &plan.attributes, argv.data(), environment.data());
  if (error != 0) {
    child.process_ = -1;
    return start_fault(program, error);
  }
  child.self_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, child.process_, 0U)));
  if (!child.self_) return start_fault(program, errno);
  child.reports_ = std::move(reports->first);
  child.errors_ = std::move(errors->first);
  if (start.read_output) child.output_ = std::move(output->first);
  return child;
}

ChildProgram::~ChildProgram() {
  if (!self_ || process_ < 0) return;
  ::kill(-process_, SIGKILL);
  wait();
}

void ChildProgram::answer(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const auto sent =
      ::send(reports_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ChildProgram::terminate(std::chrono::milliseconds grace) {
  if (process_ < 0) return;
  ::kill(-process_, SIGTERM);
  pollfd exit{.fd = exit_fd(), .events = POLLIN, .revents = 0};
  ::poll(&exit, 1, static_cast<int>(grace.count()));
  ::kill(-process_, SIGKILL);
  wait();
}

int ChildProgram::wait() {
  pollfd exit{.fd = exit_fd(), .events = POLLIN, .revents = 0};
  while (::poll(&exit, 1, -1) < 0 && errno == EINTR) {
  }
  // Before the process is reaped, no other group has its number.
  ::kill(-process_, SIGKILL);
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
  return status;
}

}  // namespace mobula::internal::tune
