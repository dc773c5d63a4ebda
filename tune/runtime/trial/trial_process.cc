// The process of a trial: one thread runs the user's code, and calls of `next` exchange reports and
// decisions with the driver.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

#include <mobula/context.h>
#include <mobula/detail/runtime.h>
#include <mobula/detail/tune_trainable.h>
#include <mobula/errors.h>
#include <mobula/tune/trial.h>

#include "base/mutex.h"
#include "tune/api/core_values.h"
#include "tune/runtime/trial/trial_files.h"

namespace mobula::tune::detail {

using internal::CondVar;
using internal::Mutex;
using internal::MutexLock;
using internal::tune::refuse_tune;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::int64_t max_in_flight = 64;
constexpr std::chrono::milliseconds full_disk_backoff(500);

// Throws the failure of an operation on files.
void check_files(const internal::Result<void>& done) {
  if (!done) throw Error(done.error().text);
}

std::string text_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not derived from std::exception";
  }
}

}  // namespace

struct TrialProcess::State {
  using SaveFunction = std::function<void(const std::string&)>;

  // Begins a start, unless it has begun: `run` and `next` are called by different threads.
  void begin(std::uint64_t number) MOBULA_REQUIRES(mutex) {
    if (begun >= number) return;
    begun = number;
    news = {};
    reported = decided = 0;
    stop = save = identify = identified = false;
    exit = TrialExit::running;
  }

  bool has_news() const MOBULA_REQUIRES(mutex) {
    return !news.reports.empty() || news.saved || news.exit != TrialExit::running ||
           (identify && !node.empty());
  }

  // Answers the waiting call, if there is news.
  void deliver() {
    std::optional<Promise<TrialNews>> answered;
    TrialNews given;
    {
      const MutexLock lock(mutex);
      // The call of an earlier start would lose the news; the next call follows.
      if (!waiting || waiting_start != begun || !has_news()) return;
      answered = std::exchange(waiting, std::nullopt);
      given = std::exchange(news, {});
      const bool identifies = std::exchange(identify, false);
      if (!std::exchange(identified, true) || identifies) {
        given.node = node;
        given.process = ::getpid();
      }
    }
    answered->set_value(std::move(given));
  }

  void report(const Metrics& metrics, const ReportOptions& options, const SaveFunction& on_save) {
    TrialReport made;
    std::int64_t own = 0;
    {
      MutexLock lock(mutex);
      if (process != ::getpid())
        refuse_tune("report", "this process was forked from the trial; report in the trial itself");
      while (!stop && !options.wait && reported - decided >= max_in_flight) changed.wait(lock);
      if (stop) throw TrialStopped();
      own = ++reported;
      const auto now = Clock::now();
      const std::chrono::duration<double> step = now - last_report;
      last_report = now;
      time_total_s += step.count();
      ++iteration;
      made.metrics = metrics;
      made.iteration = iteration;
      made.step_s = step.count();
      made.total_s = time_total_s;
    }
    if (!options.checkpoint.empty()) made.checkpoint = save_directory(options.checkpoint);
    {
      const MutexLock lock(mutex);
      news.reports.push_back(std::move(made));
    }
    deliver();
    if (options.wait) await_decision(own, on_save);
  }

  void await_decision(std::int64_t own, const SaveFunction& on_save) {
    for (;;) {
      bool saves = false;
      std::uint64_t seen = 0;
      {
        const MutexLock lock(mutex);
        if (stop) throw TrialStopped();
        // A save that comes with the decision has the state of this report.
        saves = on_save && std::exchange(save, false);
        if (!saves && decided >= own) return;
        seen = orders.load();
      }
      if (saves)
        save_now(on_save);
      else
        await_order(seen);
    }
  }

  // Runs the calls of `next` on this thread, so that an order wakes no other thread.
  void await_order(std::uint64_t seen) {
    const auto ordered = [&] { return orders.load() != seen; };
    if (mobula::detail::runtime()->run_calls_until(ordered)) return;
    MutexLock lock(mutex);
    while (!ordered()) changed.wait(lock);
  }

  // A save of a class that the driver requested.
  void save_now(const SaveFunction& on_save) {
    const std::string target = target_path();
    check_files(internal::tune::check_shared_storage(start.checkpoints));
    const std::string temporary = target + ".tmp";
    internal::tune::remove_directory(temporary);
    check_files(internal::tune::make_directory(temporary));
    on_save(temporary);
    check_files(internal::tune::publish_checkpoint(temporary, target));
    {
      const MutexLock lock(mutex);
      news.saved = target;
    }
    deliver();
  }

