// Notification when objects become ready, as a callback or through a queue with a file descriptor.
// Thread: any. Callbacks run on the thread that runs the event loop, without a lock.
// Errors: InvalidRequestError for an empty ref, NotInitializedError without a cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <mobula/detail/call_site.h>
#include <mobula/object_ref.h>
#include <mobula/options.h>

namespace mobula {

// A ref to a value of any type.
class AnyRef {
 public:
  // Creates a ref that refers to no object.
  AnyRef() = default;
  // Converts from a ref of any type.
  template <class T>
  AnyRef(const ObjectRef<T>& ref) : anchor_(ref.anchor()) {}  // NOLINT: implicit
  // For the library.
  explicit AnyRef(std::shared_ptr<const detail::Anchor> anchor) : anchor_(std::move(anchor)) {}

  // Reports whether the ref refers to no object.
  bool empty() const { return anchor_ == nullptr; }
  // For the library.
  const std::shared_ptr<const detail::Anchor>& anchor() const { return anchor_; }

 private:
  std::shared_ptr<const detail::Anchor> anchor_;
};

// Options of notifications.
struct OnReadyOptions {
  bool fetch_local = true;  // as WaitOptions::fetch_local
};

namespace detail {
class SubscriptionState;
}  // namespace detail

// A running notification. Ends with its destructor.
class [[nodiscard]] MOBULA_API Subscription {
 public:
  // Creates a subscription that has ended.
  Subscription() = default;
  // For the library.
  explicit Subscription(std::shared_ptr<detail::SubscriptionState> state);
  // Moves the subscription. The other one has ended.
  Subscription(Subscription&&) noexcept;
  // Ends this subscription and moves the other one.
  Subscription& operator=(Subscription&&) noexcept;
  ~Subscription();

  // Ends the subscription: afterwards the callback neither runs nor starts. Waits for a running
  // callback, except inside it.
  void cancel() noexcept;

 private:
  std::shared_ptr<detail::SubscriptionState> state_;
};

// Calls `callback(i)` once for each ref, when refs[i] holds a value or an error, never from inside
// `on_ready`. Two callbacks of a process never run at the same time. None runs after shutdown().
// A callback must not block: the process receives no message until it returns. It may call
// `remote`, `put` of small values, `on_ready`, `cancel`, and `get` of a ready ref. Calls that would
// block, and shutdown(), throw InvalidRequestError there. An exception that leaves it is logged
// with `site`.
MOBULA_API Subscription on_ready(std::span<const AnyRef> refs,
                                 std::function<void(std::size_t)> callback,
                                 const OnReadyOptions& options = {},
                                 detail::CallSite site = detail::CallSite::here());

namespace detail {

// Prepares a subscription; `stopped` is called in place of callbacks that a shutdown prevents.
MOBULA_API std::shared_ptr<SubscriptionState> make_subscription(
    std::function<void(std::size_t)> callback, std::function<void()> stopped,
    const OnReadyOptions& options, CallSite site);
// Reports whether the ref holds a value or an error that can be read without a wait.
MOBULA_API bool is_ready(const AnyRef& ref);
// Callbacks may run before it returns.
MOBULA_API void start(const std::shared_ptr<SubscriptionState>& subscription,
                      std::span<const AnyRef> refs);

}  // namespace detail

template <class T>
template <class F>
Subscription ObjectRef<T>::then(F f, detail::CallSite site) const {
  static_assert(std::is_invocable_v<F&, const ObjectRef<T>&>,
                "mobula: then takes a function that can be called with the ref");
  const AnyRef any(*this);
  auto call = [ref = *this, f = std::move(f)](std::size_t) mutable {
    f(static_cast<const ObjectRef<T>&>(ref));
  };
  return on_ready({&any, 1}, std::move(call), {}, site);
}

// A queue of the tokens of ready refs, for programs with their own loop. It runs no user code.
// Every added ref is reported once, when it holds a value or an error, in the order in which this
// process learns of the results. The queue holds a count of the object until then.
// After the cluster has ended, take, add, and remove throw NotInitializedError.
class MOBULA_API CompletionQueue {
 public:
  // Creates a queue of the cluster that this process has joined.
  explicit CompletionQueue(const OnReadyOptions& options = {});
  // Moves the refs and tokens. The other queue may only be destroyed or assigned to.
  CompletionQueue(CompletionQueue&&) noexcept;
  // Moves the refs and tokens, and drops those of this queue.
  CompletionQueue& operator=(CompletionQueue&&) noexcept;
  // No other thread may use the queue then.
  ~CompletionQueue();

  // Adds a ref. Several refs may have one token.
  void add(const AnyRef& ref, std::uint64_t token);
  // Removes all refs with this token, also ready ones. Their token is not returned afterwards.
  void remove(std::uint64_t token);
  // Moves the tokens of ready refs into `tokens`, at most tokens.size(), and returns their number.
  // Waits at most `timeout` for the first; returns 0 after it. In a task, a wait releases the CPU
  // as `wait` does, and throws TaskCancelledError when the task is cancelled.
  std::size_t take(std::span<std::uint64_t> tokens, Duration timeout = Duration::zero());
  // Returns the number of refs whose token was not taken.
  std::size_t outstanding() const;
  // Returns an eventfd that is readable while take() would return a token, and after the cluster
  // has ended. The queue owns it; only poll it. Throws std::system_error if none can be opened.
  int fd() const;

 private:
  struct State;
  State& state() const;
  void end() noexcept;

  std::shared_ptr<State> state_;
};

}  // namespace mobula
