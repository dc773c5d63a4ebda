// Reports to sinks that run user code: collected with the lock held, run by the thread that runs
// the event loop, without the lock.
#include "client/engine/process_engine.h"
#include "mobula/detail/deferred_results.h"

namespace mobula::internal::client {
namespace {

// Reports that run before other work of the loop.
constexpr std::size_t reports_at_a_time = 256;

}  // namespace

void ProcessEngine::carry_out(const ObjectReported& report) {
  completions_.report(report);
  if (completions_.has_pending()) schedule_callbacks();
}

void ProcessEngine::schedule_callbacks() {
  if (callbacks_scheduled_) return;
  callbacks_scheduled_ = loop().post([this] { run_callbacks(); }).ok();
  sockets_->thread().call_back();
}

// By the thread that has the loop.
void ProcessEngine::run_callbacks() {
  std::vector<Completions::Report> reports;
  {
    const auto held = lock();
    callbacks_scheduled_ = false;
    reports = completions_.take(reports_at_a_time);
  }
  {
    const CallbackScope scope;
    for (const auto& each : reports) {
      if (each.sink && !closed_) each.sink->run(each.token);
    }
  }
  const auto held = lock();
  for (const auto& each : reports) {
    if (!each.held) continue;
    unwant(each.object);
    release(each.object);
  }
  if (completions_.has_pending()) schedule_callbacks();
}

void ProcessEngine::run_callback(std::shared_ptr<detail::Job> job) {
  (void)loop().post([job = std::move(job)] {
    const CallbackScope scope;
    job->run();
  });
  sockets_->thread().call_back();
}

void ProcessEngine::end_subscriptions() {
  (void)sockets_->thread().run([this] { end_sinks(); });
}

// By the thread that has the loop: runs the reports that were collected before the stop, then
// notifies the sinks that wait for others.
void ProcessEngine::end_sinks() {
  for (bool more = true; more;) {
    run_callbacks();
    const auto held = lock();
    more = completions_.has_pending();
  }
  std::vector<Completions::SinkPtr> ended;
  {
    const auto held = lock();
    ended = completions_.end();
    notify();  // threads that wait for a report
  }
  const CallbackScope scope;
  for (const auto& sink : ended) sink->stopped();
}

}  // namespace mobula::internal::client
