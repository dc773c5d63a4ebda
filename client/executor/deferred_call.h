// A call that is complete later than its user code returns: its results, error, and cancellation,
// from any thread. ResultSink::defer() of a running call makes one. Typed promises, coroutines, and
// calls of other languages are built on this interface, which handles opaque values only.
// Thread: any.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "client/engine/process_runtime.h"
#include "client/executor/core/executor_core.h"
#include "mobula/detail/deferred_results.h"

namespace mobula::internal::executor {

// The stored results of a call, the unfinished tasks behind refs in them, and its duration.
struct RanResults {
  Results records;
  client::HandedOver given;
  Duration run_time{};
};

// The executor core counts the call as running until CallFinished, so max_concurrency, planned
// exits, grace, and cancellation treat it as a running call. No thread belongs to it. It ends when
// `user_code_returned` and `complete` were both called, in any order, on the thread of the later
// one. If the last owner drops it before `complete`, it fails with a TaskError.
class DeferredCall final : public detail::DeferredResults {
 public:
  // Facts of the executor that all of its calls share.
  struct Host {
    std::shared_ptr<client::ProcessRuntime> runtime;  // shared with calls that outlive their user
    std::string node;                                 // hexadecimal id, for errors
    std::string class_name = {};                      // actors
    std::function<void()> call_ended = {};            // with the engine's lock held
  };

  // `reachable` are the refs that user code can reach through the arguments. `results` were
  // accepted before the call was deferred.
  DeferredCall(const Host& host, const RunCall& run, std::shared_ptr<client::TaskContext> context,
               RefRecords reachable, Time began, RanResults results);
  ~DeferredCall() override;
  DeferredCall(const DeferredCall&) = delete;
  DeferredCall& operator=(const DeferredCall&) = delete;

  detail::Done accept(std::size_t index, const detail::Outgoing& value) override;
  bool must_post(const detail::Outgoing& value) const override;
  bool complete(detail::Outcome outcome) override;
  bool cancelled() const override { return context_->cancelled.load(); }
  void on_cancel(std::weak_ptr<detail::Job> job) override;
  void post(std::shared_ptr<detail::Job> job) override;
  void post_at(std::chrono::steady_clock::time_point at, std::shared_ptr<detail::Job> job) override;
  void set_waiting(bool on) override;
  std::shared_ptr<const detail::ContextRecord> context() const override {
    return context_->record();
  }

  // The user code returned, and nothing of its frame refers to the arguments.
  void user_code_returned();

 private:
  void discard(const ValueRecord& record);
  void finish(detail::Outcome outcome);

  const Host& host_;  // lives as long as the process
  const RunCall run_;
  const std::shared_ptr<client::TaskContext> context_;  // shared with the engine and with jobs
  const RefRecords reachable_;
  const Time began_;

  Mutex mutex_;
  RanResults results_ MOBULA_GUARDED_BY(mutex_);
  // Set if it is not the plain end of a call and precedes the end of its user code.
  std::unique_ptr<detail::Outcome> outcome_ MOBULA_GUARDED_BY(mutex_);
  bool completed_ MOBULA_GUARDED_BY(mutex_) = false;
  bool returned_ MOBULA_GUARDED_BY(mutex_) = false;
};

}  // namespace mobula::internal::executor
