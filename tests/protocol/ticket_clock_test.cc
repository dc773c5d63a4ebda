#include "protocol/tickets/ticket_clock.h"

#include <gtest/gtest.h>

#include "protocol/codec/messages.h"
#include "protocol/tickets/ticket.h"

namespace mobula::internal {
namespace {

constexpr std::int64_t hour_ms = 3'600'000;
constexpr std::int64_t issued_ms = 1'700'000'000'000;

// A ticket as the head signs it for agents.
std::string agent_ticket(const SigningKeys& head, std::int64_t life_ms = 24 * hour_ms) {
  Ticket ticket;
  ticket.principal.role = Role::agent;
  ticket.expires_ms = issued_ms + life_ms;
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
  clock_.received("no ticket", issued_ms, after(0));
  EXPECT_EQ(clock_.now_ms(issued_ms + 50 * hour_ms, after(1)), issued_ms + 50 * hour_ms);
}

TEST_F(TicketClockTest, WallClockJumps_ClusterTimeCounts) {
  clock_.received(agent_ticket(head_), issued_ms, after(0));
  EXPECT_EQ(clock_.now_ms(issued_ms + hour_ms / 2, after(1)), issued_ms + hour_ms / 2);
  EXPECT_EQ(clock_.now_ms(issued_ms + 30 * hour_ms, after(1)), issued_ms + hour_ms);
}

TEST_F(TicketClockTest, TicketOfProcess_ExpiryOfSignerCounts) {
  Ticket own;
  own.principal.role = Role::executor;
  own.expires_ms = issued_ms + 10'000 * hour_ms;
  clock_.received(sign_ticket(own, agent_, agent_ticket(head_)), issued_ms, after(0));
  EXPECT_EQ(clock_.now_ms(issued_ms + 30 * hour_ms, after(2)), issued_ms + 2 * hour_ms);
}

// A token of one hour must not make tickets valid that expired hours ago.
TEST_F(TicketClockTest, ShortTicket_WallClockCounts) {
  clock_.received(agent_ticket(head_, hour_ms), issued_ms, after(0));
  EXPECT_EQ(clock_.now_ms(issued_ms + hour_ms / 2, after(1)), issued_ms + hour_ms / 2);
}

TEST_F(TicketClockTest, WallClockAheadAtReceipt_IsCorrected) {
  clock_.received(agent_ticket(head_), issued_ms + 50 * hour_ms, after(0));
  EXPECT_EQ(clock_.now_ms(issued_ms + 51 * hour_ms, after(1)), issued_ms + hour_ms);
}

}  // namespace
}  // namespace mobula::internal
