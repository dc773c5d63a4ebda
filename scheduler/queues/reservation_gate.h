// Reserves capacity for the request that has waited longest. If nothing returns for long, the
// reservation opens to all until one request has passed: the blockers may wait for work that the
// reservation excludes, as a task waits for its child. If that did not help, the next opening is
// later, and not before the passed work can have ended. Thus others cannot keep the capacity
// forever.
// Thread: owner (one core).
#pragma once

#include <optional>

#include "base/time.h"

namespace mobula::internal::scheduler {

struct ReservationGateSettings {
  Duration open_delay = std::chrono::seconds(10);  // time without a return
  // time without a return if a task is known to be blocked
  Duration open_delay_blocked = std::chrono::seconds(2);
  Duration longest = std::chrono::minutes(10);  // upper limit of the growing interval
  // duration of the opening after the first pass
  Duration open_for = std::chrono::milliseconds(100);
};

class ReservationGate {
 public:
  bool is_open() const { return open_; }

  // A part returned that was granted at that time: the reservation makes progress and closes.
  void came_back(Time granted_at);
  // Another request received a part while it was open.
  void passed(Time now);

  struct GateCheck {
    Time again;           // time of the next check
    bool opened = false;  // opened by this check
  };
  // `blocked`: some work on the reserved capacity is known to be blocked.
  GateCheck check(Time now, bool blocked, const ReservationGateSettings& settings);

 private:
  std::optional<Time> begun_at_;   // first check
  bool any_came_back_ = false;     // since the last check
  std::optional<Time> came_back_;  // earliest grant among returned passes
  Time quiet_since_;               // time of the last return or closing
  Duration stay_{};                // longest hold of a passed request that returned
  int in_vain_ = 0;                // closings since the last return
  bool open_ = false;
  std::optional<Time> passed_at_;  // first pass since it opened
};

}  // namespace mobula::internal::scheduler
