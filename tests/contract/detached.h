// A coroutine that starts at once and is not awaited.
// Thread: that of the caller until its first wait, then that of the event loop.
#pragma once

#include <coroutine>
#include <exception>

namespace mobula::contract {

struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

}  // namespace mobula::contract
