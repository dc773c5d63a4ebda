// When a loop's timer is to ring, asked for by threads that cannot arm it: they have the loop woken where it has to.
// What was asked for is armed, whether it is still due by then or not. What comes and goes with each call, as
// acknowledgements that ride on the next message do, would else wake the loop for each call and be gone when it
// looks. Pure; guarded by its owner's lock.
#pragma once

#include <optional>
#include <utility>

#include "base/time.h"

namespace mobula::internal::client {

class RingTime {
 public:
  // Something is due then, if anything is. Whether the timer would ring too late for it.
  bool want(std::optional<Time> due) {
    if (!due || (armed_ && *armed_ <= *due)) return false;
    if (!wanted_ || *due < *wanted_) wanted_ = due;
    return true;
  }
  // What to arm the timer for, once; nothing where it stands well. One that has become later is found when the timer
  // rings for nothing: rarer than calls begin and end.
  std::optional<Time> take() {
    if (wanted_) armed_ = wanted_;
    return std::exchange(wanted_, std::nullopt);
  }
  void rang() { armed_.reset(); }

 private:
  std::optional<Time> armed_, wanted_;
};

}  // namespace mobula::internal::client
