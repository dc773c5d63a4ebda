// Runs a loop until a condition holds, with a deadline instead of a sleep.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "transport/loop/event_loop.h"

namespace mobula::internal {

// Runs the loop until `condition` holds. Returns false after `limit`.
inline bool turn_until(EventLoop& loop, const std::function<bool()>& condition,
                       Duration limit = 30s) {
  const Time deadline = monotonic_now() + limit;
  while (!condition()) {
    if (monotonic_now() > deadline) return false;
    loop.turn(10ms);
  }
  return true;
}

// Runs the loop for the whole `span`: for tests that an event does not occur.
inline void turn_for(EventLoop& loop, Duration span) {
  const Time deadline = monotonic_now() + span;
  while (monotonic_now() < deadline) loop.turn(10ms);
}

inline std::unique_ptr<EventLoop> make_loop(EventLoopOptions options = {}) {
  return EventLoop::create(options).value();
}

}  // namespace mobula::internal
