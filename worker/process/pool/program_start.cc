#include "worker/process/pool/program_start.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "protocol/messages/fork_server_wire.h"

namespace mobula::internal::worker {
namespace {

struct Sockets {
  Fd own;
  Fd theirs;
};

Result<Sockets> make_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return errno_failure("make a socket pair for a program", errno);
  }
  Sockets sockets{Fd(ends[0]), Fd(ends[1])};
  if (::fcntl(sockets.own.get(), F_SETFL, O_NONBLOCK) != 0) {
    return errno_failure("set up a socket pair for a program", errno);
  }
  return sockets;
}

Result<StartedProgram> start_program(const ForkServerKey& key, const std::vector<std::string>& base,
                                     std::vector<EnvironmentVariable> settings,
                                     const char* fd_variable, int output_fd) {
  auto sockets = make_sockets();
  if (!sockets) return sockets.error();
  settings.emplace_back(fd_variable, std::to_string(sockets->theirs.get()));

  Launch what;
  what.program = key.program;
  what.argv = key.argv.empty() ? std::vector<std::string>{key.program} : key.argv;
  what.environment = with_variables(with_variables(base, key.environment), settings);
  what.working_directory = key.working_directory;
  what.scratch_directory = key.scratch_directory;
  what.output_fd = output_fd;
  what.control_fd = sockets->theirs.get();
  auto launched = launch(what);
  if (!launched) return launched.error();
  // An unreaped child has an entry in /proc, at least as a zombie.
  const auto stat = read_stat(launched->pid);
  MOBULA_CHECK(stat.has_value(), "a child of ours is listed in /proc");
  return StartedProgram{stat->identity, std::move(launched->pidfd), std::move(sockets->own)};
}

}  // namespace

Result<StartedProgram> start_fork_server(const ForkServerKey& key,
                                         const std::vector<std::string>& base, int output_fd) {
  // Reserves space in the environment for the variables of later executors.
  return start_program(key, base, marks_of(SlotId(), ProcessId()), fork_server_fd_variable,
                       output_fd);
}

Result<StartedProgram> start_executor(const ForkServerKey& key,
                                      const std::vector<std::string>& base,
                                      std::vector<EnvironmentVariable> settings, int output_fd) {
  return start_program(key, base, std::move(settings), executor_fd_variable, output_fd);
}

std::vector<EnvironmentVariable> marks_of(SlotId slot, ProcessId process) {
  return {{slot_variable, slot.hex()}, {process_variable, process.hex()}};
}

}  // namespace mobula::internal::worker
