// Promises of deferred calls.
#include <mobula/deferred.h>

#include <atomic>
#include <cstddef>
#include <utility>

#include <mobula/errors.h>

#include "base/containers/block_pool.h"
#include "base/logging/stderr_queue.h"
#include "base/mutex.h"

namespace mobula::detail {

Job::~Job() = default;
DeferredResults::~DeferredResults() = default;

namespace {

// Passes the request to cancel the call on to a stop source.
class StopJob final : public Job {
 public:
  explicit StopJob(std::stop_source source) : source_(std::move(source)) {}
  void run() noexcept override { (void)source_.request_stop(); }

 private:
  std::stop_source source_;
};

// Not registered, so the caller gets a TaskError.
class BrokenPromise final : public std::exception {
 public:
  const char* what() const noexcept override { return broken_promise_text; }
};

}  // namespace

struct PromiseState::Parts {
  // Each call of a promise has one.
  static void* operator new(std::size_t bytes) { return internal::RecycledBlocks::take(bytes); }
  static void operator delete(void* block, std::size_t bytes) {
    internal::RecycledBlocks::give(block, bytes);
  }

  std::atomic<bool> claimed = false;
  internal::Mutex mutex;
  bool complete MOBULA_GUARDED_BY(mutex) = false;
  bool used MOBULA_GUARDED_BY(mutex) = false;                      // attached or awaited
  std::shared_ptr<DeferredResults> call MOBULA_GUARDED_BY(mutex);  // shared with the coroutine
  std::shared_ptr<Job> awaiting MOBULA_GUARDED_BY(mutex);          // shared with the coroutine
  std::shared_ptr<Job> stop MOBULA_GUARDED_BY(mutex);              // shared while it runs
  std::optional<std::stop_source> stop_source MOBULA_GUARDED_BY(mutex);
  Deliver deliver = nullptr;  // set before `call`
  std::exception_ptr error;   // set before `complete`
};

PromiseState::PromiseState() : parts_(std::make_unique<Parts>()) {}
PromiseState::~PromiseState() = default;

bool PromiseState::claim() {
  if (!parts_->claimed.exchange(true)) return true;
  internal::print_stderr("mobula: a promise is complete, and another completion is ignored");
  return false;
}

void PromiseState::publish(std::exception_ptr error) {
  parts_->error = std::move(error);
  complete();
}

void PromiseState::abandon() noexcept {
  if (parts_->claimed.exchange(true)) return;
  parts_->error = std::make_exception_ptr(BrokenPromise());
  complete();
}

void PromiseState::complete() {
  std::shared_ptr<DeferredResults> call;
  std::shared_ptr<Job> awaiting;
  {
    const internal::MutexLock lock(parts_->mutex);
    parts_->complete = true;
    call = parts_->call;
    awaiting = std::move(parts_->awaiting);
  }
  if (!call) return;
  if (awaiting) return call->post(std::move(awaiting));
  deliver();
}

// By one thread at a time: the one that completes, or the one that attaches, and then perhaps a
// runner.
void PromiseState::deliver() noexcept {
  std::shared_ptr<DeferredResults> call;
  {
    const internal::MutexLock lock(parts_->mutex);
    call = parts_->call;
  }
  Outcome outcome;
  if (parts_->error) {
    outcome = outcome_of(parts_->error);
  } else {
    try {
      if (!parts_->deliver(*this, call)) return;
    } catch (...) {
      outcome = outcome_of(std::current_exception());
    }
  }
  (void)call->complete(std::move(outcome));
  const internal::MutexLock lock(parts_->mutex);
  parts_->call.reset();
}

void PromiseState::run() noexcept { deliver(); }

void PromiseState::attach(std::shared_ptr<DeferredResults> call, Deliver deliver_by) {
  std::shared_ptr<Job> stop;
  bool due = false;
  parts_->deliver = deliver_by;
  {
    const internal::MutexLock lock(parts_->mutex);
    if (std::exchange(parts_->used, true))
      throw InvalidRequestError("call: its mobula::Deferred was returned or awaited before");
    parts_->call = call;
    stop = parts_->stop;
    due = parts_->complete;
  }
  if (due) return deliver();
  if (stop) call->on_cancel(stop);
}

void PromiseState::notify(std::shared_ptr<DeferredResults> call, std::shared_ptr<Job> job) {
  {
    const internal::MutexLock lock(parts_->mutex);
    if (std::exchange(parts_->used, true))
      throw InvalidRequestError("co_await: the mobula::Deferred was returned or awaited before");
    if (!parts_->complete) {
      parts_->call = std::move(call);
      parts_->awaiting = std::move(job);
      return;
    }
  }
  call->post(std::move(job));
}

bool PromiseState::is_complete() const {
  const internal::MutexLock lock(parts_->mutex);
  return parts_->complete;
}

void PromiseState::rethrow_error() const {
  if (parts_->error) std::rethrow_exception(parts_->error);
}

std::stop_source PromiseState::stop_source() {
  std::shared_ptr<DeferredResults> call;
  std::shared_ptr<Job> stop;
  std::optional<std::stop_source> source;
  {
    const internal::MutexLock lock(parts_->mutex);
    source = parts_->stop_source;
    if (!source) {
      source.emplace();
      parts_->stop_source = source;
      parts_->stop = stop = std::make_shared<StopJob>(*source);
      call = parts_->call;
    }
  }
  if (call && stop) call->on_cancel(stop);
  return *source;
}

void refuse_empty_promise() {
  throw InvalidRequestError(
      "a mobula::Promise or mobula::Deferred without state: it was moved from");
}

}  // namespace mobula::detail
