// Tests the end of tokens for the agents that they admitted, the ownership of nodes and jobs, and
// rate limits.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using TrustJson = nlohmann::json;

class Trust : public testing::Test {
 protected:
  // Creates a token and returns its user id.
  std::string token(const std::string& role, char of, std::int64_t expires_ms = 0) {
    const auto made = cluster.tool("token_create", "",
                                   TrustJson{{"role", role},
                                             {"public_key", std::string(40, of)},
                                             {"name", std::string(1, of)},
                                             {"expires_ms", expires_ms}}
                                       .dump());
    EXPECT_TRUE(made.ok) << made.text;
    const std::string id = TrustJson::parse(made.json)["token_id"];
    if (role == "agent") {  // a machine joins with the token
      ToolRequest request;
      request.verb = "join";
      request.argument = TrustJson{
          {"public_key", std::string(40, static_cast<char>(of - 32))},
          {"host", "h"}}.dump();
      cluster.step(ReceivedFromTool{42, Principal{Role::unproven, "ticket:" + id, {}}, request});
      EXPECT_TRUE(cluster.replies.back().ok) << cluster.replies.back().text;
    }
    return "token:" + id;
  }
  void revoke(char name) { ASSERT_TRUE(cluster.tool("token_revoke", "", std::string(1, name)).ok); }
  ToolReply send_query(Role role, const std::string& user_id, const std::string& verb,
                       const std::string& kind = {}, const std::string& argument = {}) {
    ToolRequest request;
    request.request = 5;
    request.verb = verb;
    request.kind = kind;
    request.argument = argument;
    cluster.step(ReceivedFromTool{42, Principal{role, "somebody", {}}, request, user_id});
    return cluster.replies.empty() ? ToolReply{} : cluster.replies.back();
  }
  std::vector<std::string> voided(TestAgent& of) {
    std::vector<std::string> keys;
    for (const auto& each : cluster.take<KeysRevoked>(of))
      keys.insert(keys.end(), each.keys.begin(), each.keys.end());
    return keys;
  }
  NodeState state(int node) {
    for (const auto& each : cluster.view().nodes) {
      if (each.node == NodeId::of(static_cast<unsigned>(node))) return each.state;
    }
    return NodeState::expected;
  }

  SmallCluster cluster;
  TestAgent& home = cluster.node_joins(1, SmallCluster::shape(4), Role::agent, "agent:default");
};

TEST_F(Trust, TokenRevoked_DriverDisconnectedEverywhere) {
  const std::string wheel = token("driver", 'd');
  auto& own = cluster.node_joins(2, {}, Role::driver_agent, wheel);
  cluster.driver_starts_job(own, 1);
  (void)cluster.take<PeersChanged>(home);
  revoke('d');
  EXPECT_EQ(state(2), NodeState::dead);
  ASSERT_TRUE(own.refused);
  EXPECT_EQ(own.refused->code, RefusalCode::permission);
  EXPECT_THAT(own.refused->why, HasSubstr("revoked"));
  EXPECT_THAT(voided(home), ElementsAre(wheel));
  // The driver does not return through another agent: its job has ended.
  const auto deaths = cluster.take<PeersChanged>(home);
  ASSERT_FALSE(deaths.empty());
  EXPECT_THAT(deaths.front().dead_processes, Contains(SmallCluster::driver(1)));
  ASSERT_EQ(cluster.view().jobs.size(), 1u);
  EXPECT_TRUE(cluster.view().jobs[0].ended);
}

TEST_F(Trust, LateNode_ReceivesRevokedKeysAfterRestart) {
  const std::string wheel = token("driver", 'd');
  revoke('d');
  cluster.restart_head();
  cluster.register_agent(home);
  EXPECT_THAT(home.registered->revoked_keys, ElementsAre(wheel));
  auto& late = cluster.node_joins(3, SmallCluster::shape(1), Role::agent, "agent:default");
  EXPECT_THAT(late.registered->revoked_keys, ElementsAre(wheel));
  // The revoked key is removed when no ticket from it can be valid.
  cluster.step(ClockMoved{cluster.core().wall_ms(cluster.now) + 25 * 3'600'000});
  auto& last = cluster.node_joins(4, SmallCluster::shape(1), Role::agent, "agent:default");
  EXPECT_THAT(last.registered->revoked_keys, IsEmpty());
}

