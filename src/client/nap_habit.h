// Whether one that waits for calls sleeps for a moment whatever comes, instead of until the first call.
// Who is woken for each of many calls takes the processor from their caller each time: where calls come
// faster than a sleeper is woken, it is better to let a few of them gather. Whether they do is found
// out by trying. One that naps is woken early by a caller that waits (RingLinks::wake_nappers), so a nap
// delays only calls whose caller goes on to do something else.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace mobula::internal::client {

class NapHabit {
 public:
  static constexpr Duration length = 75us;  // and what the kernel adds: 50 us where nobody has told it otherwise
  static constexpr std::uint64_t worth_it = 4;  // calls in one nap
  static constexpr int sleeps_between_tries = 32;

  // Before it sleeps: whether by a nap.
  bool next() {
    if (pays_) return true;
    if (++sleeps_ < sleeps_between_tries) return false;
    sleeps_ = 0;
    return true;
  }
  // After a nap, and what came during it.
  void woke(std::uint64_t calls) { pays_ = calls >= worth_it; }

 private:
  bool pays_ = false;
  int sleeps_ = 0;
};

}  // namespace mobula::internal::client
