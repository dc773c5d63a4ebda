// Deadline of a loop's timer, set by threads that cannot arm it and wake the loop if necessary. A
// timer armed earlier than needed is kept. Otherwise short-lived deadlines, such as those of
// acknowledgements, would wake the loop for each call.
// Thread: owner, under the owner's lock.
#pragma once

#include <optional>
#include <utility>

#include "base/time.h"

namespace mobula::internal::client {

class ArmedDeadline {
 public:
  // Sets the deadline. True if the timer is armed too late for it.
  bool want(std::optional<Time> due) {
    if (!due || (armed_ && *armed_ <= *due)) return false;
    if (!wanted_ || *due < *wanted_) wanted_ = due;
    return true;
  }
  // The time to arm the timer for, returned once. Empty: the timer stays as it is. A deadline that
  // moved later is found when the timer expires early, which is rarer than calls.
  std::optional<Time> take() {
    if (wanted_) armed_ = wanted_;
    return std::exchange(wanted_, std::nullopt);
  }
  void rang() { armed_.reset(); }

 private:
  std::optional<Time> armed_, wanted_;
};

}  // namespace mobula::internal::client
