// `co_await ref`: suspends a coroutine until the ref holds a value or an error. `co_await stream`:
// until the stream has an item or ends.
// Thread: the coroutine resumes on the thread that runs the event loop, under the rules of
// callbacks in on_ready.h, also if the ref was ready before.
// Errors: the error that took the place of the value. NotInitializedError after shutdown(), which
// resumes the coroutines that still wait. InvalidRequestError for an empty ref, and for a value
// with tensors in another process, because their transfer would block.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <utility>

#include <mobula/errors.h>
#include <mobula/object_ref_stream.h>
#include <mobula/on_ready.h>

namespace mobula {

namespace detail {

// Suspends a coroutine until an object holds a value or an error.
class ReadyAwaiter {
 public:
  explicit ReadyAwaiter(AnyRef any) : any_(std::move(any)) {}
  ReadyAwaiter(const ReadyAwaiter&) = delete;
  ReadyAwaiter& operator=(const ReadyAwaiter&) = delete;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    const AnyRef any = any_;
    const auto resume = [waiting](std::size_t) { waiting.resume(); };
    const auto stop = [this, waiting] {
      stopped_ = true;
      waiting.resume();
    };
    const auto state = make_subscription(resume, stop, {}, CallSite{"co_await", 0});
    subscription_ = Subscription(state);
    start(state, {&any, 1});  // `this` may be destroyed before it returns
  }

 protected:
  void end_wait() {
    subscription_.cancel();
    if (stopped_) throw NotInitializedError("co_await: the cluster of this program has ended");
  }

 private:
  const AnyRef any_;
  Subscription subscription_;
  bool stopped_ = false;
};

template <class T>
class RefAwaiter : public ReadyAwaiter {
 public:
  explicit RefAwaiter(const ObjectRef<T>& ref) : ReadyAwaiter(ref), ref_(ref) {}
  T await_resume() {
    end_wait();
    return ref_.get();
  }

 private:
  const ObjectRef<T> ref_;
};

template <class T>
class StreamAwaiter : public ReadyAwaiter {
 public:
  explicit StreamAwaiter(ObjectRefStream<T>& stream) : ReadyAwaiter(stream), stream_(stream) {}
  std::optional<ObjectRef<T>> await_resume() {
    end_wait();
    return stream_.next();
  }

 private:
  ObjectRefStream<T>& stream_;
};

}  // namespace detail

// Waits for the value and returns it. The awaiting coroutine may be destroyed while it waits.
template <class T>
detail::RefAwaiter<T> operator co_await(const ObjectRef<T>& ref) {
  return detail::RefAwaiter<T>(ref);
}

// Waits for the next item of the stream, as `stream.next()`. The stream must live until the
// coroutine resumes.
template <class T>
detail::StreamAwaiter<T> operator co_await(ObjectRefStream<T>& stream) {
  return detail::StreamAwaiter<T>(stream);
}

}  // namespace mobula
