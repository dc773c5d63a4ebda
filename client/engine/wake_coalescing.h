// Decides whether an idle executor sleeps for a fixed 75 µs and then drains a batch of calls. A
// wake-up per call takes the processor from the caller each time. The gain is measured by trial. A
// waiting caller ends the sleep early (RingLinks::flush_deferred_wakes), so only other calls are
// delayed.
// Thread: owner (the leader).
#pragma once

#include <cstdint>

#include "base/time.h"

namespace mobula::internal::client {

class WakeCoalescer {
 public:
  static constexpr Duration length = 75us;  // the kernel adds its timer slack, by default 50 µs
  static constexpr std::uint64_t worth_it = 4;  // calls during one coalesced wake-up
  static constexpr int sleeps_between_tries = 32;

  // Called before each sleep. True: the sleep has a fixed length.
  bool next() {
    if (pays_) return true;
    if (++sleeps_ < sleeps_between_tries) return false;
    sleeps_ = 0;
    return true;
  }
  // Called after such a sleep with the number of calls that arrived during it.
  void woke(std::uint64_t calls) { pays_ = calls >= worth_it; }

 private:
  bool pays_ = false;
  int sleeps_ = 0;
};

}  // namespace mobula::internal::client
