// The time by which a process judges tickets of others: its wall clock, but no later than the time at which it
// received its own agent's ticket plus the age of that ticket by the monotonic clock. A wall clock that jumps ahead
// refuses no valid ticket. The head renews the ticket.
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
  void received(const std::string& own_ticket, std::int64_t wall_ms, Time now);
  std::int64_t now_ms(std::int64_t wall_ms, Time now) const;

 private:
  std::optional<std::int64_t> received_ms_;  // wall time of the receipt, corrected if it is after the end of the ticket
  Time received_at_;
};

}  // namespace mobula::internal
