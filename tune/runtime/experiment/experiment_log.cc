#include "tune/runtime/experiment/experiment_log.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>

namespace mobula::internal::tune {

std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

ExperimentLog::ExperimentLog() : signals_(std::make_unique<Signals>()) {
  signals_->event = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

StoreCallbacks ExperimentLog::callbacks() {
  Signals* signals = signals_.get();
  auto wake = [signals] {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(signals->event.get(), &one, sizeof(one));
  };
  auto set_problem = [signals](const std::string& why) {
    const MutexLock lock(signals->mutex);
    signals->problem = why;
  };
  StoreCallbacks made;
  made.persisted = [=](std::uint64_t upto) {
    set_problem({});
    signals->persisted.store(upto);
    wake();
  };
  made.delayed = [=](const std::string& why) {
    set_problem(why);
    wake();
  };
  made.failed = [=](const std::string& why) {
    set_problem(why);
    signals->failed.store(true);
    wake();
  };
  return made;
}

Result<std::unique_ptr<ExperimentLog>> ExperimentLog::create(const ExperimentLocation& location,
                                                             const StoredExperiment& experiment,
                                                             StoreOptions options) {
  std::unique_ptr<ExperimentLog> log(new ExperimentLog);
  auto store = ExperimentStore::create(location, experiment, log->callbacks(), options);
  if (!store) return store.error();
  log->store_ = std::move(*store);
  return log;
}

Result<std::unique_ptr<ExperimentLog>> ExperimentLog::resume(const ExperimentLocation& location,
                                                             ResumeState& stored,
                                                             StoreOptions options) {
  std::unique_ptr<ExperimentLog> log(new ExperimentLog);
  auto store = ExperimentStore::resume(location, log->callbacks(), options);
  if (!store) return store.error();
  log->store_ = std::move(*store);
  Result<ResumeState> loaded = log->store_->load_without_events();
  if (!loaded) return loaded.error();
  stored = std::move(*loaded);
  log->last_event_ = stored.last_event;
  return log;
}

Result<void> ExperimentLog::replay(EventNumber after,
                                   const std::function<void(const TimedEvent&)>& visit) {
  return store_->each_event(after, [&](const StoredEvent& stored) -> Result<void> {
    const Result<TimedEvent> event = load_event(stored.kind, stored.body);
    if (!event) return event.error();
    visit(*event);
    return {};
  });
}

void ExperimentLog::append(double now_s, const ExperimentEvent& event, std::uint64_t digest) {
  add(StoredEvent{.number = ++last_event_,
                  .kind = static_cast<std::int64_t>(event.index()),
                  .trial = trial_of_event(event),
                  .body = save_event(now_s, event, digest)});
}

std::uint64_t ExperimentLog::seal() {
  if (batch_.changes.empty()) return last_batch_;
  batch_.number = ++last_batch_;
  store_->write(std::exchange(batch_, {}));
  return last_batch_;
}

void ExperimentLog::drain() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(fd(), &count, sizeof(count));
}

void ExperimentLog::flush() {
  seal();
  store_->hurry();
  while (persisted() < last_batch_ && !failed()) {
    pollfd waited{.fd = fd(), .events = POLLIN, .revents = 0};
    ::poll(&waited, 1, -1);
    drain();
  }
}

std::string ExperimentLog::problem() const {
  const MutexLock lock(signals_->mutex);
  return signals_->problem;
}

}  // namespace mobula::internal::tune
