// The part of ExecutorPool that manages fork servers and requests forks from them.
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <utility>

#include "base/log.h"
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
ExecutorPool::Serial ExecutorPool::nursery_for(const NurseryKey& key, std::string& why_not) {
  if (const auto found = nursery_serials_.find(key); found != nursery_serials_.end()) {
    nurseries_.at(found->second).last_use = ++uses_;
    return found->second;
  }
  make_room_for_nursery();
  auto pipe = OutputPipe::create();
  if (!pipe) {
    why_not = pipe.error().text;
    return 0;
  }
  auto program = start_nursery(key, options_.environment, pipe->second.get());
  if (!program) {
    why_not = program.error().text;
    return 0;
  }
  const Serial serial = ++last_serial_;
  auto watched = poll_.add(program->control.get(), serial, PollSet::Source::nursery_socket);
  if (watched) watched = poll_.add(program->pidfd.get(), serial, PollSet::Source::exit);
  if (watched) watched = poll_.add(pipe->first.fd(), serial, PollSet::Source::output);
  if (!watched) {
    signal_tree(program->stamp, SIGKILL);
    why_not = watched.error().text;
    return 0;
  }
  Nursery nursery{.key = key, .program = std::move(*program), .output = std::move(pipe->first)};
  nursery.deadline = monotonic_now() + options_.start_limit;
  nursery.last_use = ++uses_;
  nurseries_.emplace(serial, std::move(nursery));
  nursery_serials_.emplace(key, serial);
  return serial;
}

// At the limit, ends the longest unused idle fork server. If none is idle, the limit is exceeded.
void ExecutorPool::make_room_for_nursery() {
  if (nursery_serials_.size() < options_.max_nurseries) return;
  Serial oldest = 0;
  for (const auto& [key, serial] : nursery_serials_) {
    const Nursery& nursery = nurseries_.at(serial);
    if (!nursery.waiting.empty() || !nursery.requested.empty()) continue;
    if (oldest == 0 || nursery.last_use < nurseries_.at(oldest).last_use) oldest = serial;
  }
  if (oldest != 0) leave(oldest);
}

void ExecutorPool::send_requests(Serial serial) {
  Nursery& nursery = nurseries_.at(serial);
  while (nursery.stage == NurseryStage::ready && nursery.running && !nursery.waiting.empty() &&
         nursery.requested.size() < requests_ahead) {
    const Serial next = nursery.waiting.front();
    Executor& executor = executors_.at(next);
    const int fds[] = {executor.link.get(), executor.output_end.get()};
    const auto sent = send_packet(nursery.program.control.get(), encode(request_for(executor)), fds,
                                  MSG_DONTWAIT);
    // The socket is full or closed. A reply, the exit, or the next housekeeping continues here.
    if (!sent && sent.error().code != ErrorCode::invalid_argument) return;
    nursery.waiting.pop_front();
    if (!sent) {
      fail_start(next, sent.error().text);
      continue;
    }
    executor.stage = Stage::requested;
    nursery.requested.push_back(next);
  }
}

void ExecutorPool::read_nursery(Serial serial) {
  Nursery& nursery = nurseries_.at(serial);
  while (nursery.program.control) {
    const auto packet = receive_packet(nursery.program.control.get(), MSG_DONTWAIT);
    if (!packet && packet.error().code == ErrorCode::resource_exhausted) return;
    if (!packet || packet->bytes.empty()) {
      poll_.remove(nursery.program.control.get());
      nursery.program.control.reset();
      // A fork server that refused exits by itself. One that only closed its socket is useless.
      if (nursery.stage != NurseryStage::refused) signal_tree(nursery.program.stamp, SIGKILL);
      return;
    }
    if (const auto hello = decode_nursery_hello(packet->bytes)) {
      take_hello(serial, *hello);
    } else if (const auto reply = decode_fork_reply(packet->bytes)) {
      take_reply(serial, *reply);
    }
  }
}

