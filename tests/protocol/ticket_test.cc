#include "protocol/tickets/ticket.h"

#include <gtest/gtest.h>

#include "protocol/codec/codec.h"

namespace mobula::internal::test {
namespace {

constexpr std::int64_t now_ms = 1'700'000'000'000;
constexpr std::int64_t minute_ms = 60'000;

struct Authority {
  SigningKeys head = SigningKeys::generate();
  SigningKeys agent = SigningKeys::generate();

  Ticket agent_ticket(std::uint64_t node = 1) const {
    return {.principal = {.role = Role::agent, .name = "agent", .job = {}},
            .process = ProcessId::of(10 + node),
            .node = NodeId::of(node),
            .curve_key = std::string(40, 'k'),
            .delegated_key = agent.public_key,
            .expires_ms = now_ms + minute_ms};
  }
  static Ticket executor_ticket(std::uint64_t node = 1) {
    return {.principal = {.role = Role::executor, .name = "", .job = JobId::of(5)},
            .process = ProcessId::of(20),
            .node = NodeId::of(node),
            .curve_key = std::string(40, 'x'),
            .delegated_key = {},
            .expires_ms = now_ms + minute_ms};
  }
  std::string chain(const Ticket& ticket) const {
    return sign_ticket(ticket, agent, sign_ticket(agent_ticket(), head));
  }
};

void expect_refused(const Result<Ticket>& result, const std::string& why) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::permission_denied);
  EXPECT_NE(result.error().text.find(why), std::string::npos) << result.error().text;
}

TEST(Ticket, AcceptsTicketSignedByHead) {
  const Authority authority;
  const auto ticket = check_ticket(sign_ticket(authority.agent_ticket(), authority.head),
                                   authority.head.public_key, now_ms, {});
  ASSERT_TRUE(ticket.ok()) << ticket.error().text;
  EXPECT_TRUE(*ticket == authority.agent_ticket());
}

TEST(Ticket, AcceptsAgentTicketForOwnProcess) {
  const Authority authority;
  const auto ticket = check_ticket(authority.chain(Authority::executor_ticket()),
                                   authority.head.public_key, now_ms, {});
  ASSERT_TRUE(ticket.ok()) << ticket.error().text;
  EXPECT_TRUE(*ticket == Authority::executor_ticket());
}

TEST(Ticket, RejectsAgentTicketForAnotherNode) {
  const Authority authority;
  expect_refused(check_ticket(authority.chain(Authority::executor_ticket(2)),
                              authority.head.public_key, now_ms, {}),
                 "its own node");
}

TEST(Ticket, RejectsAgentTicketForAgent) {
  const Authority authority;
  expect_refused(check_ticket(authority.chain(authority.agent_ticket()), authority.head.public_key,
                              now_ms, {}),
                 "only for drivers and executors");
}

TEST(Ticket, RejectsTicketSignedByExecutor) {
  const Authority authority;
  const SigningKeys executor = SigningKeys::generate();
  const std::string signer = sign_ticket(Authority::executor_ticket(), authority.head);
  expect_refused(check_ticket(sign_ticket(Authority::executor_ticket(), executor, signer),
                              authority.head.public_key, now_ms, {}),
                 "may not sign");
}

TEST(Ticket, RejectsTicketOfAnotherCluster) {
  const Authority authority;
  const Authority other;
  expect_refused(check_ticket(sign_ticket(other.agent_ticket(), other.head),
                              authority.head.public_key, now_ms, {}),
                 "signature is not of this cluster");
  expect_refused(check_ticket(other.chain(Authority::executor_ticket()), authority.head.public_key,
                              now_ms, {}),
                 "signature is not of this cluster");
}

TEST(Ticket, RejectsAnyChangedBit) {
  const Authority authority;
  const std::string whole = authority.chain(Authority::executor_ticket());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    const auto ticket = check_ticket(changed, authority.head.public_key, now_ms, {});
    ASSERT_FALSE(ticket.ok()) << "byte " << at;
    EXPECT_EQ(ticket.error().code, ErrorCode::permission_denied);
  }
}

TEST(Ticket, ExpiredLongAgo_RejectsWithBothClocks) {
  const Authority authority;
  Ticket ticket = Authority::executor_ticket();
  ticket.expires_ms = now_ms - 5 * minute_ms - 1;
  const auto result = check_ticket(authority.chain(ticket), authority.head.public_key, now_ms, {});
  expect_refused(result, std::to_string(ticket.expires_ms));
  expect_refused(result, std::to_string(now_ms));
}

TEST(Ticket, ExpiredWithinSkew_IsAccepted) {
  const Authority authority;
  Ticket ticket = Authority::executor_ticket();
  ticket.expires_ms = now_ms - 5 * minute_ms;
  EXPECT_TRUE(check_ticket(authority.chain(ticket), authority.head.public_key, now_ms, {}).ok());
}

TEST(Ticket, RejectsTicketOfExpiredSigner) {
  const Authority authority;
  Ticket agent = authority.agent_ticket();
  agent.expires_ms = now_ms - 10 * minute_ms;
  const std::string chain = sign_ticket(Authority::executor_ticket(), authority.agent,
                                        sign_ticket(agent, authority.head));
  expect_refused(check_ticket(chain, authority.head.public_key, now_ms, {}), "it expired");
}

TEST(Ticket, RejectsLongerChain) {
  const Authority authority;
  const std::string deep = sign_ticket(Authority::executor_ticket(), authority.agent,
                                       authority.chain(Authority::executor_ticket()));
  expect_refused(check_ticket(deep, authority.head.public_key, now_ms, {}), "its chain");
}

TEST(Ticket, RejectsInvalidTicket) {
  const Authority authority;
  for (const std::string bytes : {"", "garbage", "\xdd\x7f\xff\xff\xff", "\x93\xa0\xa0\xa0"}) {
    expect_refused(check_ticket(bytes, authority.head.public_key, now_ms, {}), "ticket refused");
  }
  expect_refused(check_ticket(std::string(100'000, 'x'), authority.head.public_key, now_ms, {}),
                 "over the limit");
}

}  // namespace
}  // namespace mobula::internal::test
