// Deferred results: a function or method that returns `Deferred<T>` does not block its thread. Any
// thread completes the call later through the `Promise<T>`. The caller has an ordinary
// `ObjectRef<T>`. An incomplete call has no thread, but counts as running: for `max_concurrency`,
// for cancellation, and for the end of its process.
// Thread: any, one at a time per object. `current()` describes the call on the function's thread.
// Errors: InvalidRequestError for a promise without state. A promise that is destroyed before it is
// complete fails its call with a TaskError.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

#include <mobula/detail/call.h>
#include <mobula/detail/deferred_results.h>

// Deferred<Report> Trial::next_report() {
//   Promise<Report> promise;
//   auto deferred = promise.get_deferred();
//   waiting_.push_back(std::move(promise));  // later: waiting_.front().set_value(report)
//   return deferred;
// }
namespace mobula {

namespace detail {

// The state that a promise and its Deferred share. The value is written once, by the thread that
// claims the completion, and read by the thread that delivers it.
class MOBULA_API PromiseState : public Job, public std::enable_shared_from_this<PromiseState> {
 public:
  PromiseState();
  ~PromiseState() override;

  // True for the first completion. Later ones are logged.
  bool claim();
  // Follows claim() and the write of the value. Empty: the value was written.
  void publish(std::exception_ptr error = {});
  // The promise is destroyed.
  void abandon() noexcept;
  std::stop_source stop_source();

  // Passes the results to a call. Returns false if `run` must do so on another thread; the function
  // has then posted the state to that thread.
  using Deliver = bool (*)(PromiseState& state, const std::shared_ptr<DeferredResults>& call);
  // Sets the call that receives the results, after its function has returned. Called at most once,
  // and not together with `notify`.
  void attach(std::shared_ptr<DeferredResults> call, Deliver deliver);
  // Runs `job` by `call` once the state is complete. At most once.
  void notify(std::shared_ptr<DeferredResults> call, std::shared_ptr<Job> job);
  bool is_complete() const;
  // Valid once complete.
  void rethrow_error() const;

  // Delivers results whose storage may block. Called on a thread that runs calls.
  void run() noexcept override;

 private:
  struct Parts;
  void complete();
  void deliver() noexcept;

  const std::unique_ptr<Parts> parts_;
};

// Throws InvalidRequestError.
[[noreturn]] MOBULA_API void refuse_empty_promise();

template <class T>
class PromiseValue final : public PromiseState {
 public:
  using Stored = std::conditional_t<std::is_void_v<T>, Nothing, T>;
  std::optional<Stored> value = {};
};

// Stores one result. If that could block here, posts the state instead and returns false.
template <class E>
bool deliver_result(PromiseState& state, DeferredResults& call, std::size_t index, const E& value) {
  const OutgoingValue<E> outgoing(value);
  if (call.must_post(outgoing)) {
    call.post(state.shared_from_this());
    return false;
  }
  give_deferred(call, index, outgoing);
  return true;
}

template <class T, bool split>
bool deliver_value(PromiseState& state, const std::shared_ptr<DeferredResults>& call) {
  using Stored = typename PromiseValue<T>::Stored;
  const Stored& value = *static_cast<PromiseValue<T>&>(state).value;
  if constexpr (!split) {
    return deliver_result<Stored>(state, *call, 0, value);
  } else if constexpr (is_array<Stored>) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (!deliver_result(state, *call, i, value[i])) return false;
    }
    return true;
  } else {
    return std::apply(
        [&](const auto&... part) {
          std::size_t index = 0;
          return (deliver_result(state, *call, index++, part) && ...);
        },
        value);
  }
}

}  // namespace detail

template <class T>
class Promise;

// The result of a call that is answered later. Made by `Promise<T>::get_deferred`, and returned by
// the function or method.
template <class T>
class [[nodiscard]] Deferred {
 public:
  // Creates an object without a promise. A function must not return it.
  Deferred() = default;

  // Reports whether the object belongs to a promise.
  bool valid() const { return state_ != nullptr; }

  // For the library.
  const std::shared_ptr<detail::PromiseValue<T>>& state() const { return state_; }

 private:
  friend class Promise<T>;
  explicit Deferred(std::shared_ptr<detail::PromiseValue<T>> state) : state_(std::move(state)) {}

  std::shared_ptr<detail::PromiseValue<T>> state_;
};

namespace detail {

template <class T>
class PromiseBase {
 public:
  // Creates a promise that is not complete.
  PromiseBase() : state_(std::make_shared<PromiseValue<T>>()) {}
  // Moves the promise. The other one may only be destroyed or assigned to.
  PromiseBase(PromiseBase&&) noexcept = default;
  // Moves the promise. The earlier one of this object ends as if destroyed.
  PromiseBase& operator=(PromiseBase&& other) noexcept {
    if (this == &other) return *this;
    if (state_) state_->abandon();
    state_ = std::move(other.state_);
    return *this;
  }
  // An incomplete call fails with a TaskError.
  ~PromiseBase() {
    if (state_) state_->abandon();
  }

  // Completes the call with an exception, as if the function had thrown it. If the call is
  // complete, this has no effect except a log line.
  void set_exception(std::exception_ptr thrown) {
    if (state().claim()) state_->publish(std::move(thrown));
  }

  // Returns a token whose stop is requested when the call is cancelled. Its callbacks run on the
  // thread that runs the event loop, under the rules of callbacks in on_ready.h. They must not
  // throw.
  std::stop_token get_stop_token() { return state().stop_source().get_token(); }

 protected:
  PromiseValue<T>& state() const {
    if (!state_) refuse_empty_promise();
    return *state_;
  }

  std::shared_ptr<PromiseValue<T>> state_;
};

}  // namespace detail

// Completes one call. Any thread may use it, before or after the function returned. The first
// completion decides.
template <class T>
class Promise : public detail::PromiseBase<T> {
 public:
  // Returns the object that the function returns.
  Deferred<T> get_deferred() const { return Deferred<T>((this->state(), this->state_)); }

  // Completes the call with a value. If the call is complete, this has no effect except a log line.
  // May block for large values, except in callbacks.
  void set_value(T value) {
    if (!this->state().claim()) return;
    this->state_->value.emplace(std::move(value));
    this->state_->publish();
  }
};

// The same for calls without a value.
template <>
class Promise<void> : public detail::PromiseBase<void> {
 public:
  // Returns the object that the function returns.
  Deferred<void> get_deferred() const { return Deferred<void>((state(), state_)); }

  // Completes the call. If it is complete, this has no effect except a log line.
  void set_value() {
    if (!state().claim()) return;
    state_->value.emplace();
    state_->publish();
  }
};

namespace detail {

template <class T>
struct ResultRefs<Deferred<T>> : ResultRefs<T> {};
template <class T>
struct SplitResult<Deferred<T>> : SplitResult<T> {};
template <class T>
inline constexpr bool is_deferred<Deferred<T>> = true;

template <class T>
struct AnswerLater<Deferred<T>> {
  template <bool split, class... P, class Function>
  static void run(const Invocation& call, TypeList<P...>, Function& function) {
    const Deferred<T> deferred = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return pass_all<Deferred<T>>(function, Incoming<P>(call.arguments[I])...);
    }
    (std::index_sequence_for<P...>{});
    if (!deferred.valid()) refuse_empty_promise();
    deferred.state()->attach(defer_call(call), &deliver_value<T, split>);
  }
};

}  // namespace detail

}  // namespace mobula
