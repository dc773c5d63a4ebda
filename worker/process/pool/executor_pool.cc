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

#include "base/log.h"

namespace mobula::internal::worker {
namespace {

constexpr Duration destructor_limit = 10s;

}  // namespace

std::string ExecutorPool::describe_early_end(const ExitCause& cause, bool overdue,
                                             const OutputPipe& output) const {
  std::string text =
      fmt::format("the process ended ({}) before it reached mobula::init", cause.to_string());
  if (overdue) {
    text =
        fmt::format("it did not reach mobula::init within {} s and was killed",
                    std::chrono::duration_cast<std::chrono::seconds>(options_.start_limit).count());
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
  std::vector<Serial> nurseries;
  for (const auto& [serial, nursery] : nurseries_) nurseries.push_back(serial);
  for (const Serial serial : nurseries) leave(serial);
  std::vector<PoolEvent> unread;
  const Time deadline = monotonic_now() + destructor_limit;
  while ((!executors_.empty() || !nurseries_.empty()) && monotonic_now() < deadline) {
    pollfd ready{poll_.fd(), POLLIN, 0};
    ::poll(&ready, 1, 100);
    on_readable(unread);
  }
}

void ExecutorPool::on_readable(std::vector<PoolEvent>& out) {
  for (const PollSet::Ready ready : poll_.take_ready()) dispatch(ready);
  const Time now = monotonic_now();
  look_at_deadlines(now);
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
  } else if (const auto nursery = nurseries_.find(ready.owner); nursery != nurseries_.end()) {
    if (ready.source == Source::nursery_socket) read_nursery(ready.owner);
    if (ready.source == Source::exit) nursery_ended(ready.owner);
    if (ready.source == Source::output && !nursery->second.output.read_some(nullptr)) {
      poll_.remove(nursery->second.output.fd());
    }
  }
}

void ExecutorPool::look_at_deadlines(Time now) {
  for (auto& [serial, executor] : executors_) {
    if (executor.stage == Stage::ending || !executor.deadline || now < *executor.deadline) continue;
    executor.deadline.reset();
    executor.overdue = true;
    signal_all(executor, SIGKILL);
  }
  for (auto& [serial, nursery] : nurseries_) {
    if (!nursery.deadline || now < *nursery.deadline) continue;
    nursery.deadline.reset();
    nursery.overdue = true;
    signal_tree(nursery.program.stamp, SIGKILL);
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
  for (const auto& [serial, nursery] : nurseries_) consider(nursery.deadline);
  if (!executors_.empty() || !nurseries_.empty() || !ended_nurseries_.empty()) {
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
                      .key = std::move(what.nursery),
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
  if (executor.asked) return fail_start(serial, "it was told to end before it was started");
  if (executor.command) return start_command(serial);
  if (!options_.use_nurseries) return start_directly(serial);
  std::string why_not;
  const Serial nursery = nursery_for(executor.key, why_not);
  if (nursery == 0) return fail_start(serial, why_not);
  Nursery& found = nurseries_.at(nursery);
  if (found.stage == NurseryStage::refused) return start_directly(serial);
  executor.stage = Stage::waiting;
  found.waiting.push_back(serial);
  send_requests(nursery);
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
  executor.stamp = program->stamp;
  executor.pidfd = std::move(program->pidfd);
  executor.control = std::move(program->control);
  executor.deadline = monotonic_now() + options_.start_limit;
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
  signal_tree(executor.stamp, SIGKILL);
  // It cannot be watched. The agent shim ends it if it outlives the agent.
  fail_start(serial, outcome.error().text);
}

void ExecutorPool::read_control(Serial serial) {
  Executor& executor = executors_.at(serial);
  if (!executor.control) return;
  if (executor.warden) return read_words(serial);
  const auto packet = receive_packet(executor.control.get(), MSG_DONTWAIT);
  if (!packet && packet.error().code == ErrorCode::resource_exhausted) return;
  poll_.remove(executor.control.get());
  executor.control.reset();
  if (packet && decode_fork_reply(packet->bytes)) report_started(serial);
}

void ExecutorPool::adopt(Serial serial, ProcessStamp stamp, Fd pidfd) {
  Executor& executor = executors_.at(serial);
  executor.stamp = stamp;
  executor.pidfd = std::move(pidfd);
  executor.link.reset();
  executor.output_end.reset();
  if (const auto watched = poll_.add(executor.pidfd.get(), serial, PollSet::Source::exit);
      !watched) {
    signal_tree(stamp, SIGKILL);
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
      log_warn("executor {} is not recorded: {}", executor.stamp.pid, added.error().text);
    }
  }
  events_.push_back(PoolStarted{executor.process, executor.stamp});
  if (executor.asked) signal_all(executor, SIGKILL);
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

bool ExecutorPool::forks(const NurseryKey& key) const {
  const auto found = nursery_serials_.find(key);
  if (!options_.use_nurseries || found == nursery_serials_.end()) return false;
  const Nursery& nursery = nurseries_.at(found->second);
  return nursery.stage == NurseryStage::ready && nursery.running && !nursery.retiring;
}

std::vector<NurseryView> ExecutorPool::nurseries() const {
  std::vector<NurseryView> views;
  for (const auto& [serial, nursery] : nurseries_) {
    if (nursery.retiring || nursery.stage == NurseryStage::leaving) continue;
    const char* state = nursery.stage == NurseryStage::starting ? "starting"
                        : nursery.stage == NurseryStage::ready  ? "ready"
                                                                : "exec";
    views.push_back({nursery.key.program, state, nursery.refusal});
  }
  return views;
}

}  // namespace mobula::internal::worker
