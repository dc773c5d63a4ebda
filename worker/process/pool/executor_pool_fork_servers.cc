// The part of ExecutorPool that manages fork servers and requests forks from them.
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <utility>

#include "base/logging/log.h"
#include "worker/process/pool/executor_pool.h"

namespace mobula::internal::worker {
namespace {

// Unanswered requests per fork server. Further requests wait in the pool, where a crash of the fork
// server does not affect them.
constexpr std::size_t requests_ahead = 8;
// A request may have crashed its fork server: after two attempts the executor starts without one.
constexpr int attempts_limit = 2;

}  // namespace

// Returns 0 and `why_not` if no fork server can start.
ExecutorPool::Serial ExecutorPool::fork_server_for(const ForkServerKey& key, std::string& why_not) {
  if (const auto found = fork_server_serials_.find(key); found != fork_server_serials_.end()) {
    fork_servers_.at(found->second).last_use = ++uses_;
    return found->second;
  }
  retire_idle_fork_server();
  auto pipe = OutputPipe::create();
  if (!pipe) {
    why_not = pipe.error().text;
    return 0;
  }
  auto program = start_fork_server(key, options_.environment, pipe->second.get());
  if (!program) {
    why_not = program.error().text;
    return 0;
  }
  const Serial serial = ++last_serial_;
  auto watched = poll_.add(program->control.get(), serial, PollSet::Source::fork_server_socket);
  if (watched) watched = poll_.add(program->pidfd.get(), serial, PollSet::Source::exit);
  if (watched) watched = poll_.add(pipe->first.fd(), serial, PollSet::Source::output);
  if (!watched) {
    signal_tree(program->identity, SIGKILL);
    why_not = watched.error().text;
    return 0;
  }
  ForkServer fork_server{
      .key = key, .program = std::move(*program), .output = std::move(pipe->first)};
  fork_server.deadline = monotonic_now() + options_.start_timeout;
  fork_server.last_use = ++uses_;
  fork_servers_.emplace(serial, std::move(fork_server));
  fork_server_serials_.emplace(key, serial);
  return serial;
}

// At the limit, ends the longest unused idle fork server. If none is idle, the limit is exceeded.
void ExecutorPool::retire_idle_fork_server() {
  if (fork_server_serials_.size() < options_.max_fork_servers) return;
  Serial oldest = 0;
  for (const auto& [key, serial] : fork_server_serials_) {
    const ForkServer& fork_server = fork_servers_.at(serial);
    if (!fork_server.waiting.empty() || !fork_server.requested.empty()) continue;
    if (oldest == 0 || fork_server.last_use < fork_servers_.at(oldest).last_use) oldest = serial;
  }
  if (oldest != 0) leave(oldest);
}

void ExecutorPool::send_requests(Serial serial) {
  ForkServer& fork_server = fork_servers_.at(serial);
  while (fork_server.stage == ForkServerStage::ready && fork_server.running &&
         !fork_server.waiting.empty() && fork_server.requested.size() < requests_ahead) {
    const Serial next = fork_server.waiting.front();
    Executor& executor = executors_.at(next);
    const int fds[] = {executor.link.get(), executor.output_end.get()};
    const auto sent = send_packet(fork_server.program.control.get(), encode(request_for(executor)),
                                  fds, MSG_DONTWAIT);
    // The socket is full or closed. A reply, the exit, or the next housekeeping continues here.
    if (!sent && sent.error().code != ErrorCode::invalid_argument) return;
    fork_server.waiting.pop_front();
    if (!sent) {
      fail_start(next, sent.error().text);
      continue;
    }
    executor.stage = Stage::requested;
    fork_server.requested.push_back(next);
  }
}

void ExecutorPool::read_fork_server(Serial serial) {
  ForkServer& fork_server = fork_servers_.at(serial);
  while (fork_server.program.control) {
    const auto packet = receive_packet(fork_server.program.control.get(), MSG_DONTWAIT);
    if (!packet && packet.error().code == ErrorCode::resource_exhausted) return;
    if (!packet || packet->bytes.empty()) {
      poll_.remove(fork_server.program.control.get());
      fork_server.program.control.reset();
      // A fork server that refused exits by itself. One that only closed its socket is useless.
      if (fork_server.stage != ForkServerStage::refused)
        signal_tree(fork_server.program.identity, SIGKILL);
      return;
    }
    if (const auto hello = decode_fork_server_hello(packet->bytes)) {
      take_hello(serial, *hello);
    } else if (const auto reply = decode_fork_reply(packet->bytes)) {
      take_reply(serial, *reply);
    }
  }
}

void ExecutorPool::take_hello(Serial serial, const ForkServerHello& hello) {
  ForkServer& fork_server = fork_servers_.at(serial);
  if (fork_server.stage != ForkServerStage::starting) return;
  fork_server.deadline.reset();
  fork_server.refusal = hello.refusal;
  if (hello.version != fork_server_wire_version) {
    fork_server.refusal =
        fmt::format("the program is built with another version of Mobula ({}, not {})",
                    hello.version, fork_server_wire_version);
  }
  if (fork_server.refusal.empty()) {
    fork_server.stage = ForkServerStage::ready;
    return send_requests(serial);
  }
  fork_server.stage = ForkServerStage::refused;
  log_info("executors of {} are started by exec: {}", fork_server.key.program, fork_server.refusal);
  for (const Serial waiting : std::exchange(fork_server.waiting, {})) start_directly(waiting);
}

void ExecutorPool::take_reply(Serial serial, const ForkReply& reply) {
  ForkServer& fork_server = fork_servers_.at(serial);
  const auto known = serials_.find(reply.process);
  const Serial executor = known == serials_.end() ? 0 : known->second;
  const auto requested =
      std::find(fork_server.requested.begin(), fork_server.requested.end(), executor);
  if (requested == fork_server.requested.end()) return;
  fork_server.requested.erase(requested);
  if (reply.pid <= 0) {
    fail_start(executor, reply.error);
  } else {
    // The process is an unreaped child, so its pid still identifies it.
    Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, reply.pid, 0)));
    const auto stat = read_stat(reply.pid);
    if (pidfd && stat && stat->parent == ::getpid()) {
      adopt(executor, stat->identity, std::move(pidfd));
    } else {
      fail_start(executor,
                 fmt::format("its process {} did not become a child of the agent", reply.pid));
    }
  }
  send_requests(serial);
}

