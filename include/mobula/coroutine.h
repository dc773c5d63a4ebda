// `co_await ref`: suspends a coroutine until the ref holds a value or an error.
// Thread: the coroutine resumes on the thread that runs the event loop, under the rules of
// callbacks in on_ready.h, also if the ref was ready before.
// Errors: the error that took the place of the value. NotInitializedError after shutdown(), which
// resumes the coroutines that still wait. InvalidRequestError for an empty ref, and for a value
// with tensors in another process, because their transfer would block.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>

#include <mobula/errors.h>
#include <mobula/on_ready.h>

namespace mobula {

namespace detail {

template <class T>
class RefAwaiter {
 public:
  explicit RefAwaiter(ObjectRef<T> ref) : ref_(std::move(ref)) {}
  RefAwaiter(const RefAwaiter&) = delete;
  RefAwaiter& operator=(const RefAwaiter&) = delete;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    const AnyRef any(ref_);
    const auto resume = [waiting](std::size_t) { waiting.resume(); };
    const auto stop = [this, waiting] {
      stopped_ = true;
      waiting.resume();
    };
    const auto state = make_subscription(resume, stop, {}, CallSite{"co_await", 0});
    subscription_ = Subscription(state);
    start(state, {&any, 1});  // `this` may be destroyed before it returns
  }
  T await_resume() {
    subscription_.cancel();
    if (stopped_) throw NotInitializedError("co_await: the cluster of this program has ended");
    return ref_.get();
  }

 private:
  const ObjectRef<T> ref_;
  Subscription subscription_;
  bool stopped_ = false;
};

}  // namespace detail

// Waits for the value and returns it. The awaiting coroutine may be destroyed while it waits.
template <class T>
detail::RefAwaiter<T> operator co_await(const ObjectRef<T>& ref) {
  return detail::RefAwaiter<T>(ref);
}

}  // namespace mobula
