// The part of ExecutorPool that ends executors and finds their orphans.
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <utility>

#include "base/logging/log.h"
#include "worker/process/pool/executor_pool.h"

namespace mobula::internal::worker {
namespace {

constexpr Duration left_check_interval = 5ms;
constexpr Duration spared_check_interval = 50ms;  // for processes within their grace

}  // namespace

void ExecutorPool::kill(ProcessId process, Duration grace) {
  const auto found = serials_.find(process);
  if (found == serials_.end()) return;
  Executor& executor = executors_.at(found->second);
  executor.requested = true;
  if (executor.stage == Stage::waiting) {
    for (auto& [serial, fork_server] : fork_servers_)
      std::erase(fork_server.waiting, found->second);
    fail_start(found->second, "it was asked to end before it was started");
  } else if (executor.stage == Stage::starting && executor.job_shim) {
    // Its shim is about to report the start, and has no other child.
  } else if (executor.stage == Stage::starting ||
             (executor.stage == Stage::running && grace <= Duration(0))) {
    signal_all(executor, SIGKILL);
    executor.deadline.reset();
  } else if (executor.stage == Stage::running) {
    for (const PidIdentity& each : tree_of(executor)) {
      executor.signaled.insert(each);
      signal_process(each, SIGTERM);
    }
    if (!executor.job_shim) tell_escaped(executor);
    const Time end = monotonic_now() + grace;
    executor.deadline = executor.deadline ? std::min(*executor.deadline, end) : end;
  } else if (executor.stage == Stage::ending && executor.spare_until) {
    const Time now = monotonic_now();
    executor.spare_until = std::min(*executor.spare_until, now + std::max(grace, Duration(0)));
    executor.deadline = now;
  }
  // A requested fork has no pid yet: it is killed when it reports its start.
  schedule();
}

void ExecutorPool::executor_ended(Serial serial) {
  // It may have reported its start and exited right after.
  read_control(serial);
  Executor& executor = executors_.at(serial);
  if (!executor.pidfd) return;
  if (executor.job_shim) return job_shim_ended(serial);
  auto cause = reap_child(executor.identity.pid);
  if (!cause) return;
  poll_.remove(executor.pidfd.get());
  executor.pidfd.reset();
  over(executor, *cause);
}

void ExecutorPool::over(Executor& executor, const ExitCause& cause) {
  const Time now = monotonic_now();
  executor.cause = cause;
  executor.cause.requested = executor.requested;
  if (executor.reported) executor.cause.ran = now - executor.begun;
  if (cause.signal == SIGKILL && !executor.requested) {
    oom_.poll(now);
    executor.cause.oom = oom_.suspects(now);
  }
  if (executor.stage == Stage::running) {
    executor.spare_until = executor.requested ? executor.deadline
                           : executor.command ? std::optional<Time>(now + executor.command->grace)
                                              : std::nullopt;
  }
  executor.stage = Stage::ending;
  executor.deadline = now;
}

// The executor and its descendants, parents first. For a command: all its remaining processes.
std::vector<PidIdentity> ExecutorPool::tree_of(const Executor& executor) {
  std::vector<PidIdentity> tree = descendants_of(child_of(executor).pid);
  if (!executor.job_shim) tree.insert(tree.begin(), executor.identity);
  return tree;
}

// The shim itself is not signaled, because its end would orphan its descendants. Without a started
// command it is the only process.
void ExecutorPool::signal_all(const Executor& executor, int signal) {
  if (executor.job_shim && !executor.reported) return signal_tree(*executor.job_shim, signal);
  for (const PidIdentity& each : tree_of(executor)) signal_process(each, signal);
}

// A process with its own session whose parent exited is no descendant of the executor.
void ExecutorPool::tell_escaped(Executor& executor) {
  for (const Orphan& orphan : find_orphans(known_processes(), false)) {
    if (belongs(orphan, executor) && executor.signaled.insert(orphan.identity).second)
      signal_tree(orphan.identity, SIGTERM);
  }
}

// True if this executor started the inherited process. The environment variable or the session
// identify it. Without either, the process made its own session and cleared its environment: then
// it belongs to the only executor that existed before it, if there is just one. Processes of a
// command are not inherited while its shim exists.
bool ExecutorPool::belongs(const Orphan& orphan, const Executor& executor) const {
  if (executor.job_shim && executor.pidfd) return false;
  if (orphan.session == executor.identity.pid) return true;
  if (orphan.process_mark) return *orphan.process_mark == executor.process.hex();
  if (ended_fork_servers_.contains(orphan.session)) return false;
  for (const auto& [serial, fork_server] : fork_servers_) {
    if (fork_server.running && fork_server.program.identity.pid == orphan.session) return false;
  }
  if (orphan.identity.start_time < executor.identity.start_time) return false;
  return std::none_of(executors_.begin(), executors_.end(), [&](const auto& entry) {
    const Executor& other = entry.second;
    return &other != &executor && other.pidfd && !other.job_shim &&
           other.identity.start_time <= orphan.identity.start_time;
  });
}

// Signals the remaining processes of an ended executor. True if any remain.
bool ExecutorPool::check_left(Executor& executor, const std::vector<Orphan>& orphans, bool spared) {
  const auto tell = [&](const PidIdentity& one) {
    if (!spared) {
      signal_process(one, SIGKILL);
    } else if (executor.signaled.insert(one).second) {
      signal_process(one, SIGTERM);
    }
  };
  bool left = false;
  for (const Orphan& orphan : orphans) {
    if (!belongs(orphan, executor)) continue;
    left = true;
    const std::vector<PidIdentity> below = descendants_of(orphan.identity.pid);
    tell(orphan.identity);
    for (const PidIdentity& each : below) tell(each);
  }
  if (!executor.job_shim || !executor.pidfd) return left;
  for (const PidIdentity& each : tree_of(executor)) tell(each);
  return true;  // the shim exits with the last of them
}

// Signals the remaining processes of ended executors, and reports executors without any.
void ExecutorPool::sweep(Time now) {
  std::vector<Serial> due;
  for (const auto& [serial, executor] : executors_) {
    if (executor.stage == Stage::ending && *executor.deadline <= now) due.push_back(serial);
  }
  const bool housekeeping = now - housekept_ >= housekeeping_interval;
  if (due.empty() && !housekeeping) return;
  const std::vector<Orphan> orphans = find_orphans(known_processes(), !forks_are_pending());
  for (const Serial serial : due) {
    Executor& executor = executors_.at(serial);
    const bool spared = executor.spare_until && now < *executor.spare_until;
    const std::size_t before = executor.signaled.size();
    const bool left = check_left(executor, orphans, spared);
    const bool news = executor.signaled.size() > before;
    executor.deadline = now + left_check_interval;
    if (spared && !news)
      executor.deadline = std::min(now + spared_check_interval, *executor.spare_until);
    if (!left) conclude(serial);
  }
  if (!housekeeping) return;
  housekept_ = now;
  oom_.poll(now);
  sweep_after_fork_servers(orphans);
  std::vector<Serial> all;
  for (const auto& [serial, fork_server] : fork_servers_) all.push_back(serial);
  for (const Serial serial : all) {
    send_requests(serial);
    leave_if_retired(serial);
  }
}

void ExecutorPool::sweep_after_fork_servers(const std::vector<Orphan>& orphans) {
  std::set<pid_t> left;
  for (const Orphan& orphan : orphans) {
    if (!ended_fork_servers_.contains(orphan.session)) continue;
    signal_tree(orphan.identity, SIGKILL);
    left.insert(orphan.session);
  }
  ended_fork_servers_ = std::move(left);
}

void ExecutorPool::conclude(Serial serial) {
  Executor& executor = executors_.at(serial);
  poll_.remove(executor.output.fd());
  executor.output.finish(sink_of(executor));
  if (!executor.reported) {
    if (executor.command) return fail_start(serial, describe_failed_job_shim(executor));
    return fail_start(serial, describe_early_end(executor.cause, executor.overdue, executor.output),
                      cannot_run(executor.key, executor.cause));
  }
  if (options_.table != nullptr) {
    if (auto removed = options_.table->remove(child_of(executor)); !removed) {
      log_warn("executor {} stays recorded: {}", executor.identity.pid, removed.error().text);
    }
  }
  events_.push_back(PoolExited{executor.process, executor.cause});
  serials_.erase(executor.process);
  executors_.erase(serial);
}

std::set<pid_t> ExecutorPool::known_processes() const {
  std::set<pid_t> known;
  for (const auto& [serial, executor] : executors_) {
    if (executor.pidfd) known.insert(child_of(executor).pid);
  }
  for (const auto& [serial, fork_server] : fork_servers_) {
    if (fork_server.running) known.insert(fork_server.program.identity.pid);
  }
  return known;
}

bool ExecutorPool::forks_are_pending() const {
  return std::any_of(fork_servers_.begin(), fork_servers_.end(),
                     [](const auto& entry) { return !entry.second.requested.empty(); });
}

}  // namespace mobula::internal::worker
