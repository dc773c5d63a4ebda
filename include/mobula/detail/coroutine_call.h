// Coroutines of a call: suspension, resumption on the thread that runs calls, and cancellation.
// Thread: the one that runs calls, except where a function states its thread.
// Errors: TaskCancelledError once the call is cancelled.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <mobula/deferred.h>
#include <mobula/detail/block_allocator.h>
#include <mobula/on_ready.h>

namespace mobula {

template <class T = void>
class Awaitable;
template <class T>
class ObjectRefStream;

namespace detail {

// One call with its chain of coroutines, of which the innermost may be suspended. It owns itself
// from start() until the call is complete.
// Thread: the one that runs calls, except for `run`.
class MOBULA_API CoroutineCall : public Job, public std::enable_shared_from_this<CoroutineCall> {
 public:
  explicit CoroutineCall(std::shared_ptr<DeferredResults> results);
  ~CoroutineCall() override;

  const std::shared_ptr<DeferredResults>& results() const { return results_; }
  bool is_cancelled() const { return cancelled_; }
  // Throws TaskCancelledError.
  void refuse_if_cancelled() const;

  // The coroutine is suspended. The returned job resumes it, unless it was resumed before.
  std::shared_ptr<Job> suspend(std::coroutine_handle<> coroutine);
  // The awaiter did not begin its wait.
  void forget_suspension() { waiting_ = {}; }
  void wake(std::uint64_t suspension);
  void coroutine_ended() { ended_ = true; }

  // The call is cancelled. Runs on the event loop's thread first, then on the call's own.
  void run() noexcept override;

 protected:
  void start(std::coroutine_handle<> coroutine);
  // Passes the result on. The last use of the coroutine and of the arguments.
  virtual Outcome finish() noexcept = 0;

 private:
  void resume(std::coroutine_handle<> coroutine);

  const std::shared_ptr<DeferredResults> results_;
  std::shared_ptr<CoroutineCall> self_;
  std::coroutine_handle<> waiting_;
  std::uint64_t suspension_ = 0;
  bool cancelled_ = false;
  bool cancel_posted_ = false;  // used by the event loop's thread, then by the call's own
  bool ended_ = false;
};

// Suspends the coroutine until an object is ready.
class ReadySuspension {
 public:
  ReadySuspension(CoroutineCall& call, AnyRef any) : call_(call), any_(std::move(any)) {}
  ReadySuspension(const ReadySuspension&) = delete;
  ReadySuspension& operator=(const ReadySuspension&) = delete;

  bool await_ready() const {
    if (detail::is_ready(any_)) return true;
    call_.refuse_if_cancelled();
    return false;
  }
  void await_suspend(std::coroutine_handle<> waiting) {
    const auto wake = [results = call_.results(), job = call_.suspend(waiting)] {
      results->post(job);
    };
    const auto state =
        make_subscription([wake](std::size_t) { wake(); }, wake, {}, CallSite{"co_await", 0});
    subscription_ = Subscription(state);
    try {
      start(state, {&any_, 1});
    } catch (...) {
      call_.forget_suspension();
      throw;
    }
    call_.results()->set_waiting(true);
    waits_ = true;
  }

 protected:
  void end_wait() {
    subscription_.cancel();
    if (!waits_) return;
    call_.results()->set_waiting(false);
    call_.refuse_if_cancelled();
  }

 private:
  CoroutineCall& call_;
  const AnyRef any_;
  Subscription subscription_;
  bool waits_ = false;
};

template <class T>
class RefSuspension : public ReadySuspension {
 public:
  RefSuspension(CoroutineCall& call, const ObjectRef<T>& ref)
      : ReadySuspension(call, ref), ref_(ref) {}
  T await_resume() {
    end_wait();
    return ref_.get();
  }

