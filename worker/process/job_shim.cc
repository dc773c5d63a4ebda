#include "worker/process/job_shim.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <optional>

#include "protocol/messages/fork_server_wire.h"
#include "worker/process/orphans.h"

namespace mobula::internal::worker {
namespace {

constexpr int job_shim_failed = 70;                           // EX_SOFTWARE of sysexits.h
constexpr DecodeLimits order_limits{.max_bytes = 64u << 20};  // more than exec accepts

std::string as_text(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Result<Fd> memory_file(const Bytes& bytes) {
  Fd file(::memfd_create("mobula-job", MFD_CLOEXEC));
  if (!file) return errno_failure("make a memory file for a command", errno);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t size =
        ::pwrite(file.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return errno_failure("write the command for its shim", errno);
    at += static_cast<std::size_t>(size);
  }
  return file;
}

Result<JobShimRequest> read_order(int control) {
  auto packet = receive_packet(control, 0);
  if (!packet) return packet.error();
  if (packet->fds.size() != 1) return failure(ErrorCode::unavailable, "the agent has ended");
  struct stat file {};
  if (::fstat(packet->fds[0].get(), &file) != 0) return errno_failure("read the command", errno);
  Bytes bytes(static_cast<std::size_t>(file.st_size));
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t size =
        ::pread(packet->fds[0].get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return errno_failure("read the command", errno);
    at += static_cast<std::size_t>(size);
  }
  return decode<JobShimRequest>(bytes, order_limits);
}

// Ignored if the agent has exited.
void say(int control, const JobShimEvent& word) {
  (void)send_packet(control, as_text(encode(word)), {}, 0);
}

Result<PidIdentity> start_under_this(JobShimRequest order) {
  const Fd output(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!output) return errno_failure("hand on the output", errno);
  Launch what;
  what.program = std::move(order.program);
  what.argv = std::move(order.argv);
  what.environment = std::move(order.environment);
  what.working_directory = std::move(order.working_directory);
  what.scratch_directory = std::move(order.scratch_directory);
  what.needs_working_directory = order.needs_working_directory;
  what.output_fd = output.get();
  const auto launched = launch(what);
  if (!launched) return launched.error();
  // An unreaped child has an entry in /proc, at least as a zombie.
  const auto stat = read_stat(launched->pid);
  MOBULA_CHECK(stat.has_value(), "a child of ours is listed in /proc");
  return stat->identity;
}

// True if any child remains.
bool reap_children(pid_t command, int control) {
  int status = 0;
  pid_t pid = 0;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == command) say(control, JobShimEvent{true, pid, 0, status});
  }
  return pid == 0;
}

int complain(const std::string& why) {
  std::fprintf(stderr, "mobula: the command cannot be started: %s\n", why.c_str());
  return job_shim_failed;
}

}  // namespace

Result<StartedJobShim> start_job_shim(const std::vector<std::string>& job_shim,
                                      std::vector<std::string> environment,
                                      const JobShimRequest& order, int output_fd) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return errno_failure("make a socket pair for the shim of a command", errno);
  }
  Fd own(ends[0]);
  const Fd theirs(ends[1]);
  if (::fcntl(own.get(), F_SETFL, O_NONBLOCK) != 0)
    return errno_failure("set up the socket to a shim", errno);
  const auto file = memory_file(encode(order));
  if (!file) return file.error();
  // Sent before the reader exists: the socket buffer holds this one packet.
  const int fds[] = {file->get()};
  if (auto sent = send_packet(own.get(), "order", fds, MSG_DONTWAIT); !sent) return sent.error();
  Launch what;
  what.program = job_shim.front();
  what.argv = job_shim;
  what.argv.front() = "mobula";  // name in process lists; the next argument names the role
  what.argv.push_back(std::to_string(theirs.get()));
  what.environment = std::move(environment);
  what.working_directory = "/";
  what.output_fd = output_fd;
  what.control_fd = theirs.get();
  auto launched = launch(what);
  if (!launched) return launched.error();
  // An unreaped child has an entry in /proc, at least as a zombie.
  const auto stat = read_stat(launched->pid);
  MOBULA_CHECK(stat.has_value(), "a child of ours is listed in /proc");
  return StartedJobShim{stat->identity, std::move(launched->pidfd), std::move(own)};
}

Result<std::vector<JobShimEvent>> read_job_shim(int control) {
  std::vector<JobShimEvent> words;
  for (;;) {
    const auto packet = receive_packet(control, MSG_DONTWAIT);
    if (!packet && packet.error().code == ErrorCode::resource_exhausted) return words;
    const bool closed = !packet || packet->bytes.empty();
    if (closed && words.empty())
      return failure(ErrorCode::not_found, "the job shim sends no more messages");
    if (closed) return words;
    auto word = decode<JobShimEvent>(as_bytes_of(packet->bytes));
    if (!word) return word.error();
    words.push_back(std::move(*word));
  }
}

int run_job_shim(const std::string& control_fd) {
  int number = -1;
  const auto parsed =
      std::from_chars(control_fd.data(), control_fd.data() + control_fd.size(), number);
  if (parsed.ec != std::errc() || ::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) {
    return complain("job-shim is for agents");
  }
  const Fd control(number);
  ::prctl(PR_SET_NAME, "mobula-shim");
  // Blocks all signals: signals to the command are not meant for the shim, and the end of the agent
  // shows on the socket.
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t child_ended;
  ::sigemptyset(&child_ended);
  ::sigaddset(&child_ended, SIGCHLD);
  const Fd children(::signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!children) return complain("it cannot be watched");
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    return complain("its process cannot become a subreaper");
  ::prctl(PR_SET_PDEATHSIG, 0);
  auto order = read_order(control.get());
  if (!order) return complain(order.error().text);
  const auto command = start_under_this(std::move(*order));
  if (!command) return complain(command.error().text);
  say(control.get(), JobShimEvent{false, command->pid, command->start_time, 0});
  for (;;) {
    if (!reap_children(command->pid, control.get())) return 0;
    std::array waits{pollfd{children.get(), POLLIN, 0}, pollfd{control.get(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR)
      return complain("it cannot be watched");
    signalfd_siginfo seen{};
    while (::read(children.get(), &seen, sizeof seen) == sizeof seen) {
    }
    if (waits[1].revents == 0) continue;
    end_all_children("mobula shim", nullptr);
    return 0;
  }
}

}  // namespace mobula::internal::worker
