// Helpers of GoogleTest programs that are drivers themselves: one cluster of this machine for all
// of a program's tests.
// Thread: any. Errors: got() throws what mobula::get throws, and GetTimeoutError after 30 s.
#pragma once

#include <poll.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include <mobula/mobula.h>

namespace mobula::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr seconds wait_timeout{30};

template <class Refs>
auto got(const Refs& refs) {
  return mobula::get(refs, wait_timeout);
}

// True as soon as `condition` is, false after 20 s.
inline bool becomes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

// True as soon as `call` throws an E: for an end that another process has requested and that takes
// a moment.
template <class E>
bool throws_soon(const std::function<void()>& call) {
  return becomes_true([&] {
    try {
      call();
      return false;
    } catch (const E&) {
      return true;
    }
  });
}

inline bool process_exists(std::int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) == 0; }

template <class T>
bool is_pending(const ObjectRef<T>& ref) {
  return mobula::wait({ref}, {.timeout = milliseconds(50)}).ready.empty();
}

// Actor whose wait() calls return after open(). Make it with `gate_options`.
class Gate {
 public:
  bool wait() {
    open_.wait(false);
    return true;
  }
  void open() {
    open_ = true;
    open_.notify_all();
  }
  int waiters_after(int count) { return arrived_ += count; }

 private:
  std::atomic<bool> open_ = false;
  std::atomic<int> arrived_ = 0;
};

inline ActorHandle<Gate> make_gate() {
  return mobula::actor<Gate>.options({.max_concurrency = 16}).remote();
}

// Runs until it is cancelled or its process ends.
inline int runs_until_cancelled() {
  while (!mobula::current().cancelled()) ::poll(nullptr, 0, 1);
  return 0;
}

}  // namespace mobula::testing
