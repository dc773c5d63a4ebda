#include "protocol/ticket_clock.h"

#include <gtest/gtest.h>

#include "protocol/messages.h"
#include "protocol/ticket.h"

namespace mobula::internal {
namespace {

constexpr std::int64_t hour_ms = 3'600'000;
constexpr std::int64_t issued_ms = 1'700'000'000'000;

// As the head signs them for agents.
std::string agent_ticket(const SigningKeys& head) {
  Ticket ticket;
  ticket.principal.role = Role::agent;
  ticket.expires_ms = issued_ms + 24 * hour_ms;
  return sign_ticket(ticket, head);
}

class TicketClockTest : public ::testing::Test {
 protected:
  static Time after(std::int64_t hours) { return Time() + std::chrono::hours(1'000 + hours); }

  const SigningKeys head_ = SigningKeys::generate();
  const SigningKeys agent_ = SigningKeys::generate();
  TicketClock clock_;
};

TEST_F(TicketClockTest, FollowsWallClockWithoutTicket) {
  EXPECT_EQ(clock_.now_ms(issued_ms, after(0)), issued_ms);
  clock_.received("no ticket", after(0));
  EXPECT_EQ(clock_.now_ms(issued_ms + 50 * hour_ms, after(1)), issued_ms + 50 * hour_ms);
}

TEST_F(TicketClockTest, WallClockJumps_TimeOfClusterCounts) {
  clock_.received(agent_ticket(head_), after(0));
  EXPECT_EQ(clock_.now_ms(issued_ms + hour_ms / 2, after(1)), issued_ms + hour_ms / 2);
  EXPECT_EQ(clock_.now_ms(issued_ms + 30 * hour_ms, after(1)), issued_ms + hour_ms);
}

TEST_F(TicketClockTest, TicketOfProcess_SignersEndCounts) {
  Ticket own;
  own.principal.role = Role::executor;
  own.expires_ms = issued_ms + 10'000 * hour_ms;
  clock_.received(sign_ticket(own, agent_, agent_ticket(head_)), after(0));
  EXPECT_EQ(clock_.now_ms(issued_ms + 30 * hour_ms, after(2)), issued_ms + 2 * hour_ms);
}

}  // namespace
}  // namespace mobula::internal
