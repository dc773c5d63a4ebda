#include "client/executor/fork_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <string_view>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include "client/api/untyped/language_host.h"
#include "client/executor/fork_check.h"
#include "protocol/messages/fork_server_wire.h"
#include "transport/bus/zmq_parts.h"

namespace mobula::internal::executor {
namespace {

std::optional<int> fd_from_environment(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int fd = -1;
  const auto parsed = std::from_chars(text, text + std::strlen(text), fd);
  if (parsed.ec != std::errc() || *parsed.ptr != '\0' || fd <= STDERR_FILENO) return std::nullopt;
  return fd;
}

// The inherited socket, hidden from programs that this process starts.
std::optional<Fd> take_socket(const char* variable) {
  const auto number = fd_from_environment(variable);
  ::unsetenv(variable);
  if (!number || ::fcntl(*number, F_SETFD, FD_CLOEXEC) != 0) return std::nullopt;
  return Fd(*number);
}

void flush_all() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

[[noreturn]] void refuse_to_run(const std::string& why) {
  const std::string line = "mobula: " + why + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(126);
}

// Overwrites the variable in place if the lengths are equal, so that other processes read the new
// value in /proc.
void set_marker(const char* variable, const std::string& value) {
  char* present = std::getenv(variable);
  if (present != nullptr && std::strlen(present) == value.size()) {
    std::memcpy(present, value.data(), value.size());
  } else {
    ::setenv(variable, value.c_str(), 1);
  }
}

void redirect_stdio(int log) {
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null || ::dup2(null.get(), STDIN_FILENO) < 0 || ::dup2(log, STDOUT_FILENO) < 0 ||
      ::dup2(log, STDERR_FILENO) < 0) {
    refuse_to_run(fmt::format("cannot redirect an executor's stdio: {}", std::strerror(errno)));
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

// The only function that makes a process an executor, whether it was forked or started directly.
ForkedExecutor become_executor(const ForkRequest& request, Fd link, const Fd& log) {
  set_marker(slot_variable, request.slot.hex());
  set_marker(process_variable, request.process.hex());
  for (const auto& [name, value] : request.environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::setsid();  // fails if the agent has already created the session
  redirect_stdio(log.get());
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) refuse_to_run("cannot tie an executor to its agent");
  // The agent may have died before that call, so that no signal would follow.
  if (::getppid() != request.agent_pid) refuse_to_run("the agent of this executor has exited");
  return ForkedExecutor{std::move(link), request.process, request.slot, request.seed};
}

struct Request {
  ForkRequest message;
  Fd link;
  Fd log;
};

// Empty when the agent has closed its end.
std::optional<Request> receive_request(int socket) {
  auto packet = receive_packet(socket, 0);
  if (!packet) refuse_to_run(packet.error().text);
  if (packet->bytes.empty()) return std::nullopt;
  auto message = decode_fork_request(packet->bytes);
  if (!message || packet->fds.size() != fork_server_fd_limit) {
    refuse_to_run("the agent sent a fork request that cannot be read: is it of another version?");
  }
  return Request{std::move(*message), std::move(packet->fds[0]), std::move(packet->fds[1])};
}

struct Pipe {
  Fd read;
  Fd write;
};

std::optional<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// Runs in the process between fork server and executor. It leaves the executor to the agent, the
// nearest subreaper, which becomes its parent.
[[noreturn]] void leave_child_behind(pid_t child, int error, const Fd& to_fork_server) {
  const std::array<std::int32_t, 2> outcome{static_cast<std::int32_t>(child), error};
  (void)!::write(to_fork_server.get(), outcome.data(), sizeof outcome);
  ::_exit(0);
}

// A process that shares its memory with another one is not registered for restartable sequences,
// nor is its fork. libc assumes that it is, and would keep returning the CPU of the fork server. No
// effect if it is registered.
void register_restartable_sequences() {
#if defined(RSEQ_SIG) && defined(SYS_rseq)
  constexpr unsigned area_bytes = 32;
  if (__rseq_size == 0) return;  // disabled
  auto* area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  ::syscall(SYS_rseq, area, area_bytes, 0, RSEQ_SIG);
#endif
}

struct ForkOutcome {
  bool in_executor = false;
  ForkReply reply;
  Fd release;  // in the fork server: one byte written here releases the executor
};

using client::call_hook;

void after_fork_in_parent() {
  const auto done = call_hook("after_fork_in_parent", &dynamic::Host::after_fork_in_parent);
  if (!done) refuse_to_run(done.error().text);
}

// Forks twice, so that the executor becomes a child of the agent. The process in between shares the
// memory of the fork server (vfork), because copying page tables is most of the cost of a fork. The
// executor waits for a byte that is sent after the agent can know of it, and exits if the byte
// never arrives.
ForkOutcome fork_executor(const ForkRequest& request) {
  ForkOutcome outcome;
  outcome.reply.process = request.process;
  auto pid_pipe = make_pipe();
  auto go_pipe = make_pipe();
  flush_all();
  if (const auto ready = call_hook("before_fork", &dynamic::Host::before_fork); !ready) {
    outcome.reply.error = fmt::format("fork of an executor: {}", ready.error().text);
    return outcome;
  }
  const pid_t between = pid_pipe && go_pipe ? ::vfork() : -1;
  if (between < 0) {
    outcome.reply.error = fmt::format("fork of an executor: {}", std::strerror(errno));
    after_fork_in_parent();
    return outcome;
  }
  if (between == 0) {
    const pid_t child = ::fork();
    if (child != 0) leave_child_behind(child, errno, pid_pipe->write);
    register_restartable_sequences();
    go_pipe->write.reset();
    char go = 0;
    if (::read(go_pipe->read.get(), &go, 1) != 1) ::_exit(0);
    const auto forked = call_hook("after_fork_in_child", &dynamic::Host::after_fork_in_child);
    if (!forked) refuse_to_run(forked.error().text);
    outcome.in_executor = true;
    return outcome;
  }
  after_fork_in_parent();
  std::array<std::int32_t, 2> report{-1, ECHILD};
  pid_pipe->write.reset();
  (void)!::read(pid_pipe->read.get(), report.data(), sizeof report);
  while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  outcome.reply.pid = report[0];
  if (report[0] <= 0) {
    outcome.reply.pid = 0;
    outcome.reply.error = fmt::format("fork of an executor: {}", std::strerror(report[1]));
    return outcome;  // no process waits for the byte
  }
  outcome.release = std::move(go_pipe->write);
  return outcome;
}

// The first ZeroMQ context makes libc load its name services. Loading them here saves each executor
// the work. A context without sockets has no threads, and it is destroyed at once.
void load_libraries_for_executors() { const zmq::context_t first(1); }

}  // namespace

StartedAs started_as() {
  if (fd_from_environment(fork_server_fd_variable)) return StartedAs::fork_server;
  if (fd_from_environment(executor_fd_variable)) return StartedAs::executor;
  return StartedAs::driver;
}

Result<void> check_fork_server_start(const ForkServerLimits& limits) {
  return judge_fork(inspect_own_process(), limits);
}

ForkedExecutor run_fork_server(const ForkServerLimits& limits) {
  auto socket = take_socket(fork_server_fd_variable);
  if (!socket) refuse_to_run("this process was not started as a fork server");
  ForkServerHello hello;
  load_libraries_for_executors();
  if (const auto checked = check_fork_server_start(limits); !checked)
    hello.refusal = checked.error().text;
  const auto said = send_packet(socket->get(), encode(hello), {}, 0);
  if (!said || !hello.refusal.empty()) ::_exit(0);

  while (auto request = receive_request(socket->get())) {
    ForkOutcome outcome = fork_executor(request->message);
    if (outcome.in_executor) {
      socket->reset();
      return become_executor(request->message, std::move(request->link), request->log);
    }
    if (!send_packet(socket->get(), encode(outcome.reply), {}, 0)) break;
    if (outcome.release) (void)!::write(outcome.release.get(), "g", 1);
  }
  ::_exit(0);
}

Result<ForkedExecutor> adopt_executor_from_environment() {
  auto socket = take_socket(executor_fd_variable);
  if (!socket) {
    return failure(ErrorCode::not_found, "the process was not started as an executor by an agent");
  }
  auto request = receive_request(socket->get());
  if (!request) {
    return failure(ErrorCode::unavailable, "the agent that started this executor has exited");
  }
  const ForkReply reply{request->message.process, static_cast<std::int32_t>(::getpid()), ""};
  ForkedExecutor self = become_executor(request->message, std::move(request->link), request->log);
  const auto said = send_packet(socket->get(), encode(reply), {}, 0);
  if (!said) return said.error();
  return self;
}

void leave_executor(int exit_code) {
  flush_all();
  ::_exit(exit_code);
}

}  // namespace mobula::internal::executor
