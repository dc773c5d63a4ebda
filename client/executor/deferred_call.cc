#include "client/executor/deferred_call.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/logging/stderr_queue.h"
#include "client/api/completion/callback_thread.h"
#include "client/api/exit_phase.h"
#include "client/engine/callee/callee_half.h"
#include "client/engine/conversion.h"
#include "client/executor/call_runner.h"

namespace mobula::internal::executor {

DeferredCall::DeferredCall(const Host& host, const RunCall& run,
                           std::shared_ptr<client::TaskContext> context, RefRecords reachable,
                           Time began, RanResults results)
    : host_(host),
      run_(run),
      context_(std::move(context)),
      reachable_(std::move(reachable)),
      began_(began),
      results_(std::move(results)) {
  results_.records.resize(run.call.form->num_returns);
}

// The runner owns the call until user_code_returned().
DeferredCall::~DeferredCall() {
  {
    const MutexLock lock(mutex_);
    if (completed_ || !detail::counts_refs()) return;
    completed_ = true;
  }
  finish({.error = client::make_error(detail::ErrorKind::task, detail::broken_promise_text)});
}

// ---- results -----------------------------------------------------------------------------------

bool DeferredCall::must_post(const detail::Outgoing& value) const {
  if (!detail::in_callback()) return false;
  return value.size_bytes() > inline_value_limit ||
         std::ranges::any_of(value.contained(), [](const detail::ContainedRef& each) {
           return each.kind == detail::RefKind::tensor;
         });
}

detail::Done DeferredCall::accept(std::size_t index, const detail::Outgoing& value) {
  if (index >= run_.call.form->num_returns) return std::nullopt;
  const bool is_large = value.size_bytes() > inline_value_limit;
  if (is_large) {
    const MutexLock lock(mutex_);
    if (completed_) return std::nullopt;
  }
  // The store is written without a lock, because that may block.
  const ObjectId object =
      is_large ? result_id(run_.call.task, static_cast<std::uint32_t>(index)) : ObjectId();
  client::HandedOver given;
  auto stored = host_.runtime->values().store_result(value, run_.call.form->tensors, object,
                                                     run_.caller, run_.call.caller_node, given);
  if (!stored.ok()) return stored.error();
  {
    const MutexLock lock(mutex_);
    auto& all = results_.given;
    std::ranges::move(given.tasks, std::back_inserter(all.tasks));
    std::ranges::move(given.objects, std::back_inserter(all.objects));
    std::ranges::move(given.pinned, std::back_inserter(all.pinned));
    if (!completed_) {
      results_.records[index] = std::move(stored).take();
      return std::nullopt;
    }
  }
  discard(stored.value());
  return std::nullopt;
}

// Another thread has completed the call with an error.
void DeferredCall::discard(const ValueRecord& record) {
  if (record.contained.empty() || record.in_store) return;
  auto lock = host_.runtime->engine().lock();
  host_.runtime->engine().step(client::UnpinRefs{record.contained, true});
}

bool DeferredCall::complete(detail::Outcome outcome) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(completed_, true)) {
      print_stderr("mobula: {}: the call is complete, and another completion is ignored",
                   run_.call.form->name);
      return false;
    }
    if (!returned_) {
      if (outcome.error || outcome.exit_actor || outcome.no_retry)
        outcome_ = std::make_unique<detail::Outcome>(std::move(outcome));
      return true;
    }
  }
  finish(std::move(outcome));
  return true;
}

void DeferredCall::user_code_returned() {
  std::unique_ptr<detail::Outcome> outcome;
  {
    const MutexLock lock(mutex_);
    returned_ = true;
    if (!completed_) return;
    outcome = std::move(outcome_);
  }
  finish(outcome ? std::move(*outcome) : detail::Outcome{});
}

void DeferredCall::finish(detail::Outcome outcome) {
  RanResults results;
  {
    const MutexLock lock(mutex_);
    results = std::move(results_);
  }
  auto& engine = host_.runtime->engine();
  results.run_time = monotonic_now() - began_;
  CallFinished finished =
      finished_call(run_, host_.node, engine, *context_, std::move(outcome), std::move(results));
  auto lock = engine.lock();
  auto arguments = release_arguments(run_.token, reachable_, *host_.runtime, lock);
  auto unsettled = begin_settling(finished, run_, *host_.runtime, std::move(arguments), lock);
  if (unsettled) {
    engine.callee()->settle_later(std::move(*unsettled));
    engine.check_unsettled();
  } else {
    engine.finish_call(std::move(finished));
  }
  if (host_.call_ended) host_.call_ended();
  if (engine.over_sockets() && !detail::in_callback()) engine.attend(lock, true);
}

// ---- cancellation and jobs ---------------------------------------------------------------------

void DeferredCall::on_cancel(std::weak_ptr<detail::Job> job) {
  auto& engine = host_.runtime->engine();
  const auto lock = engine.lock();
  if (engine.callee()->on_cancel(run_.token, job)) return;
  if (auto due = job.lock()) engine.run_callback(std::move(due));
}

void DeferredCall::post(std::shared_ptr<detail::Job> job) {
  auto& engine = host_.runtime->engine();
  const auto lock = engine.lock();
  engine.callee()->jobs(run_.group).add({std::move(job), context_});
  engine.notify();
}

void DeferredCall::post_at(std::chrono::steady_clock::time_point at,
                           std::shared_ptr<detail::Job> job) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch());
  auto& engine = host_.runtime->engine();
  const auto lock = engine.lock();
  engine.callee()
      ->jobs(run_.group)
      .add_at(Time::from_ns(since.count()), {std::move(job), context_});
  engine.notify();
}

void DeferredCall::set_waiting(bool on) {
  auto& engine = host_.runtime->engine();
  const auto lock = engine.lock();
  engine.call_blocked(run_.token, on);
}

}  // namespace mobula::internal::executor
