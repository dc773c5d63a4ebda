// Asynchronous actors: methods that are coroutines and return `Awaitable<T>`. One thread runs all
// calls of such an actor, and thousands of them can be suspended at one time.
// Thread: a coroutine runs and resumes on the thread of its actor, never on that of the event loop.
// Errors: TaskCancelledError from `co_await` once the call is cancelled, and the errors of the
// awaited ref, coroutine, or promise.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include <mobula/detail/coroutine_call.h>

// class Server {
//  public:
//   mobula::Awaitable<Reply> serve(Request request) {
//     const auto features = co_await load_.call<&Loader::features>(request.key);
//     co_await mobula::sleep_for(std::chrono::milliseconds(5));
//     co_return answer(request, features);
//   }
// };
namespace mobula {

// The result of a coroutine. A method or task that returns it is a deferred call. It can await
// refs, `Deferred`, `sleep_for`, and other `Awaitable` objects. It starts when it is awaited, or
// when the library runs the call.
template <class T>
class [[nodiscard]] Awaitable {
 public:
  // For the compiler.
  using promise_type = detail::AwaitablePromise<T>;

  // Moves the coroutine. The other object has none.
  Awaitable(Awaitable&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  // Moves the coroutine, and destroys that of this object.
  Awaitable& operator=(Awaitable&& other) noexcept {
    if (this == &other) return *this;
    if (coroutine_) coroutine_.destroy();
    coroutine_ = std::exchange(other.coroutine_, {});
    return *this;
  }
  // Destroys the coroutine.
  ~Awaitable() {
    if (coroutine_) coroutine_.destroy();
  }

  // For the library: awaits the coroutine in another one of the call.
  auto within(detail::CoroutineCall& call) && {
    struct Inner {
      Awaitable awaited;
      detail::CoroutineCall& call;
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) {
        awaited.coroutine_.promise().belong_to(call, waiting);
        return awaited.coroutine_;
      }
      T await_resume() { return awaited.coroutine_.promise().take(); }
    };
    return Inner{std::move(*this), call};
  }
  // For the library.
  const std::coroutine_handle<promise_type>& coroutine() const { return coroutine_; }

 private:
  friend promise_type;
  explicit Awaitable(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

// Suspends the coroutine for a time: `co_await sleep_for(std::chrono::seconds(1))`.
template <class Rep, class Period>
detail::TimedWait sleep_for(std::chrono::duration<Rep, Period> time) {
  return {std::chrono::steady_clock::now() +
          std::chrono::ceil<std::chrono::steady_clock::duration>(time)};
}

namespace detail {

// A call of a coroutine with its arguments, which live as long as the coroutine.
template <class T, bool split, class... P>
class RootCoroutine final : public CoroutineCall {
 public:
  RootCoroutine(std::shared_ptr<DeferredResults> results, std::span<const StoredValue> arguments)
      : RootCoroutine(std::move(results), arguments, std::index_sequence_for<P...>{}) {}

  template <class Function>
  void begin(Function& function) {
    coroutine_.emplace(
        std::apply([&](auto&... argument) { return function(argument.pass()...); }, *arguments_));
    coroutine_->coroutine().promise().belong_to(*this, {});
    start(coroutine_->coroutine());
  }

 private:
  template <std::size_t... I>
  RootCoroutine(std::shared_ptr<DeferredResults> results,
                [[maybe_unused]] std::span<const StoredValue> arguments, std::index_sequence<I...>)
      : CoroutineCall(std::move(results)), arguments_(std::in_place, arguments[I]...) {}

  Outcome finish() noexcept override {
    Outcome outcome;
    try {
      give(coroutine_->coroutine().promise());
    } catch (...) {
      outcome = outcome_of(std::current_exception());
    }
    coroutine_.reset();
    arguments_.reset();
    return outcome;
  }
  void give(CoroutineResult<T>& result) {
    DeferredResults& call = *results();
    if constexpr (std::is_void_v<T>) {
      result.take();
      give_deferred(call, 0, OutgoingValue<Nothing>(Nothing{}));
    } else if constexpr (!split) {
      const T value = result.take();
      give_deferred(call, 0, OutgoingValue<T>(value));
    } else if constexpr (is_array<T>) {
      const T value = result.take();
      for (std::size_t i = 0; i < value.size(); ++i)
        give_deferred(call, i, OutgoingValue<typename T::value_type>(value[i]));
    } else {
      const T value = result.take();
      std::apply(
          [&](const auto&... part) {
            std::size_t index = 0;
            (give_deferred(call, index++, OutgoingValue<std::remove_cvref_t<decltype(part)>>(part)),
             ...);
          },
          value);
    }
  }

  std::optional<std::tuple<Incoming<P>...>> arguments_;
  std::optional<Awaitable<T>> coroutine_;
};

template <class T>
struct ResultRefs<Awaitable<T>> : ResultRefs<T> {};
template <class T>
struct SplitResult<Awaitable<T>> : SplitResult<T> {};
template <class T>
inline constexpr bool is_deferred<Awaitable<T>> = true;

template <class T>
struct AnswerLater<Awaitable<T>> {
  template <bool split, class... P, class Function>
  static void run(const Invocation& call, TypeList<P...>, Function& function) {
    using Root = RootCoroutine<T, split, P...>;
    std::allocate_shared<Root>(BlockAllocator<Root>(), defer_call(call), call.arguments)
        ->begin(function);
  }
};

}  // namespace detail

}  // namespace mobula