  // Each checkpoint has a different path, because another trial may read an earlier one of this
  // iteration.
  std::string target_path() {
    const MutexLock lock(mutex);
    saves_of_iteration =
        std::exchange(saved_iteration, iteration) == iteration ? saves_of_iteration + 1 : 1;
    std::string path =
        fmt::format("{}/{:06}-{}-{:06}", start.checkpoints, start.trial, start.attempt, iteration);
    if (saves_of_iteration > 1) path += fmt::format("-{}", saves_of_iteration);
    return path;
  }

  // Waits before the next attempt to write to a full disk.
  void wait_for_space() {
    MutexLock lock(mutex);
    if (stop) throw TrialStopped();
    changed.wait_for(lock, full_disk_backoff);
    if (stop) throw TrialStopped();
  }

  std::string save_directory(const std::string& given) {
    const std::string source = given.front() == '/' ? given : start.directory + "/" + given;
    const std::string target = target_path();
    check_files(internal::tune::check_shared_storage(start.checkpoints));
    for (;;) {
      const auto copied = internal::tune::copy_checkpoint(source, target);
      if (copied || copied.error().code != internal::ErrorCode::resource_exhausted) {
        check_files(copied);
        return target;
      }
      wait_for_space();
    }
  }

  Mutex mutex;
  CondVar changed;
  std::atomic<std::uint64_t> orders = 0;  // changed with the mutex
  TrialStart start;                       // written before the user's code starts
  const pid_t process = ::getpid();
  std::uint64_t begun MOBULA_GUARDED_BY(mutex) = 0;
  std::string node MOBULA_GUARDED_BY(mutex);  // empty until the first start
  TrialNews news MOBULA_GUARDED_BY(mutex);
  std::optional<Promise<TrialNews>> waiting MOBULA_GUARDED_BY(mutex);
  std::uint64_t waiting_start MOBULA_GUARDED_BY(mutex) = 0;  // start of its order
  std::int64_t reported MOBULA_GUARDED_BY(mutex) = 0;
  std::int64_t decided MOBULA_GUARDED_BY(mutex) = 0;
  bool stop MOBULA_GUARDED_BY(mutex) = false;
  bool save MOBULA_GUARDED_BY(mutex) = false;
  bool identify MOBULA_GUARDED_BY(mutex) = false;
  bool identified MOBULA_GUARDED_BY(mutex) = false;  // the driver knows the process
  TrialExit exit MOBULA_GUARDED_BY(mutex) = TrialExit::running;
  std::int64_t iteration MOBULA_GUARDED_BY(mutex) = 0;
  std::int64_t saved_iteration MOBULA_GUARDED_BY(mutex) = -1;
  int saves_of_iteration MOBULA_GUARDED_BY(mutex) = 0;
  double time_total_s MOBULA_GUARDED_BY(mutex) = 0;
  Clock::time_point last_report MOBULA_GUARDED_BY(mutex) = {};
};

namespace {

// The trial of this process, for the functions that user code calls without an object.
struct PresentTrial {
  using ReportFunction = std::function<void(const Metrics&, const ReportOptions&)>;

  Mutex mutex;
  // Shared with the threads that call it; null: no trial runs.
  std::shared_ptr<const ReportFunction> report MOBULA_GUARDED_BY(mutex);
  std::optional<TrialStart> start MOBULA_GUARDED_BY(mutex);
};

PresentTrial& present_trial() {
  static auto* const present = new PresentTrial;  // threads of user code may outlive main
  return *present;
}

TrialStart present_start(const char* operation) {
  PresentTrial& present = present_trial();
  const MutexLock lock(present.mutex);
  if (!present.start) refuse_tune(operation, "no trial runs in this process; call it in a trial");
  return *present.start;
}

}  // namespace

TrialProcess::TrialProcess() : state_(std::make_shared<State>()) {}
TrialProcess::~TrialProcess() = default;
TrialHandle::~TrialHandle() = default;

void TrialProcess::body(const Config& /*config*/) {}