TEST_F(Trust, TokenExpired_DriverDisconnected) {
  const std::string wheel = token("driver", 'd', 60'000);
  auto& own = cluster.node_joins(2, {}, Role::driver_agent, wheel);
  // A ticket expires no later than its token.
  EXPECT_EQ(cluster.admitted.back().expires_ms, cluster.core().wall_ms(cluster.now) + 60'000);
  cluster.pass(5min);
  EXPECT_EQ(state(2), NodeState::alive);
  EXPECT_THAT(voided(home), IsEmpty());
  cluster.pass(61s);
  EXPECT_EQ(state(2), NodeState::dead);
  EXPECT_TRUE(own.refused);
  EXPECT_THAT(send_query(Role::operator_, "operator:default", "list", "events").json,
              HasSubstr("expired at"));
  EXPECT_THAT(voided(home), ElementsAre(wheel));
}

TEST_F(Trust, ClockJumps_TicketsAreRenewed) {
  const std::int64_t ahead_ms = cluster.core().wall_ms(cluster.now) + 25 * 3'600'000;
  cluster.step(ClockMoved{cluster.core().wall_ms(cluster.now) + 5'000});
  EXPECT_THAT(cluster.renewed, IsEmpty()) << "a correction is no jump";
  cluster.step(ClockMoved{ahead_ms});
  ASSERT_EQ(cluster.renewed.size(), 1u);
  EXPECT_GT(cluster.renewed[0].expires_ms, ahead_ms + 23 * 3'600'000);
}

TEST_F(Trust, KeepsRevokedTokensWhileTicketsMayExist) {
  HeadOptions options;
  options.max_ended_kept = 1;
  options.max_tokens = 4;
  SmallCluster small(options);
  const auto make = [&](char of) {
    return small.tool(
        "token_create", "",
        TrustJson{
            {"role", "driver"}, {"public_key", std::string(40, of)}, {"name", std::string(1, of)}}
            .dump());
  };
  for (const char each : {'a', 'b', 'c', 'd'}) {
    ASSERT_TRUE(make(each).ok);
    ASSERT_TRUE(small.tool("token_revoke", "", std::string(1, each)).ok);
  }
  EXPECT_EQ(make('e').code, ErrorCode::resource_exhausted);
  EXPECT_EQ(small.node_joins(1, SmallCluster::shape(1)).registered->revoked_keys.size(), 4u);
  small.step(ClockMoved{small.core().wall_ms(small.now) + 25 * 3'600'000});
  EXPECT_TRUE(make('e').ok);
}

TEST_F(Trust, RenewsTicketsLongBeforeExpiry) {
  EXPECT_EQ(cluster.admitted.back().expires_ms,
            cluster.core().wall_ms(cluster.now) + 24 * 3'600'000);
  HeadOptions options;
  options.ticket_life = 30s;
  SmallCluster small(options);
  small.node_joins(1, SmallCluster::shape(1), Role::agent, "agent:default");
  const auto first = small.admitted.back();
  EXPECT_EQ(first.admitted_as, "agent:default");
  EXPECT_THAT(small.renewed, IsEmpty());
  small.pass(11s);
  ASSERT_EQ(small.renewed.size(), 1u);
  EXPECT_EQ(small.renewed[0].admitted_as, "agent:default");
  EXPECT_GT(small.renewed[0].expires_ms, first.expires_ms);
  small.pass(10s);
  EXPECT_EQ(small.renewed.size(), 2u);
}

TEST_F(Trust, BindsNodeToFirstRegisteredKey) {
  const std::string hands = token("agent", 'a');
  const std::string others = token("agent", 'b');
  cluster.node_joins(2, SmallCluster::shape(1), Role::agent, hands);
  ASSERT_EQ(state(2), NodeState::alive);
  const auto tries = [&](int node, int incarnation, const std::string& user_id) {
    auto& thief = cluster.node_joins(9, SmallCluster::shape(1), Role::agent, user_id);
    thief.refused.reset();
    thief.registered.reset();
    thief.node = NodeId::of(static_cast<unsigned>(node));
    thief.incarnation = ProcessId::of(static_cast<unsigned>(incarnation));
    cluster.register_agent(thief);
    return thief.refused ? thief.refused->why : std::string();
  };
  // Rejects another key for the id of a live node, for a node of the cluster's key, and after a
  // restart of the head. The error names the owning key.
  EXPECT_THAT(tries(2, 500, others), HasSubstr("belongs to the key '" + hands + "'"));
  EXPECT_THAT(tries(1, 501, others), HasSubstr("belongs to the key 'agent:default'"));
  EXPECT_THAT(tries(2, 502, "agent:default"), HasSubstr("belongs to the key"));
  cluster.restart_head();
  EXPECT_THAT(tries(2, 503, others), HasSubstr("belongs to the key '" + hands + "'"));
  // An incarnation belongs to one node.
  cluster.register_agent(home);
  EXPECT_THAT(tries(77, 101, others), HasSubstr("is that of node"));
  // The owning machine returns, also as another incarnation.
  auto& own = cluster.agent(2);
  own.incarnation = ProcessId::of(600);
  cluster.register_agent(own);
  EXPECT_EQ(state(2), NodeState::alive);
  // After the key is revoked, the machine may return with another key.
  revoke('a');
  EXPECT_EQ(tries(2, 700, others), "");
  EXPECT_EQ(state(2), NodeState::alive);
}

TEST_F(Trust, RejectsProcessOfAnotherNode) {
  cluster.driver_starts_job(home, 1);
  auto& thief = cluster.node_joins(2, SmallCluster::shape(1), Role::agent, token("agent", 'a'));
  thief.incarnation = ProcessId::of(555);
  thief.facts.processes = {
      {SmallCluster::driver(1), Principal{Role::driver, "user", JobId::of(1)}, 1}};
  cluster.register_agent(thief);
  ASSERT_EQ(state(2), NodeState::alive);
  ReadState question;
  question.request = 3;
  question.kind = "status";
  cluster.from_driver(home, 1, question);
  EXPECT_EQ(cluster.received<ReadStateReply>(home, SmallCluster::driver(1)).size(), 1u);
  EXPECT_THAT(cluster.take<ToProcess>(thief), IsEmpty());
}

TEST_F(Trust, DriverToken_StopsOnlyItsSubmittedJobs) {
  const std::string wheel = token("driver", 'd');
  const std::string other = token("driver", 'o');
  const std::string id(32, 'a');
  const std::string job = TrustJson{{"job_id", id}, {"argv", {"/bin/true"}}}.dump();
  ASSERT_TRUE(send_query(Role::driver, wheel, "submit", "", job).ok);
  const auto refused = send_query(Role::driver, other, "job_stop", "", id);
  EXPECT_EQ(refused.code, ErrorCode::permission_denied);
  EXPECT_THAT(refused.text, HasSubstr(id));
  EXPECT_THAT(send_query(Role::operator_, "operator:default", "list", "events").json,
              HasSubstr("REQUEST_REFUSED"));
  cluster.restart_head();
  EXPECT_EQ(send_query(Role::driver, other, "job_stop", "", id).code, ErrorCode::permission_denied);
  EXPECT_TRUE(send_query(Role::driver, wheel, "job_stop", "", id).ok);
  EXPECT_THAT(send_query(Role::operator_, "operator:default", "list", "events").json,
              HasSubstr("JOB_STOP"));
}

TEST_F(Trust, DriverToken_StopsOnlyJobsOfItsDrivers) {
  const std::string wheel = token("driver", 'd');
  cluster.driver_starts_job(home, 1);
  auto& own = cluster.node_joins(2, {}, Role::driver_agent, wheel);
  cluster.driver_starts_job(own, 2);
  EXPECT_EQ(send_query(Role::driver, wheel, "job_stop", "", JobId::of(1).hex()).code,
            ErrorCode::permission_denied);
  EXPECT_TRUE(send_query(Role::driver, wheel, "job_stop", "", JobId::of(2).hex()).ok);
  EXPECT_TRUE(
      send_query(Role::operator_, "operator:default", "job_stop", "", JobId::of(1).hex()).ok);
}

TEST_F(Trust, LimitsQueryRatePerKey) {
  HeadOptions options;
  options.questions_at_once = 10;
  options.questions_per_second = 2;
  SmallCluster small(options);
  const auto ping = [&](Role role, const std::string& user_id) {
    ToolRequest request;
    request.request = 7;
    request.verb = "ping";
    small.step(ReceivedFromTool{42, Principal{role, "eyes", {}}, request, user_id});
    return small.replies.back();
  };
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(ping(Role::observer, "token:1").ok) << i;
  const auto refused = ping(Role::observer, "token:1");
  EXPECT_EQ(refused.code, ErrorCode::resource_exhausted);
  EXPECT_EQ(refused.request, 7u);
  EXPECT_EQ(refused.retry_after, 500ms);
  EXPECT_THAT(refused.text, HasSubstr("500 ms"));
  // Other keys are served, and operators have no limit.
  EXPECT_TRUE(ping(Role::observer, "token:2").ok);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(ping(Role::operator_, "operator:default").ok);
  small.pass(500ms);
  EXPECT_TRUE(ping(Role::observer, "token:1").ok);
  EXPECT_FALSE(ping(Role::observer, "token:1").ok);
  small.pass(60s);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(ping(Role::observer, "token:1").ok) << i;
  EXPECT_FALSE(ping(Role::observer, "token:1").ok);
}

}  // namespace
}  // namespace mobula::internal::head
