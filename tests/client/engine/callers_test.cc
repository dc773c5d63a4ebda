// Authentication of callers, and their removal.
#include "client/engine/callee/callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/codec/messages.h"
#include "protocol/tickets/ticket.h"

namespace mobula::internal::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t now_ms = 1'700'000'000'000;
constexpr std::int64_t minute_ms = 60'000;
const std::string bus_key(40, 'k');

class CallersTest : public testing::Test {
 protected:
  // A ticket of a driver whose agent was admitted by this key.
  std::string ticket(std::uint64_t process, const std::string& admitted_as,
                     std::int64_t agents_end_ms = now_ms + minute_ms) {
    Ticket of_agent;
    of_agent.principal.role = Role::driver_agent;
    of_agent.principal.name = "wheel";
    of_agent.process = ProcessId::of(7);
    of_agent.node = NodeId::of(1);
    of_agent.delegated_key = agent.public_key;
    of_agent.expires_ms = agents_end_ms;
    of_agent.admitted_as = admitted_as;
    Ticket own;
    own.principal.role = role;
    own.principal.job = JobId::of(1);
    own.process = ProcessId::of(process);
    own.node = NodeId::of(1);
    own.curve_key = bus_key;
    own.expires_ms = now_ms + 1000 * minute_ms;
    own.admitted_as = "agent:default";  // its own statement is ignored
    return sign_ticket(own, agent, sign_ticket(of_agent, head));
  }
  Result<ProcessId> greets(std::uint64_t connection, std::uint64_t process,
                           const std::string& shown) {
    const PeerOrigin origin{
        .accepted = true, .local = false, .user_id = "unproven", .public_key = bus_key};
    return callers.greet(PeerHandle{connection}, origin,
                         encode(PeerHello{protocol_version, ProcessId::of(process), shown}),
                         now_ms);
  }

  Role role = Role::driver;
  const SigningKeys head = SigningKeys::generate();
  const SigningKeys agent = SigningKeys::generate();
  Callers callers{head.public_key, JobId::of(1), false};
};

TEST_F(CallersTest, KeyRevoked_DisconnectsAndRejectsCaller) {
  ASSERT_TRUE(greets(1, 20, ticket(20, "token:aa")).ok());
  ASSERT_TRUE(greets(2, 21, ticket(21, "token:bb")).ok());
  EXPECT_THAT(callers.cut({"token:aa"}), ElementsAre(ProcessId::of(20)));
  EXPECT_EQ(callers.find(PeerHandle{1}), nullptr);
  EXPECT_FALSE(callers.connection_of(ProcessId::of(20)));
  ASSERT_NE(callers.find(PeerHandle{2}), nullptr);
  // The same ticket, and a new one of another process, signed by the same agent.
  for (const std::uint64_t process : {20, 22}) {
    const auto again = greets(3, process, ticket(process, "token:aa"));
    ASSERT_FALSE(again.ok());
    EXPECT_THAT(again.error().text, HasSubstr("revoked"));
  }
  EXPECT_THAT(callers.cut({"token:aa"}), IsEmpty());
}

TEST_F(CallersTest, AgentDied_DropsItsExecutorsOnly) {
  ASSERT_TRUE(greets(1, 20, ticket(20, "token:aa")).ok());
  role = Role::executor;
  ASSERT_TRUE(greets(2, 21, ticket(21, "token:aa")).ok());
  EXPECT_EQ(callers.agent_of(PeerHandle{1}), ProcessId());
  EXPECT_EQ(callers.agent_of(PeerHandle{2}), ProcessId::of(7));
  callers.dead(ProcessId::of(7));
  EXPECT_NE(callers.find(PeerHandle{1}), nullptr);
  EXPECT_EQ(callers.find(PeerHandle{2}), nullptr);
  EXPECT_FALSE(callers.connection_of(ProcessId::of(21)));
}

TEST_F(CallersTest, AgentTicketExpired_RejectsCaller) {
  const auto late = greets(1, 20, ticket(20, "token:aa", now_ms - 6 * minute_ms));
  ASSERT_FALSE(late.ok());
  EXPECT_THAT(late.error().text, HasSubstr("expired"));
  // After renewal, the process presents its own ticket with its agent's new one.
  const std::string old = ticket(20, "token:aa", now_ms - 6 * minute_ms);
  Ticket renewed;
  renewed.principal.role = Role::driver_agent;
  renewed.node = NodeId::of(1);
  renewed.delegated_key = agent.public_key;
  renewed.expires_ms = now_ms + minute_ms;
  EXPECT_TRUE(greets(1, 20, with_signer(old, sign_ticket(renewed, head))).ok());
}

TEST_F(CallersTest, NewHandshake_ReplacesEarlierConnection) {
  ASSERT_TRUE(greets(1, 20, ticket(20, "token:aa")).ok());
  ASSERT_TRUE(greets(2, 20, ticket(20, "token:aa")).ok());
  EXPECT_EQ(callers.find(PeerHandle{1}), nullptr);
  EXPECT_EQ(callers.connection_of(ProcessId::of(20)), PeerHandle{2});
  callers.gone(PeerHandle{1});
  EXPECT_EQ(callers.connection_of(ProcessId::of(20)), PeerHandle{2});
}

TEST_F(CallersTest, RejectsInvalidHandshakes) {
  EXPECT_FALSE(greets(1, 21, ticket(20, "token:aa")).ok());
  Callers other(head.public_key, JobId::of(2), false);
  const PeerOrigin origin{.accepted = true, .local = true, .user_id = {}, .public_key = {}};
  const Bytes hello =
      encode(PeerHello{protocol_version, ProcessId::of(20), ticket(20, "token:aa")});
  EXPECT_THAT(other.greet(PeerHandle{1}, origin, hello, now_ms).error().text,
              HasSubstr("another job"));
  Callers of_actor(head.public_key, JobId::of(2), true);
  EXPECT_TRUE(of_actor.greet(PeerHandle{1}, origin, hello, now_ms).ok());
  EXPECT_EQ(callers.greet(PeerHandle{1}, origin, std::span(hello).first(3), now_ms).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(callers.greet(PeerHandle{1}, origin, Bytes(5000), now_ms).error().code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace mobula::internal::client