void ExecutorPool::fork_server_ended(Serial serial) {
  read_fork_server(serial);
  ForkServer& fork_server = fork_servers_.at(serial);
  const auto cause = reap_child(fork_server.program.identity.pid);
  if (!cause) return;
  poll_.remove(fork_server.program.pidfd.get());
  fork_server.program.pidfd.reset();
  if (fork_server.program.control) poll_.remove(fork_server.program.control.get());
  fork_server.program.control.reset();
  poll_.remove(fork_server.output.fd());
  fork_server.output.finish(nullptr);
  fork_server.running = false;
  fork_server.deadline.reset();
  ended_fork_servers_.insert(fork_server.program.identity.pid);
  if (fork_server.stage == ForkServerStage::refused) return;

  forget_key_of(serial);
  const ForkServer gone = std::move(fork_server);
  fork_servers_.erase(serial);
  std::vector<Serial> unserved(gone.requested.begin(), gone.requested.end());
  unserved.insert(unserved.end(), gone.waiting.begin(), gone.waiting.end());
  if (gone.stage == ForkServerStage::starting) {
    const std::string reason = describe_early_end(*cause, gone.overdue, gone.output);
    const bool never_runs = cannot_run(gone.key, *cause);
    for (const Serial executor : unserved) fail_start(executor, reason, never_runs);
    return;
  }
  if (gone.stage != ForkServerStage::leaving) {
    log_warn("the fork server of {} ended ({})", gone.key.program, cause->to_string());
  }
  // An executor without a reply has not run: it waits for a packet that follows the reply.
  for (const Serial executor : unserved) {
    if (++executors_.at(executor).attempts < attempts_limit)
      begin(executor);
    else
      start_directly(executor);
  }
}

void ExecutorPool::retire(const ForkServerKey& key) {
  const auto found = fork_server_serials_.find(key);
  if (found == fork_server_serials_.end()) return;
  const Serial serial = found->second;
  fork_server_serials_.erase(found);
  fork_servers_.at(serial).retiring = true;
  leave_if_retired(serial);
  schedule();
}

void ExecutorPool::leave_if_retired(Serial serial) {
  const ForkServer& fork_server = fork_servers_.at(serial);
  const bool idle = fork_server.waiting.empty() && fork_server.requested.empty();
  if (fork_server.retiring && idle && fork_server.stage != ForkServerStage::leaving) leave(serial);
}

// Hides the fork server from later starts.
void ExecutorPool::forget_key_of(Serial serial) {
  const auto found = fork_server_serials_.find(fork_servers_.at(serial).key);
  if (found != fork_server_serials_.end() && found->second == serial)
    fork_server_serials_.erase(found);
}

void ExecutorPool::leave(Serial serial) {
  forget_key_of(serial);
  ForkServer& fork_server = fork_servers_.at(serial);
  fork_server.stage = ForkServerStage::leaving;
  if (fork_server.running) {
    signal_tree(fork_server.program.identity, SIGKILL);
  } else {
    fork_servers_.erase(serial);
  }
}

}  // namespace mobula::internal::worker
