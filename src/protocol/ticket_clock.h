// The time by which a process judges tickets of others: its wall clock, but no later than the time
// that its own agent's ticket implies. The head renews that ticket, so its age by the monotonic clock
// bounds the time of the cluster; a wall clock that is a day ahead refuses no valid ticket.
// Thread: owner. Units: milliseconds since 1970. Not: revocation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace mobula::internal {

class TicketClock {
 public:
  // The agent's ticket, or a ticket that it signed, which was received at `now`.
  void received(const std::string& own_ticket, Time now);
  std::int64_t now_ms(std::int64_t wall_ms, Time now) const;

 private:
  std::optional<std::int64_t> issued_ms_;  // at the latest, by the head's clock
  Time received_at_;
};

}  // namespace mobula::internal
