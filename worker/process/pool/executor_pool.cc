#include "worker/process/pool/executor_pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>

#include "base/logging/log.h"

namespace mobula::internal::worker {
namespace {

constexpr Duration destructor_timeout = 10s;

}  // namespace

std::string ExecutorPool::describe_early_end(const ExitCause& cause, bool overdue,
                                             const OutputPipe& output) const {
  std::string text =
      fmt::format("the process ended ({}) before it reached mobula::init", cause.to_string());
  if (overdue) {
    text = fmt::format(
        "it did not reach mobula::init within {} s and was killed",
        std::chrono::duration_cast<std::chrono::seconds>(options_.start_timeout).count());
  }
  const std::string printed = output.tail().text();
  return printed.empty() ? text : text + ". It printed:\n" + printed;
}

Result<std::unique_ptr<ExecutorPool>> ExecutorPool::create(PoolOptions options) {
  auto poll = PollSet::create();
  if (!poll) return poll.error();
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return errno_failure("become a subreaper", errno);
  return std::unique_ptr<ExecutorPool>(new ExecutorPool(std::move(options), std::move(*poll)));
}

ExecutorPool::ExecutorPool(PoolOptions options, PollSet poll)
    : options_(std::move(options)), poll_(std::move(poll)), housekept_(monotonic_now()) {}

ExecutorPool::~ExecutorPool() {
  options_.on_output = nullptr;
  const auto executors = serials_;
  for (const auto& [process, serial] : executors) kill(process, Duration(0));
  std::vector<Serial> fork_servers;
  for (const auto& [serial, fork_server] : fork_servers_) fork_servers.push_back(serial);
  for (const Serial serial : fork_servers) leave(serial);
  std::vector<PoolEvent> unread;
  const Time deadline = monotonic_now() + destructor_timeout;
  while ((!executors_.empty() || !fork_servers_.empty()) && monotonic_now() < deadline) {
    pollfd ready{poll_.fd(), POLLIN, 0};
    ::poll(&ready, 1, 100);
    on_readable(unread);
  }
}

void ExecutorPool::on_readable(std::vector<PoolEvent>& out) {
  for (const PollSet::Ready ready : poll_.take_ready()) dispatch(ready);
  const Time now = monotonic_now();
  check_deadlines(now);
  sweep(now);
  schedule();
  std::move(events_.begin(), events_.end(), std::back_inserter(out));
  events_.clear();
}

void ExecutorPool::dispatch(PollSet::Ready ready) {
  using Source = PollSet::Source;
  if (const auto found = executors_.find(ready.owner); found != executors_.end()) {
    Executor& executor = found->second;
    if (ready.source == Source::control) read_control(ready.owner);
    if (ready.source == Source::exit) executor_ended(ready.owner);
    if (ready.source == Source::output && !executor.output.read_some(sink_of(executor))) {
      poll_.remove(executor.output.fd());
    }
  } else if (const auto fork_server = fork_servers_.find(ready.owner);
             fork_server != fork_servers_.end()) {
    if (ready.source == Source::fork_server_socket) read_fork_server(ready.owner);
    if (ready.source == Source::exit) fork_server_ended(ready.owner);
    if (ready.source == Source::output && !fork_server->second.output.read_some(nullptr)) {
      poll_.remove(fork_server->second.output.fd());
    }
  }
}

void ExecutorPool::check_deadlines(Time now) {
  for (auto& [serial, executor] : executors_) {
    if (executor.stage == Stage::ending || !executor.deadline || now < *executor.deadline) continue;
    executor.deadline.reset();
    executor.overdue = true;
    signal_all(executor, SIGKILL);
  }
  for (auto& [serial, fork_server] : fork_servers_) {
    if (!fork_server.deadline || now < *fork_server.deadline) continue;
    fork_server.deadline.reset();
    fork_server.overdue = true;
    signal_tree(fork_server.program.identity, SIGKILL);
  }
}

// Sets the timer to the earliest deadline.
void ExecutorPool::schedule() {
  std::optional<Time> first;
  const auto consider = [&](std::optional<Time> when) {
    if (when && (!first || *when < *first)) first = when;
  };
  if (!events_.empty()) consider(Time());
  for (const auto& [serial, executor] : executors_) consider(executor.deadline);
  for (const auto& [serial, fork_server] : fork_servers_) consider(fork_server.deadline);
  if (!executors_.empty() || !fork_servers_.empty() || !ended_fork_servers_.empty()) {
    consider(housekept_ + housekeeping_interval);
  }
  poll_.set_deadline(first);
}

void ExecutorPool::start(ExecutorStart what) {
  auto pipe = OutputPipe::create(what.command.has_value());
  std::string refusal;
  if (serials_.contains(what.process)) refusal = "this process id is in use";
  if (executors_.size() >= options_.max_executors) {
    refusal = fmt::format("there are {} executors already", executors_.size());
  }
  if (!pipe) refusal = pipe.error().text;
  const Serial serial = ++last_serial_;
  if (refusal.empty()) {
    Executor executor{.process = what.process,
                      .slot = what.slot,
                      .key = std::move(what.fork_server),
                      .environment = std::move(what.environment),
                      .seed = what.seed,
                      .command = std::move(what.command),
                      .link = std::move(what.link),
                      .output_end = std::move(pipe->second),
                      .output = std::move(pipe->first)};
    const auto watched = poll_.add(executor.output.fd(), serial, PollSet::Source::output);
    if (!watched) refusal = watched.error().text;
    if (watched) executors_.emplace(serial, std::move(executor));
  }
  if (!refusal.empty()) {
    events_.push_back(PoolStartFailed{what.process, "start of an executor: " + refusal, false});
  } else {
    serials_.emplace(what.process, serial);
    begin(serial);
  }
  schedule();
}

void ExecutorPool::begin(Serial serial) {
  Executor& executor = executors_.at(serial);
  if (executor.requested) return fail_start(serial, "it was asked to end before it was started");
  if (executor.command) return start_command(serial);
  if (!options_.use_fork_servers) return start_directly(serial);
  std::string why_not;
  const Serial fork_server = fork_server_for(executor.key, why_not);
  if (fork_server == 0) return fail_start(serial, why_not);
  ForkServer& found = fork_servers_.at(fork_server);
  if (found.stage == ForkServerStage::refused) return start_directly(serial);
  executor.stage = Stage::waiting;
  found.waiting.push_back(serial);
  send_requests(fork_server);
}

ForkRequest ExecutorPool::request_for(const Executor& executor) const {
  return ForkRequest{executor.process, executor.slot, executor.seed,
                     static_cast<std::int32_t>(::getpid()), executor.environment};
}

void ExecutorPool::start_directly(Serial serial) {
  Executor& executor = executors_.at(serial);
  std::vector<EnvironmentVariable> settings = marks_of(executor.slot, executor.process);
  settings.insert(settings.end(), executor.environment.begin(), executor.environment.end());
  auto program = start_executor(executor.key, options_.environment, std::move(settings),
                                executor.output_end.get());
  if (!program) return fail_start(serial, program.error().text);
  executor.stage = Stage::starting;
  executor.identity = program->identity;
  executor.pidfd = std::move(program->pidfd);
  executor.control = std::move(program->control);
  executor.deadline = monotonic_now() + options_.start_timeout;
  const int fds[] = {executor.link.get(), executor.output_end.get()};
  auto outcome =
      send_packet(executor.control.get(), encode(request_for(executor)), fds, MSG_DONTWAIT);
  executor.link.reset();
  executor.output_end.reset();
  // The process may have exited already; its exit status says more than the closed socket.
  if (!outcome && outcome.error().code == ErrorCode::unavailable) outcome = {};
  if (outcome) outcome = poll_.add(executor.control.get(), serial, PollSet::Source::control);
  if (outcome) outcome = poll_.add(executor.pidfd.get(), serial, PollSet::Source::exit);
  if (outcome) return;
  signal_tree(executor.identity, SIGKILL);
  // It cannot be watched. The agent shim ends it if it outlives the agent.
  fail_start(serial, outcome.error().text);
}

void ExecutorPool::read_control(Serial serial) {
  Executor& executor = executors_.at(serial);
  if (!executor.control) return;
  if (executor.job_shim) return read_words(serial);
  const auto packet = receive_packet(executor.control.get(), MSG_DONTWAIT);
  if (!packet && packet.error().code == ErrorCode::resource_exhausted) return;
  poll_.remove(executor.control.get());
  executor.control.reset();
  if (packet && decode_fork_reply(packet->bytes)) report_started(serial);
}

void ExecutorPool::adopt(Serial serial, PidIdentity identity, Fd pidfd) {
  Executor& executor = executors_.at(serial);
  executor.identity = identity;
  executor.pidfd = std::move(pidfd);
  executor.link.reset();
  executor.output_end.reset();
  if (const auto watched = poll_.add(executor.pidfd.get(), serial, PollSet::Source::exit);
      !watched) {
    signal_tree(identity, SIGKILL);
    return fail_start(serial, watched.error().text);
  }
  report_started(serial);
}

void ExecutorPool::report_started(Serial serial) {
  Executor& executor = executors_.at(serial);
  executor.stage = Stage::running;
  executor.reported = true;
  executor.begun = monotonic_now();
  executor.deadline.reset();
  if (options_.table != nullptr) {
    if (auto added = options_.table->add(child_of(executor), executor.slot); !added) {
      log_warn("executor {} is not recorded: {}", executor.identity.pid, added.error().text);
    }
  }
  events_.push_back(PoolStarted{executor.process, executor.identity});
  if (executor.requested) signal_all(executor, SIGKILL);
}

void ExecutorPool::fail_start(Serial serial, const std::string& reason, bool cannot_run) {
  Executor& executor = executors_.at(serial);
  if (executor.output.fd() >= 0) poll_.remove(executor.output.fd());
  const std::string& program =
      executor.command ? executor.command->argv.front() : executor.key.program;
  events_.push_back(PoolStartFailed{executor.process,
                                    fmt::format("start of {}: {}", program, reason), cannot_run});
  serials_.erase(executor.process);
  executors_.erase(serial);
}

LineSink ExecutorPool::sink_of(const Executor& executor) const {
  if (!options_.on_output) return nullptr;
  return [this, process = executor.process](std::string_view lines) {
    options_.on_output(process, lines);
  };
}

bool ExecutorPool::forks(const ForkServerKey& key) const {
  const auto found = fork_server_serials_.find(key);
  if (!options_.use_fork_servers || found == fork_server_serials_.end()) return false;
  const ForkServer& fork_server = fork_servers_.at(found->second);
  return fork_server.stage == ForkServerStage::ready && fork_server.running &&
         !fork_server.retiring;
}

std::vector<ForkServerView> ExecutorPool::fork_servers() const {
  std::vector<ForkServerView> views;
  for (const auto& [serial, fork_server] : fork_servers_) {
    if (fork_server.retiring || fork_server.stage == ForkServerStage::leaving) continue;
    const char* state = fork_server.stage == ForkServerStage::starting ? "starting"
                        : fork_server.stage == ForkServerStage::ready  ? "ready"
                                                                       : "exec";
    views.push_back({fork_server.key.program, state, fork_server.refusal});
  }
  return views;
}

}  // namespace mobula::internal::worker
