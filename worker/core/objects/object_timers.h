// Deadlines of objects in order of time. A timer has no effect if the row of its object contains
// another deadline.
// Thread: owner (Objects).
#pragma once

#include <optional>
#include <set>

#include "base/id.h"
#include "worker/core/outbox.h"

namespace mobula::internal::worker {

class ObjectTimers {
 public:
  enum class Kind : unsigned char { claim, locate, orphan };
  struct Timer {
    Time at;
    Kind kind;
    ObjectId object;
    friend auto operator<=>(const Timer&, const Timer&) = default;
  };

  explicit ObjectTimers(Outbox& outbox) : outbox_(outbox) {}

  Time start(ObjectId object, Kind kind, Duration delay) {
    const Time at = outbox_.now() + delay;
    timers_.insert({at, kind, object});
    return at;
  }
  // Removes and returns the earliest timer, if it is due.
  std::optional<Timer> take_due() {
    if (timers_.empty() || timers_.begin()->at > outbox_.now()) return std::nullopt;
    return timers_.extract(timers_.begin()).value();
  }
  std::optional<Time> next_deadline() const {
    return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->at);
  }

 private:
  Outbox& outbox_;
  std::set<Timer> timers_;
};

}  // namespace mobula::internal::worker