void ExecutorPool::take_hello(Serial serial, const ForkServerHello& hello) {
  Nursery& nursery = nurseries_.at(serial);
  if (nursery.stage != NurseryStage::starting) return;
  nursery.deadline.reset();
  nursery.refusal = hello.refusal;
  if (hello.version != nursery_wire_version) {
    nursery.refusal =
        fmt::format("the program is built with another version of Mobula ({}, not {})",
                    hello.version, nursery_wire_version);
  }
  if (nursery.refusal.empty()) {
    nursery.stage = NurseryStage::ready;
    return send_requests(serial);
  }
  nursery.stage = NurseryStage::refused;
  log_info("executors of {} are started by exec: {}", nursery.key.program, nursery.refusal);
  for (const Serial waiting : std::exchange(nursery.waiting, {})) start_directly(waiting);
}

void ExecutorPool::take_reply(Serial serial, const ForkReply& reply) {
  Nursery& nursery = nurseries_.at(serial);
  const auto known = serials_.find(reply.process);
  const Serial executor = known == serials_.end() ? 0 : known->second;
  const auto asked = std::find(nursery.requested.begin(), nursery.requested.end(), executor);
  if (asked == nursery.requested.end()) return;
  nursery.requested.erase(asked);
  if (reply.pid <= 0) {
    fail_start(executor, reply.error);
  } else {
    // The process is an unreaped child, so its pid still identifies it.
    Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, reply.pid, 0)));
    const auto stat = read_stat(reply.pid);
    if (pidfd && stat && stat->parent == ::getpid()) {
      adopt(executor, stat->stamp, std::move(pidfd));
    } else {
      fail_start(executor,
                 fmt::format("its process {} did not become a child of the agent", reply.pid));
    }
  }
  send_requests(serial);
}

void ExecutorPool::nursery_ended(Serial serial) {
  read_nursery(serial);
  Nursery& nursery = nurseries_.at(serial);
  const auto cause = reap_child(nursery.program.stamp.pid);
  if (!cause) return;
  poll_.remove(nursery.program.pidfd.get());
  nursery.program.pidfd.reset();
  if (nursery.program.control) poll_.remove(nursery.program.control.get());
  nursery.program.control.reset();
  poll_.remove(nursery.output.fd());
  nursery.output.finish(nullptr);
  nursery.running = false;
  nursery.deadline.reset();
  ended_nurseries_.insert(nursery.program.stamp.pid);
  if (nursery.stage == NurseryStage::refused) return;

  forget_key_of(serial);
  const Nursery gone = std::move(nursery);
  nurseries_.erase(serial);
  std::vector<Serial> unserved(gone.requested.begin(), gone.requested.end());
  unserved.insert(unserved.end(), gone.waiting.begin(), gone.waiting.end());
  if (gone.stage == NurseryStage::starting) {
    const std::string reason = describe_early_end(*cause, gone.overdue, gone.output);
    for (const Serial executor : unserved) fail_start(executor, reason, cause->cannot_run());
    return;
  }
  if (gone.stage != NurseryStage::leaving) {
    log_warn("the nursery of {} ended ({})", gone.key.program, cause->to_string());
  }
  // An executor without a reply has not run: it waits for a packet that follows the reply.
  for (const Serial executor : unserved) {
    if (++executors_.at(executor).attempts < attempts_limit)
      begin(executor);
    else
      start_directly(executor);
  }
}

void ExecutorPool::retire(const NurseryKey& key) {
  const auto found = nursery_serials_.find(key);
  if (found == nursery_serials_.end()) return;
  const Serial serial = found->second;
  nursery_serials_.erase(found);
  nurseries_.at(serial).retiring = true;
  leave_if_retired(serial);
  schedule();
}

void ExecutorPool::leave_if_retired(Serial serial) {
  const Nursery& nursery = nurseries_.at(serial);
  const bool idle = nursery.waiting.empty() && nursery.requested.empty();
  if (nursery.retiring && idle && nursery.stage != NurseryStage::leaving) leave(serial);
}

// Hides the fork server from later starts.
void ExecutorPool::forget_key_of(Serial serial) {
  const auto found = nursery_serials_.find(nurseries_.at(serial).key);
  if (found != nursery_serials_.end() && found->second == serial) nursery_serials_.erase(found);
}

void ExecutorPool::leave(Serial serial) {
  forget_key_of(serial);
  Nursery& nursery = nurseries_.at(serial);
  nursery.stage = NurseryStage::leaving;
  if (nursery.running) {
    signal_tree(nursery.program.stamp, SIGKILL);
  } else {
    nurseries_.erase(serial);
  }
}

}  // namespace mobula::internal::worker
