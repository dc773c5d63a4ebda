#include "worker/signer.h"

#include "base/time.h"

namespace mobula::internal::worker {
namespace {

// The agent's own ticket, which is short and renewed, limits the validity. A process may live for
// years.
constexpr std::int64_t ticket_life_ms = std::int64_t{10} * 366 * 24 * 60 * 60 * 1000;

}  // namespace

void Signer::use(std::string ticket, std::string head_signing_key) {
  ticket_ = std::move(ticket);
  clock_.received(ticket_, wall_clock_ms(), monotonic_now());
  head_signing_key_ = std::move(head_signing_key);
}

std::int64_t Signer::now_ms() const { return clock_.now_ms(wall_clock_ms(), monotonic_now()); }

std::string Signer::sign(const Principal& principal, ProcessId process,
                         const std::string& curve_key) const {
  Ticket ticket;
  ticket.principal = principal;
  ticket.process = process;
  ticket.node = node_;
  ticket.curve_key = curve_key;
  ticket.expires_ms = wall_clock_ms() + ticket_life_ms;
  return sign_ticket(ticket, keys_, ticket_);
}

}  // namespace mobula::internal::worker
