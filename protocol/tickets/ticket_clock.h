// The time for checks of tickets of other processes: the wall clock, limited to the receipt of the
// own agent's ticket plus its age by the monotonic clock. A wall clock that jumps ahead thus
// rejects no valid ticket. The head renews the ticket.
// Thread: owner.
// Units: milliseconds since 1970.
// Not: revocation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace mobula::internal {

class TicketClock {
 public:
  // Registers the ticket of the agent, or a ticket that it signed, received at `now`.
  void received(const std::string& own_ticket, std::int64_t wall_ms, Time now);
  std::int64_t now_ms(std::int64_t wall_ms, Time now) const;

 private:
  // wall time of the receipt, corrected if it is after the end of the ticket
  std::optional<std::int64_t> received_ms_;
  Time received_at_;
};

}  // namespace mobula::internal