 private:
  const ObjectRef<T> ref_;
};

// Returns the next item, or no ref at the end.
template <class T>
class StreamSuspension : public ReadySuspension {
 public:
  StreamSuspension(CoroutineCall& call, ObjectRefStream<T>& stream)
      : ReadySuspension(call, stream), stream_(stream) {}
  std::optional<ObjectRef<T>> await_resume() {
    end_wait();
    return stream_.next();
  }

 private:
  ObjectRefStream<T>& stream_;
};

template <class T>
class PromiseSuspension {
 public:
  PromiseSuspension(CoroutineCall& call, std::shared_ptr<PromiseValue<T>> state)
      : call_(call), state_(std::move(state)) {
    if (!state_) refuse_empty_promise();
  }

  bool await_ready() const {
    if (state_->is_complete()) return true;
    call_.refuse_if_cancelled();
    return false;
  }
  void await_suspend(std::coroutine_handle<> waiting) {
    try {
      state_->notify(call_.results(), call_.suspend(waiting));
    } catch (...) {
      call_.forget_suspension();
      throw;
    }
  }
  T await_resume() {
    if (!state_->is_complete()) call_.refuse_if_cancelled();
    state_->rethrow_error();
    if constexpr (!std::is_void_v<T>) return std::move(*state_->value);
  }

 private:
  CoroutineCall& call_;
  const std::shared_ptr<PromiseValue<T>> state_;
};

struct TimedWait {
  std::chrono::steady_clock::time_point until = {};
};

class TimedSuspension {
 public:
  TimedSuspension(CoroutineCall& call, TimedWait wait) : call_(call), wait_(wait) {}

  bool await_ready() const {
    call_.refuse_if_cancelled();
    return false;
  }
  void await_suspend(std::coroutine_handle<> waiting) {
    call_.results()->post_at(wait_.until, call_.suspend(waiting));
  }
  void await_resume() const { call_.refuse_if_cancelled(); }

 private:
  CoroutineCall& call_;
  const TimedWait wait_;
};

class CoroutinePromise {
 public:
  static void* operator new(std::size_t bytes) { return take_block(bytes); }
  static void operator delete(void* block, std::size_t bytes) { give_block(block, bytes); }

  struct Final {
    bool await_ready() noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> ended) noexcept {
      CoroutinePromise& promise = ended.promise();
      if (promise.continuation_) return promise.continuation_;
      promise.call_->coroutine_ended();
      return std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };

  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() { error_ = std::current_exception(); }
  void rethrow_error() const {
    if (error_) std::rethrow_exception(error_);
  }
  void belong_to(CoroutineCall& call, std::coroutine_handle<> continuation) {
    call_ = &call;
    continuation_ = continuation;
  }

  template <class T>
  auto await_transform(const ObjectRef<T>& ref) {
    return RefSuspension<T>(*call_, ref);
  }
  template <class T>
  auto await_transform(ObjectRefStream<T>& stream) {
    return StreamSuspension<T>(*call_, stream);
  }
  template <class T>
  auto await_transform(const Deferred<T>& deferred) {
    return PromiseSuspension<T>(*call_, deferred.state());
  }
  auto await_transform(TimedWait wait) { return TimedSuspension(*call_, wait); }
  template <class T>
  auto await_transform(Awaitable<T>&& inner) {
    return std::move(inner).within(*call_);
  }

 private:
  CoroutineCall* call_ = nullptr;  // owns the coroutine, directly or through its caller
  std::coroutine_handle<> continuation_;
  std::exception_ptr error_;
};

template <class T>
class CoroutineResult : public CoroutinePromise {
 public:
  template <class V>
  void return_value(V&& value) {
    value_.emplace(std::forward<V>(value));
  }
  T take() {
    rethrow_error();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class CoroutineResult<void> : public CoroutinePromise {
 public:
  void return_void() {}
  void take() const { rethrow_error(); }
};

template <class T>
class AwaitablePromise : public CoroutineResult<T> {
 public:
  Awaitable<T> get_return_object() {
    return Awaitable<T>(std::coroutine_handle<AwaitablePromise>::from_promise(*this));
  }
};

}  // namespace detail

}  // namespace mobula
