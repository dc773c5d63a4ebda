// The simulator's clock and its queue of what happens next, ordered by (time, sequence). One thread;
// nothing else in the simulator knows what time it is. Does not know what the actions mean.
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

  // Runs `action` at `when`, or now if that has passed; actions of one time in order of this call.
  void at(Time when, Action action);
  void after(Duration delay, Action action) { at(now_ + delay, std::move(action)); }
  // Runs the next action; false if there is none.
  bool step();

 private:
  struct Entry {
    Time when;
    std::uint64_t sequence;
    Action action;
    // Of a heap whose top is the earliest.
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
