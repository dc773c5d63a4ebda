#include "protocol/tickets/ticket_clock.h"

#include <algorithm>

#include "protocol/tickets/ticket.h"

namespace mobula::internal {
namespace {

// Equal to HeadOptions::ticket_life.
constexpr std::int64_t ticket_life_ms = std::int64_t{24} * 60 * 60 * 1000;

}  // namespace

void TicketClock::received(const std::string& own_ticket, std::int64_t wall_ms, Time now) {
  const auto end_ms = end_of_agent_ticket(own_ticket);
  if (!end_ms) return;
  // A valid ticket that appears expired shows that the wall clock is ahead.
  received_ms_ = wall_ms < *end_ms ? wall_ms : *end_ms - ticket_life_ms;
  received_at_ = now;
}

std::int64_t TicketClock::now_ms(std::int64_t wall_ms, Time now) const {
  if (!received_ms_) return wall_ms;
  return std::min(wall_ms, *received_ms_ + (now - received_at_) / std::chrono::milliseconds(1));
}

}  // namespace mobula::internal
