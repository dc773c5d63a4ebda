// A thread that waits for calls and never leads: other threads read the rings for it.
// Thread: owner, under the engine's lock.
#pragma once

#include <functional>
#include <optional>

#include "base/check.h"
#include "base/mutex.h"
#include "base/time.h"

namespace mobula::internal::client {

class ParkedThread {
 public:
  // Waits until `ready` or the deadline, without the lock. True if ready. One thread at a time.
  bool wait(MovableLock& lock, std::optional<Time> deadline, const std::function<bool()>& ready) {
    MOBULA_CHECK(ready_ == nullptr, "two threads park in one process");
    ready_ = &ready;
    bool overdue = false;
    while (!ready() && !overdue) {
      if (deadline) {
        const std::chrono::nanoseconds at(deadline->ns());
        overdue = !changed_.wait_until(lock, std::chrono::steady_clock::time_point{at});
      } else {
        changed_.wait(lock);
      }
    }
    ready_ = nullptr;
    return ready();
  }
  // Wakes the thread if it is ready.
  void notify() {
    if (ready_ != nullptr && (*ready_)()) changed_.notify_one();
  }

 private:
  const std::function<bool()>* ready_ = nullptr;  // null: no thread is parked
  CondVar changed_;
};

}  // namespace mobula::internal::client
