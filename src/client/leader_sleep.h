// How the thread that leads sleeps at its doorbell: it looks for a while first, where the node has a
// processor for that; one that waits for calls may nap. What it learns about looking and napping is kept
// here. For the leader alone, of whom there is one at a time; no lock is needed.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "client/nap_habit.h"
#include "transport/doorbell.h"
#include "transport/spin_page.h"

namespace mobula::internal::client {

class LeaderSleep {
 public:
  enum class Until { rung, calls_have_gathered };

  // `number`: what its tickets go by. `longest_look` where the node says nothing.
  LeaderSleep(std::uint64_t number, Duration longest_look)
      : number_(number), longest_look_(longest_look), look_for_(longest_look) {}

  // Whether something was rung meanwhile. `page`: the node's, if it has one. Who may not look sleeps, and
  // learns nothing about how long to look.
  bool look(const Doorbell& bell, const SpinPage* page);
  // Looks, and sleeps if that was in vain, at most so long. Whether it napped: then napped() is due.
  bool sleep(Doorbell& bell, const SpinPage* page, std::optional<Duration> at_most, Until until);
  void napped(std::uint64_t calls) { naps_.woke(calls); }

 private:
  const std::uint64_t number_;
  const Duration longest_look_;
  Duration look_for_;  // the next time
  int sleeps_without_look_ = 0;
  NapHabit naps_;
};

}  // namespace mobula::internal::client
