#include "tune/runtime/experiment/experiment_runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <exception>
#include <set>
#include <string_view>
#include <variant>

#include <mobula/detail/runtime.h>
#include <mobula/errors.h>
#include <mobula/get.h>

#include "base/logging/stderr_queue.h"
#include "base/model/error_record.h"
#include "tune/api/core_values.h"
#include "tune/runtime/policy_files.h"
#include "tune/runtime/trial/trial_actor.h"
#include "tune/runtime/trial/trial_files.h"
#include "tune/store/stop_requests.h"

namespace mobula::internal::tune {
namespace {

using api::detail::TrialExit;
using api::detail::TrialNews;
using api::detail::TrialOrder;
using api::detail::TrialReport;

// A trial that does not unwind after a stop.
constexpr std::chrono::seconds stop_grace(5);
constexpr std::chrono::seconds tick_interval(1);

// By the record, because an error that is a value has no class of its kind.
TrialExitKind kind_of(const Error& error) {
  const auto& record = error.record();
  switch (record.kind) {
    case mobula::detail::ErrorKind::out_of_memory: return TrialExitKind::out_of_memory;
    case mobula::detail::ErrorKind::placement_group_removed: return TrialExitKind::node_lost;
    case mobula::detail::ErrorKind::actor_died: break;
    default: return TrialExitKind::crash;
  }
  if (record.reason == reason_of(EndKind::out_of_memory)) return TrialExitKind::out_of_memory;
  if (record.reason == reason_of(EndKind::node_died)) return TrialExitKind::node_lost;
  return TrialExitKind::crash;
}

// For users, a trial is a process, and no actor whose call got no reply.
std::string why_of(const Error& error) {
  const auto& record = error.record();
  const std::string text = error.what();
  if (record.kind != mobula::detail::ErrorKind::actor_died || !text.starts_with(record.message))
    return text;
  std::string why;
  if (record.reason == reason_of(EndKind::signalled)) {
    const char* name = ::sigdescr_np(record.signal);
    why = fmt::format("its process {} was killed by signal {} ({})", record.process, record.signal,
                      name == nullptr ? "unknown" : name);
  } else if (record.reason == reason_of(EndKind::exited)) {
    why = fmt::format("its process {} exited with code {} before the function returned",
                      record.process, record.exit_code);
  } else {
    return text;
  }
  return why + text.substr(record.message.size());  // the last output of the process
}

// The metrics of a report, in the order of their names.
Config metrics_of(const TrialReport& report) {
  const std::array<std::pair<std::string_view, Value>, 3> measured{
      {{"time_this_iter_s", report.step_s},
       {"time_total_s", report.total_s},
       {"training_iteration", report.iteration}}};
  Config made;
  made.reserve(report.metrics.size() + measured.size());
  const auto* next = measured.begin();
  for (const auto& [name, value] : report.metrics) {
    for (; next != measured.end() && next->first < name; ++next)
      made.set(next->first, next->second);
    made.set(name, core_value(value));
  }
  // They replace metrics of the user with these names.
  for (; next != measured.end(); ++next) made.set(next->first, next->second);
  return made;
}

bool is_cancelled(const Error& error) {
  return error.record().kind == mobula::detail::ErrorKind::task_cancelled;
}

}  // namespace

ExperimentRunner::ExperimentRunner(const api::detail::Trainable& trainable,
                                   const api::RunOptions& options, RunnerParts parts)
    : trainable_(trainable),
      options_(options),
      parts_(std::move(parts)),
      core_(*parts_.core),
      recorder_(core_, *parts_.log, parts_.created_ms, parts_.snapshot_rule),
      table_({.name = parts_.location.name,
              .metric = options.metric,
              .mode = core_mode(options.mode),
              .verbose = options.verbose,
              .terminal = ::isatty(STDERR_FILENO) == 1}),
      reporter_([runtime = mobula::detail::runtime()](const std::string& report) {
        (void)runtime->report_experiment(report);  // the next report has everything
      }) {}

ExperimentRunner::~ExperimentRunner() {
  for (auto& [number, row] : groups_) {
    try {
      if (row.handle) row.handle->kill();
      remove_placement_group(row.group);
    } catch (const std::exception&) {
      // The cluster has ended, and its groups with it.
      continue;
    }
  }
}

double ExperimentRunner::now_s() const { return recorder_.clock().seconds(); }

api::ResultGrid ExperimentRunner::run() {
  if (parts_.resumed) replay();
  recorder_.set_clock(ExperimentClock(recorder_.last_s()));
  next_tick_ = Clock::now() + tick_interval;
  parts_.log->add(SetExperimentState{.state = "running"});
  feed(ExperimentStarted{});
  feed_restored();
  loop();
  parts_.log->add(SetExperimentState{.state = core_.stop_reason().empty() ? "finished" : "stopped",
                                     .reason = end_reason()});
  parts_.log->flush();
  delete_checkpoints();
  // A trial that was killed may have left a part of a checkpoint.
  remove_unknown_checkpoints();
  show(true);
  report_progress(true);
  if (core_.search_ended_early() && options_.verbose >= 1)
    print_stderr("tune: {}: the search algorithm finished after {} of {} samples",
                 parts_.location.name, core_.trials().size(), options_.num_samples);
  api::ResultGrid grid = results();
  for (const api::CallbackPtr& callback : options_.callbacks) {
    try {
      callback->on_experiment_end(grid);
    } catch (const std::exception& error) {
      print_stderr("tune: callback on_experiment_end: {}", error.what());
    }
  }
  return grid;
}

// Continues from the events of earlier processes.
void ExperimentRunner::replay() {
  remove_policies(parts_.location.directory());
  const auto replayed = recorder_.restore(parts_.snapshots);
  parts_.snapshots.clear();
  if (!replayed) refuse_tune("RunOptions::resume", replayed.error().text);
  for (const TrialExploited& exploited : recorder_.exploits())
    append_policy(parts_.location.directory(), exploited);
  if (replayed->differing() > 0)
    print_stderr(
        "tune: {}: the program decides differently from the recorded run at {} of {} "
        "events, first at event {}; `mobula tune replay {}` names them",
        parts_.location.name, replayed->differing(), replayed->compared(),
        replayed->differences().front().event, parts_.location.name);
  remove_unknown_checkpoints();
  parts_.log->add(EndOpenAttempts{.ended_ms = recorder_.clock().wall_ms(), .kind = "interrupted"});
  // Requests to stop the earlier process.
  static_cast<void>(take_stop_requests(parts_.location));
}

void ExperimentRunner::remove_unknown_checkpoints() {
  std::set<std::string> known;
  for (const auto& [number, row] : core_.checkpoints().rows()) known.insert(row.directory);
  remove_unknown_directories(parts_.location.checkpoints(), known);
}

// The choices of Tuner::restore.
void ExperimentRunner::feed_restored() {
  const auto& restore = trainable_.restore;
  if (!restore.resume_unfinished)
    for (const TrialNumber trial : core_.trials().list()) feed(StopRequested{trial});
  if (restore.resume_errored || restore.restart_errored)
    feed(FailedTrialsRepeated{.from_checkpoint = !restore.restart_errored});
}

void ExperimentRunner::loop() {
  for (;;) {
    parts_.log->seal();
    release_held();
    exchange_where_needed();
    release_ended();
    if (core_.ended() && held_.empty() && groups_.empty()) return;
    if (parts_.log->failed())
      throw Error(
          fmt::format("tune: experiment {}: {}", parts_.location.name, parts_.log->problem()));
    show(false);
    report_progress(false);
    wait();
  }
}

void ExperimentRunner::wait() {
  const auto now = Clock::now();
  auto until = std::max(next_tick_, now);
  for (const auto& [number, row] : groups_)
    if (row.ending && !row.finished) until = std::min(until, std::max(row.deadline, now));
  std::array<std::uint64_t, 64> tokens{};
  std::size_t count = queue_.take(tokens);
  const bool writes = count == 0 && parts_.log->seal() > parts_.log->persisted();
  if (writes && options_.durability == api::Durability::relaxed) {
    // No command waits for the disk. A blocking call takes reports sooner than a poll.
    count = queue_.take(tokens, std::min<Clock::duration>(until - now, relaxed_commit_interval));
    parts_.log->drain();
  } else if (writes) {
    // Two descriptors only while a batch waits for the disk.
    std::array<pollfd, 2> waited{pollfd{.fd = queue_.fd(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = parts_.log->fd(), .events = POLLIN, .revents = 0}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - now).count();
    ::poll(waited.data(), waited.size(), static_cast<int>(left) + 1);
    if (waited[1].revents != 0) parts_.log->drain();
    count = queue_.take(tokens);
  } else if (count == 0) {
    count = queue_.take(tokens, until - now);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = awaited_.find(tokens[i]);
    if (found == awaited_.end()) continue;
    const Awaited awaited = std::move(found->second);
    awaited_.erase(found);
    completed(awaited);
  }
  if (Clock::now() >= next_tick_) {
    next_tick_ = Clock::now() + tick_interval;
    if (options_.time_budget || options_.stop.stopper()) feed(ClockTicked{});
    store_waiting_reason();
    store_processes();
    for (const auto& trial : take_stop_requests(parts_.location))
      feed(StopRequested{trial.value_or(-1)});
  }
}

// ---- the core and its log

void ExperimentRunner::feed(ExperimentEvent event) {
  commands_.clear();
  const double now = now_s();
  recorder_.decide(now, event, commands_);
  const bool continued = continues_at_once(event);
  recorder_.record(now, event, commands_);
  std::vector<ExperimentCommand> commands = std::exchange(commands_, {});
  if (const auto* report = std::get_if<TrialReported>(&event)) notify_report(*report);
  const std::uint64_t batch = parts_.log->seal();
  if (continued) return;
  for (ExperimentCommand& command : commands) hold(std::move(command), batch);
  if (options_.durability == api::Durability::relaxed) release_held();
}

// With Durability::relaxed, a trial gets the decision to continue before its report is recorded.
// A save needs the order of the decision, so it takes the other way. False: nothing was done.
bool ExperimentRunner::continues_at_once(const ExperimentEvent& event) {
  const auto* report = std::get_if<TrialReported>(&event);
  if (report == nullptr || options_.durability != api::Durability::relaxed || !held_.empty())
    return false;
  const auto continues = [&](const ExperimentCommand& command) {
    const auto* continued = std::get_if<ContinueTrial>(&command);
    return continued != nullptr && continued->trial == report->trial;
  };
  const auto orders = [](const ExperimentCommand& command) {
    return !std::holds_alternative<TrialDecided>(command);
  };
  if (std::ranges::count_if(commands_, orders) != 1 || !std::ranges::any_of(commands_, continues))
    return false;
  GroupRun* row = running(report->trial);
  if (row == nullptr) return false;
  ++row->decided;
  if (row->awaits_news() && !row->exits && !row->identify) exchange(where_.at(report->trial));
  return true;
}

void ExperimentRunner::hold(ExperimentCommand command, std::uint64_t batch) {
  HeldCommand held{.batch = batch};
  if (const auto* changed = std::get_if<TrialChanged>(&command)) {
    held.state = core_.trials().state(changed->trial);
    const TrialRecord& record = core_.record(changed->trial);
    if (held.state == TrialState::failed) held.error = record.error;
    if (held.state == TrialState::terminated && !options_.callbacks.empty())
      held.last = api_metrics(record.last);
  }
  held.command = std::move(command);
  held_.push_back(std::move(held));
}

void ExperimentRunner::release_held() {
  const bool strict = options_.durability == api::Durability::strict;
  while (!held_.empty() && (!strict || held_.front().batch <= parts_.log->persisted())) {
    const HeldCommand held = std::move(held_.front());
    held_.pop_front();
    if (const auto* deleted = std::get_if<DeleteCheckpoint>(&held.command))
      deletions_.emplace_back(held.batch, deleted->directory);
    else
      execute(held.command);
    notify(held);
  }
  delete_checkpoints();
}

// Until a batch is durable, a resumed experiment would continue from the checkpoints it deletes.
void ExperimentRunner::delete_checkpoints() {
  while (!deletions_.empty() && deletions_.front().first <= parts_.log->persisted()) {
    remove_directory(deletions_.front().second);
    deletions_.pop_front();
  }
}

// ---- completions

void ExperimentRunner::await(Awaited awaited, const AnyRef& ref) {
  const std::uint64_t token = ++last_token_;
  awaited_.emplace(token, std::move(awaited));
  queue_.add(ref, token);
}

void ExperimentRunner::completed(const Awaited& awaited) {
  if (!groups_.contains(awaited.group)) return;
  switch (awaited.kind) {
    case Awaits::group: return group_completed(awaited);
    case Awaits::run: return run_completed(awaited);
    case Awaits::exchange: return exchange_completed(awaited);
  }
}

void ExperimentRunner::group_completed(const Awaited& awaited) {
  const auto ready = try_get(awaited.ready);
  if (ready) return feed(GroupReady{awaited.group});
  const std::string why = ready.error().what();
  try {
    remove_placement_group(groups_.at(awaited.group).group);
  } catch (const Error&) {
    // The head refused the group, so that there is nothing to remove.
  }
  groups_.erase(awaited.group);
  feed(GroupFailed{awaited.group, why});
}

void ExperimentRunner::exchange_completed(const Awaited& awaited) {
  GroupRun& row = groups_.at(awaited.group);
  if (row.start != awaited.start) return;
  --row.exchanges;
  const auto news = try_get(awaited.news);
  if (news) return take_news(awaited.group, *news);
  row.finished = true;
  row.broken = row.broken || !is_cancelled(news.error());
  exit_of(awaited.group, kind_of(news.error()), why_of(news.error()));
}

void ExperimentRunner::take_news(GroupNumber number, const TrialNews& news) {
  const auto attempt = groups_.at(number).attempt;
  const TrialNumber trial = groups_.at(number).trial;
  if (news.process != 0) {
    groups_.at(number).process = news.process;
    groups_.at(number).node = news.node;
    recorder_.set_node(trial, news.node);
  }
  groups_.at(number).received += static_cast<std::int64_t>(news.reports.size());
  groups_.at(number).exits = news.exit != TrialExit::running;
  for (const auto& report : news.reports) {
    feed(TrialReported{trial, attempt, metrics_of(report), report.checkpoint});
  }
  if (news.saved) {
    groups_.at(number).saving = false;
    feed(TrialSaved{trial, attempt, *news.saved});
  }
  switch (news.exit) {
    case TrialExit::running: return;
    case TrialExit::returned: return exit_of(number, TrialExitKind::returned, {});
    case TrialExit::stopped: return exit_of(number, TrialExitKind::stopped, {});
    case TrialExit::threw: return exit_of(number, TrialExitKind::exception, news.error);
  }
}

void ExperimentRunner::exit_of(GroupNumber number, TrialExitKind kind, const std::string& why) {
  GroupRun& row = groups_.at(number);
  if (std::exchange(row.exited, true)) return;
  parts_.log->add(StoredAttempt{.trial = row.trial,
                                .number = row.attempt,
                                .node = row.node,
                                .pid = row.process,
                                .began_ms = row.began_ms,
                                .ended_ms = recorder_.clock().wall_ms(),
                                .kind = name_of(kind),
                                .text = why});
  if (!row.ending) feed(TrialExited{row.trial, row.attempt, kind, why});
}

void ExperimentRunner::run_completed(const Awaited& awaited) {
  GroupRun& row = groups_.at(awaited.group);
  if (row.start != awaited.start) return;
  row.finished = true;
  const auto done = try_get(row.run);
  if (!done && !is_cancelled(done.error())) row.broken = true;
  if (done || row.exited) return;
  const std::string why = why_of(done.error());
  exit_of(awaited.group, kind_of(done.error()), why);
}

// ---- commands

void ExperimentRunner::execute(const ExperimentCommand& command) {
  if (const auto* made = std::get_if<MakeGroup>(&command)) return make_group(*made);
  if (const auto* started = std::get_if<StartTrial>(&command)) return start(*started);
  if (const auto* ended = std::get_if<EndTrial>(&command)) return end(ended->trial);
  if (const auto* removed = std::get_if<RemoveGroup>(&command)) {
    const auto found = groups_.find(removed->group);
    if (found == groups_.end()) return;
    remove_placement_group(found->second.group);
    groups_.erase(found);
  } else if (const auto* continued = std::get_if<ContinueTrial>(&command)) {
    if (GroupRun* row = running(continued->trial)) ++row->decided;
  } else if (const auto* saved = std::get_if<SaveCheckpoint>(&command)) {
    if (GroupRun* row = running(saved->trial)) row->save = true;
  } else if (const auto* exploited = std::get_if<TrialExploited>(&command)) {
    append_policy(parts_.location.directory(), *exploited);
  } else if (const auto* warned = std::get_if<TrialWarning>(&command)) {
    print_stderr("tune: {}", warned->text);
  }
}

ExperimentRunner::GroupRun* ExperimentRunner::running(TrialNumber trial) {
  const auto found = where_.find(trial);
  if (found == where_.end()) return nullptr;
  const auto row = groups_.find(found->second);
  return row == groups_.end() || row->second.ending ? nullptr : &row->second;
}

void ExperimentRunner::make_group(const MakeGroup& command) {
  GroupRun row;
  row.resources = group_of_shape(command.shape);
  try {
    row.group =
        placement_group(placed_bundles(row.resources), row.resources.strategy,
                        {.name = fmt::format("tune/{}/{}", parts_.location.name, command.group)});
  } catch (const Error& error) {
    return feed(GroupFailed{command.group, error.what()});
  }
  Awaited awaited{.kind = Awaits::group, .group = command.group, .ready = row.group.ready()};
  const ObjectRef<bool> ready = awaited.ready;
  groups_.emplace(command.group, std::move(row));
  await(std::move(awaited), ready);
}

void ExperimentRunner::start(const StartTrial& command) {
  GroupRun& row = groups_.at(command.group);
  row.trial = command.trial;
  row.attempt = command.attempt;
  row.start = ++last_start_;
  row.began_ms = recorder_.clock().wall_ms();
  row.received = row.decided = 0;
  row.exchanges = 0;
  row.save = row.saving = row.stop = row.exited = row.finished = row.ending = row.exits = false;
  row.identify = row.identifies = row.placed = false;
  where_[command.trial] = command.group;
  if (!row.handle) {
    row.process = 0;  // its first news names it
    row.handle = trainable_.create(options_of_trial(row.group, row.resources, options_.env));
  }
  const std::string directory = parts_.location.directory();
  std::vector<std::map<std::string, double>> bundles;
  for (const Resources& bundle : row.resources.bundles)
    bundles.emplace_back(bundle.begin(), bundle.end());
  row.run = row.handle->run({.number = row.start,
                             .trial = command.trial,
                             .attempt = static_cast<int>(command.attempt),
                             .experiment = parts_.location.name,
                             .directory = fmt::format("{}/trials/{:06}", directory, command.trial),
                             .checkpoints = parts_.location.checkpoints(),
                             .seed = command.seed,
                             .config = api_config(command.config),
                             .group = row.group,
                             .bundles = bundles,
                             .strategy = row.resources.strategy,
                             .first_worker = first_worker_bundle(row.resources),
                             .checkpoint = command.checkpoint,
                             .iteration = command.iteration,
                             .time_total_s = command.time_total_s,
                             .command = trainable_.command});
  await({.kind = Awaits::run, .group = command.group, .start = row.start}, row.run);
  exchange(command.group);
}

void ExperimentRunner::exchange(GroupNumber number) {
  GroupRun& row = groups_.at(number);
  const TrialOrder order{.start = row.start,
                         .decided = row.decided,
                         .stop = row.stop,
                         .save = std::exchange(row.save, false),
                         .identify = std::exchange(row.identify, false)};
  row.saving = row.saving || order.save;
  ++row.exchanges;
  Awaited awaited{.kind = Awaits::exchange,
                  .group = number,
                  .start = row.start,
                  .news = row.handle->next(order)};
  const ObjectRef<TrialNews> news = awaited.news;
  await(std::move(awaited), news);
}

void ExperimentRunner::exchange_where_needed() {
  for (auto& [number, row] : groups_) {
    if (!row.handle || row.exited || row.ending) continue;
    if (row.save || row.identify || row.awaits_news()) exchange(number);
  }
}

void ExperimentRunner::end(TrialNumber trial) {
  GroupRun* row = running(trial);
  if (row == nullptr) return;
  const GroupNumber number = where_.at(trial);
  where_.erase(trial);
  row->ending = true;
  row->deadline = Clock::now() + stop_grace;
  if (row->exited) return;
  row->stop = true;
  const bool awaits_decision = row->received > row->decided;
  exchange(number);
  // User code between two reports learns the stop from current().cancelled().
  if (!awaits_decision) cancel(row->run);
}

// Releases the groups whose attempt has ended.
void ExperimentRunner::release_ended() {
  const auto now = Clock::now();
  std::vector<GroupNumber> ended;
  for (auto& [number, row] : groups_) {
    if (!row.ending) continue;
    if (!row.finished && now >= row.deadline) {
      row.handle->kill();
      row.finished = true;
      row.handle.reset();
    }
    if (row.finished) ended.push_back(number);
  }
  for (const GroupNumber number : ended) release(number);
}

void ExperimentRunner::release(GroupNumber number) {
  GroupRun& row = groups_.at(number);
  if (!row.exited) exit_of(number, TrialExitKind::stopped, {});
  row.ending = false;
  // If the actor lives, a call that it does not answer would keep it, and its bundle.
  const bool broken = std::exchange(row.broken, false);
  if (broken && row.handle) row.handle->kill();
  if (broken || !parts_.reuses_processes) row.handle.reset();
  row.trial = -1;
  row.start = 0;
  feed(GroupReleased{number});
  release_held();
}

}  // namespace mobula::internal::tune