void TrialProcess::run(const TrialStart& start) {
  State& state = *state_;
  {
    const MutexLock lock(state.mutex);
    state.begin(start.number);
    state.iteration = start.iteration;
    state.time_total_s = start.time_total_s;
    state.last_report = Clock::now();
    state.start = start;
    state.node = current().node_id;
  }
  state.deliver();
  PresentTrial& present = present_trial();
  {
    const MutexLock lock(present.mutex);
    present.start = start;
    present.report = std::make_shared<const PresentTrial::ReportFunction>(
        [shared = state_](const Metrics& metrics, const ReportOptions& options) {
          shared->report(metrics, options, {});
        });
  }
  TrialExit exit = TrialExit::returned;
  std::string error;
  try {
    check_files(internal::tune::make_directory(start.directory));
    if (!start.checkpoint.empty()) check_files(internal::tune::check_checkpoint(start.checkpoint));
    body(start.config);
  } catch (const TrialStopped&) {
    exit = TrialExit::stopped;
  } catch (const mobula::detail::ExitActor&) {
    exit = TrialExit::threw;
    error = "exit_actor() was called; return from the function in place of it";
  } catch (...) {
    exit = TrialExit::threw;
    error = text_of_current_exception();
  }
  {
    const MutexLock lock(present.mutex);
    present.start.reset();
    present.report = nullptr;
  }
  {
    const MutexLock lock(state.mutex);
    // A stopped trial may unwind with an error of a call that was cancelled.
    if (state.stop) exit = TrialExit::stopped;
    state.news.exit = exit;
    state.news.error = error;
  }
  state.deliver();
}

Deferred<TrialNews> TrialProcess::next(const TrialOrder& order) {
  Promise<TrialNews> promise;
  Deferred<TrialNews> deferred = promise.get_deferred();
  std::optional<Promise<TrialNews>> earlier;
  bool stops = false;
  {
    const MutexLock lock(state_->mutex);
    if (order.start < state_->begun) {  // late
      promise.set_value({});
      return deferred;
    }
    state_->begin(order.start);
    state_->decided = std::max(state_->decided, order.decided);
    stops = order.stop && !std::exchange(state_->stop, state_->stop || order.stop);
    state_->save = state_->save || order.save;
    state_->identify = state_->identify || order.identify;
    earlier = std::exchange(state_->waiting, std::move(promise));
    state_->waiting_start = order.start;
    ++state_->orders;
  }
  state_->changed.notify_all();
  if (stops) stop_requested();
  if (earlier) earlier->set_value({});
  state_->deliver();
  return deferred;
}

void TrialProcess::report_step(const Metrics& metrics,
                               const std::function<void(const std::string&)>& save) {
  state_->report(metrics, {}, save);
}

void TrialProcess::report_result(const Metrics& metrics) { state_->report(metrics, {}, {}); }

const TrialStart& TrialProcess::trial_start() const { return state_->start; }
std::string TrialProcess::checkpoint_path() const { return state_->start.checkpoint; }

WorkerBundles worker_bundles(int count) {
  const TrialStart start = present_start("workers");
  WorkerBundles bundles{.group = start.group, .first = start.first_worker};
  const auto& all = start.group.bundles();
  for (std::size_t i = static_cast<std::size_t>(start.first_worker); i < all.size(); ++i)
    bundles.bundles.push_back(all[i]);
  if (count < 1 || static_cast<std::size_t>(count) > bundles.bundles.size())
    refuse_tune("workers",
                fmt::format("{} workers requested, and the group of the trial has {} bundles for "
                            "workers; add bundles to resources_per_trial",
                            count, bundles.bundles.size()));
  return bundles;
}

}  // namespace mobula::tune::detail

namespace mobula::tune {

void report(const Metrics& metrics, const ReportOptions& options) {
  std::shared_ptr<const detail::PresentTrial::ReportFunction> call;
  {
    auto& present = detail::present_trial();
    const internal::MutexLock lock(present.mutex);
    call = present.report;
  }
  if (!call)
    internal::tune::refuse_tune("report", "no trial runs in this process; call it in a trial");
  (*call)(metrics, options);
}

std::optional<Checkpoint> get_checkpoint() {
  const std::string path = detail::present_start("get_checkpoint").checkpoint;
  if (path.empty()) return std::nullopt;
  return Checkpoint{path};
}

TuneContext get_context() {
  const detail::TrialStart start = detail::present_start("get_context");
  PlacementGroupFactory resources{.strategy = start.strategy};
  for (const auto& bundle : start.bundles)
    resources.bundles.emplace_back(bundle.begin(), bundle.end());
  return {.trial = start.trial,
          .experiment = start.experiment,
          .directory = start.directory,
          .seed = start.seed,
          .attempt = start.attempt,
          .resources = resources};
}

}  // namespace mobula::tune
