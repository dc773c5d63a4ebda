// The simulator's clock and its event queue, ordered by (time, sequence). No other part of the
// simulator has a clock. The actions are opaque to it.
// Thread: the simulator's only thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/time.h"

namespace mobula::internal::sim {

class Kernel {
 public:
  using Action = std::function<void()>;

  Time now() const { return now_; }
  std::uint64_t steps() const { return steps_; }

  // Runs `action` at `when`, or now if that time has passed. Actions at the same time run in the
  // order of these calls.
  void at(Time when, Action action);
  void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }
  // Runs the next action. Returns false if the queue is empty.
  bool step();

 private:
  struct Entry {
    Time when;
    std::uint64_t sequence;
    Action action;
    // Orders a heap with the earliest entry on top.
    bool operator<(const Entry& other) const {
      return when != other.when ? when > other.when : sequence > other.sequence;
    }
  };

  Time now_ = Time::from_ns(1'000'000'000);
  std::uint64_t sequence_ = 0;
  std::uint64_t steps_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace mobula::internal::sim
