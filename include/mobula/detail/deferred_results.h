// The library's side of a call that is answered after its user code has returned: results, one
// error, or the exit of the actor, from any thread.
// Thread: any.
// Errors: records, never exceptions.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>

#include <mobula/detail/export.h>
#include <mobula/detail/registry.h>
#include <mobula/detail/runtime.h>
#include <mobula/detail/value.h>

namespace mobula::detail {

// A piece of work that the library runs once, without a lock.
class MOBULA_API Job {
 public:
  virtual ~Job();
  virtual void run() noexcept = 0;
};

// One deferred call; see ResultSink::defer. The call ends when its user code has returned and
// `complete` was called. If the last owner drops it before, it fails with a TaskError.
class MOBULA_API DeferredResults {
 public:
  virtual ~DeferredResults();

  // Stores result `index`, each once. May block for values that are not part of the reply, so a
  // thread with `must_post` posts a job that calls it.
  virtual Done accept(std::size_t index, const Outgoing& value) = 0;
  virtual bool must_post(const Outgoing& value) const = 0;
  // Completes the call. Without an error, all results were accepted. The first completion decides.
  // False: the call was complete before, which is logged.
  virtual bool complete(Outcome outcome) = 0;

  // Whether the call was cancelled. `on_cancel` runs the job once after that, on the thread that
  // runs the event loop; the caller owns the job.
  virtual bool cancelled() const = 0;
  virtual void on_cancel(std::weak_ptr<Job> job) = 0;

  // Runs a job on a thread that runs calls, with the context of this call, now or at a time.
  virtual void post(std::shared_ptr<Job> job) = 0;
  virtual void post_at(std::chrono::steady_clock::time_point at, std::shared_ptr<Job> job) = 0;
  // States that the call waits for objects, so that its CPU may be released (`on`), or runs again.
  virtual void set_waiting(bool on) = 0;
  virtual std::shared_ptr<const ContextRecord> context() const = 0;
};

inline constexpr char broken_promise_text[] =
    "the call was not completed: its promise was destroyed without a value and without an "
    "exception; keep the promise until set_value or set_exception";

// Converts the exception to the end of a call.
MOBULA_API Outcome outcome_of(std::exception_ptr thrown);

}  // namespace mobula::detail
