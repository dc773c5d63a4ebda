// `generator<T>`: the result type of a task or method that yields any number of values. The
// function is a coroutine with `co_yield`. Its caller gets an ObjectRefStream<T>.
// Thread: owner.
#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include <mobula/object_ref_stream.h>

namespace mobula {

// A coroutine that yields values of type T. It runs in the executor of its call, from one value to
// the next. Parameters that are references stay valid until it ends. When the call is cancelled, or
// no consumer is left, the coroutine is destroyed at its `co_yield`.
template <class T>
class [[nodiscard]] generator {
  static_assert(std::is_same_v<T, std::remove_cvref_t<T>> && !std::is_void_v<T>,
                "mobula: generator<T> needs a value type");

 public:
  // The type of the values.
  using value_type = T;

  // For the compiler.
  struct promise_type {
    // For the compiler.
    generator get_return_object() {
      return generator(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    // For the compiler.
    std::suspend_always initial_suspend() const noexcept { return {}; }
    // For the compiler.
    std::suspend_always final_suspend() const noexcept { return {}; }
    // For the compiler. The value lives in the frame until the coroutine continues.
    std::suspend_always yield_value(const T& value) noexcept {
      current = std::addressof(value);
      return {};
    }
    // For the compiler.
    void return_void() const noexcept {}
    // For the compiler.
    void unhandled_exception() { thrown = std::current_exception(); }
    // A generator cannot wait for refs: use `get`.
    template <class Awaited>
    std::suspend_never await_transform(Awaited&&) = delete;

    // The latest value.
    const T* current = nullptr;
    // The exception that ended the coroutine.
    std::exception_ptr thrown = {};
  };

  // Moves the coroutine. The other generator is empty.
  generator(generator&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  // Destroys this coroutine and moves the other one.
  generator& operator=(generator&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  // Destroys the coroutine.
  ~generator() {
    if (coroutine_) coroutine_.destroy();
  }

  // Runs to the next value, which is valid until the next call. Returns null at the end. Throws the
  // exception that leaves the coroutine.
  const T* next() {
    if (!coroutine_ || coroutine_.done()) return nullptr;
    coroutine_.resume();
    if (!coroutine_.done()) return coroutine_.promise().current;
    if (auto thrown = std::exchange(coroutine_.promise().thrown, {}))
      std::rethrow_exception(std::move(thrown));
    return nullptr;
  }

 private:
  explicit generator(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

}  // namespace mobula
