// Tests drained nodes: moved work, remaining work, and the deadline.
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

class Drain : public testing::Test {
 protected:
  Drain() { cluster.driver_starts_job(home, 1); }

  // Starts the actor on the first node, while it is the only one. Then a second node joins.
  StartSlot actor_on_first_node(std::int64_t max_restarts) {
    spec.max_restarts = max_restarts;
    cluster.creates(home, spec);
    const auto start = cluster.actor_comes_alive(agent);
    cluster.received<ActorChanged>(home, SmallCluster::driver(1));
    return start;
  }
  EndCause ended() const {
    EndCause cause;
    cause.kind = EndKind::retired;
    return cause;
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
  ActorSpec spec = cluster.actor(1, 1);
};

TEST_F(Drain, MovesRestartableActorWithoutUsingRestart) {
  const auto first = actor_on_first_node(1);
  auto& other = cluster.node_joins(3, SmallCluster::shape(2));
  EXPECT_TRUE(cluster.tool("drain", "", agent.node.hex()).ok);
  const auto stops = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_TRUE(stops[0].graceful) << "its running call finishes";
  cluster.expect_no_start_slot(other);
  cluster.actor_executor_dies(agent, first, ended());
  const auto second = cluster.actor_comes_alive(other);
  EXPECT_EQ(second.first_generation, 1u);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 0);
  // A later failure uses up a restart.
  cluster.actor_executor_dies(other, second, ended());
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 1);
}

TEST_F(Drain, DrainingNode_RequestWaitsForUndrain) {
  EXPECT_TRUE(cluster.tool("drain", "", agent.node.hex()).ok);
  const auto reply = cluster.tool("explain", "", R"({"num_cpus": 1})");
  EXPECT_TRUE(reply.ok);
  EXPECT_NE(reply.json.find(R"("feasible":true)"), std::string::npos) << reply.json;
  EXPECT_NE(reply.json.find("it fits when a draining node is undrained"), std::string::npos)
      << reply.json;
}

TEST_F(Drain, NonRestartableActor_DiesAtDeadlineWithCause) {
  actor_on_first_node(0);
  const auto reply = cluster.tool("drain", "20000", agent.node.hex());
  EXPECT_NE(reply.json.find("may not be restarted"), std::string::npos);
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty());
  cluster.pass(19s);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
  cluster.pass(2s);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
  const auto received = cluster.received<ActorChanged>(home, SmallCluster::driver(1));
  ASSERT_EQ(received.size(), 1u);
  EXPECT_NE(
      received[0].cause.text.find("was drained (requested by a tool) and its deadline has passed"),
      std::string::npos)
      << received[0].cause.text;
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

TEST_F(Drain, NotifiesAllNodesOfDrainAndUndrain) {
  auto& other = cluster.node_joins(3, SmallCluster::shape(2));
  for (TestAgent* each : {&agent, &home, &other}) cluster.take<PeersChanged>(*each);
  cluster.tool("drain", "", agent.node.hex());
  for (TestAgent* each : {&agent, &home, &other}) {
    const auto news = cluster.take<PeersChanged>(*each);
    ASSERT_EQ(news.size(), 1u);
    EXPECT_EQ(news[0].drained, std::vector<NodeId>{agent.node});
  }
  auto& late = cluster.node_joins(4, SmallCluster::shape(2));
  std::vector<NodeId> received;
  for (const auto& news : cluster.take<PeersChanged>(late))
    received.insert(received.end(), news.drained.begin(), news.drained.end());
  EXPECT_EQ(received, std::vector<NodeId>{agent.node}) << "a late subscriber receives it too";
  cluster.take<PeersChanged>(other);
  cluster.tool("undrain", "", agent.node.hex());
  const auto news = cluster.take<PeersChanged>(other);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].undrained, std::vector<NodeId>{agent.node});
}

TEST_F(Drain, NoDeadline_NonRestartableActorStays) {
  actor_on_first_node(0);
  cluster.tool("drain", "", agent.node.hex());
  cluster.pass(100s);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
}

TEST_F(Drain, UnfinishedActor_StoppedAtDeadlineAndMoved) {
  const auto first = actor_on_first_node(1);
  auto& other = cluster.node_joins(3, SmallCluster::shape(2));
  cluster.tool("drain", "5000", agent.node.hex());
  cluster.take<StopSlot>(agent);
  cluster.pass(6s);
  const auto stops = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_FALSE(stops[0].graceful);
  cluster.actor_executor_dies(agent, first, ended());
  cluster.actor_comes_alive(other);
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 0);
}

TEST_F(Drain, RecallsTasksAndRevokesSlotsAtDeadline) {
  const auto cpu = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, start);
  cluster.tool("drain", "5000", agent.node.hex());
  EXPECT_EQ(cluster.received<RecallSlot>(home, SmallCluster::driver(1)).size(), 1u);
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty());
  cluster.pass(6s);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  const auto lost = cluster.received<SlotLost>(home, SmallCluster::driver(1));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_NE(lost[0].cause.text.find("deadline"), std::string::npos);
}

TEST_F(Drain, AgentStopping_DrainsItsNode) {
  const auto first = actor_on_first_node(-1);
  auto& other = cluster.node_joins(3, SmallCluster::shape(2));
  cluster.from_agent(agent, AgentDraining{30s});
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  cluster.actor_executor_dies(agent, first, ended());
  cluster.actor_comes_alive(other);
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 0);
}

// The drained head crashes, and its successor learns the running work from the agents.
class DrainAfterARestart : public Drain {
 protected:
  void head_comes_back() {
    home.facts.processes = {
        {SmallCluster::driver(1), Principal{Role::driver, "user", JobId::of(1)}, 4711}};
    cluster.restart_head();
    cluster.register_agent(agent);
    cluster.register_agent(home);
    cluster.from_driver(home, 1, cluster.job_of(1));
  }
  NodeState state() {
    for (const auto& node : cluster.view().nodes) {
      if (node.node == agent.node) return node.state;
    }
    return NodeState::dead;
  }
  DemandClass cpu = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
};

TEST_F(DrainAfterARestart, HeadRestarted_DrainedNodeGetsNothing) {
  ASSERT_TRUE(cluster.tool("drain", "", agent.node.hex()).ok);
  head_comes_back();
  EXPECT_EQ(state(), NodeState::draining);
  cluster.wants(home, cpu, 1);
  cluster.expect_no_start_slot(agent);
}

TEST_F(DrainAfterARestart, NextIncarnation_IsNotDrained) {
  ASSERT_TRUE(cluster.tool("drain", "", agent.node.hex()).ok);
  agent.incarnation = ProcessId::of(4712);
  head_comes_back();
  EXPECT_EQ(state(), NodeState::alive);
  cluster.wants(home, cpu, 1);
  cluster.expect_start_slot(agent);
}

TEST_F(DrainAfterARestart, RecallsSlotsAgainAndRestartsDeadline) {
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  SlotFact fact;
  fact.slot = start.slot;
  fact.demand_class = start.demand_class;
  fact.allocation = start.allocation;
  fact.lessee = start.lessee;
  fact.generation = start.first_generation;
  fact.ready = true;
  fact.endpoint = cluster.executor_ready(agent, start);
  agent.facts.slots = {fact};
  ASSERT_TRUE(cluster.tool("drain", "5000", agent.node.hex()).ok);
  cluster.pass(4s);
  cluster.received<RecallSlot>(home, SmallCluster::driver(1));
  head_comes_back();
  EXPECT_EQ(cluster.received<RecallSlot>(home, SmallCluster::driver(1)).size(), 1u);
  cluster.pass(4s);
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty());
  cluster.pass(2s);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  const auto lost = cluster.received<SlotLost>(home, SmallCluster::driver(1));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_NE(lost[0].cause.text.find("was drained (requested by a tool)"), std::string::npos)
      << lost[0].cause.text;
}

// ---- undrain ------------------------------------------------------------------------------------

TEST_F(DrainAfterARestart, UndrainedNode_GetsWorkAfterHeadRestart) {
  ASSERT_TRUE(cluster.tool("drain", "", agent.node.hex()).ok);
  cluster.wants(home, cpu, 1);
  cluster.expect_no_start_slot(agent);
  const auto reply = cluster.tool("undrain", "", agent.node.hex());
  ASSERT_TRUE(reply.ok) << reply.text;
  EXPECT_EQ(state(), NodeState::alive);
  cluster.expect_start_slot(agent);
  head_comes_back();
  EXPECT_EQ(state(), NodeState::alive);
}

TEST_F(DrainAfterARestart, UndrainsNodeDrainedBeforeRestart) {
  ASSERT_TRUE(cluster.tool("drain", "5000", agent.node.hex()).ok);
  cluster.restart_head();
  const auto early = cluster.tool("undrain", "", agent.node.hex());
  EXPECT_EQ(early.code, ErrorCode::unavailable) << early.text;
  head_comes_back();
  ASSERT_TRUE(cluster.tool("undrain", "", agent.node.hex()).ok);
  EXPECT_EQ(state(), NodeState::alive);
  cluster.wants(home, cpu, 1);
  cluster.executor_ready(agent, cluster.expect_start_slot(agent));
  cluster.pass(10s);
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty()) << "its deadline is over with it";
}

TEST_F(DrainAfterARestart, UndrainsAfterDeadline) {
  actor_on_first_node(0);
  ASSERT_TRUE(cluster.tool("drain", "5000", agent.node.hex()).ok);
  cluster.pass(6s);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  EXPECT_EQ(state(), NodeState::draining);
  ASSERT_TRUE(cluster.tool("undrain", "", agent.node.hex()).ok);
  cluster.wants(home, cpu, 1);
  cluster.expect_start_slot(agent);
}

TEST_F(Drain, Undrain_MovedActorStays) {
  const auto first = actor_on_first_node(1);
  auto& other = cluster.node_joins(3, SmallCluster::shape(8));
  ASSERT_TRUE(cluster.tool("drain", "", agent.node.hex()).ok);
  ASSERT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  cluster.actor_executor_dies(agent, first, ended());
  cluster.actor_comes_alive(other);
  ASSERT_TRUE(cluster.tool("undrain", "", agent.node.hex()).ok);
  cluster.pass(10s);
  EXPECT_EQ(cluster.state_of(spec.actor).node, other.node);
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 0);
  EXPECT_TRUE(cluster.take<StopSlot>(other).empty());
}

TEST_F(Drain, RejectsUndrainOfStoppingAgent) {
  cluster.from_agent(agent, AgentDraining{30s});
  const auto reply = cluster.tool("undrain", "", agent.node.hex());
  EXPECT_FALSE(reply.ok);
  EXPECT_NE(reply.text.find("being stopped"), std::string::npos) << reply.text;
}

TEST_F(Drain, UndrainOfActiveNode_ReportsNoChange) {
  const auto reply = cluster.tool("undrain", "", agent.node.hex());
  ASSERT_TRUE(reply.ok) << reply.text;
  EXPECT_NE(reply.json.find("was not draining"), std::string::npos) << reply.json;
  EXPECT_FALSE(cluster.tool("undrain", "", NodeId::of(4711).hex()).ok);
  EXPECT_FALSE(cluster.tool("undrain", "", "here").ok);
  EXPECT_FALSE(cluster.tool("undrain", "", agent.node.hex(), Role::observer).ok);
}

TEST_F(Drain, RepliesToUndrainWhenDurable) {
  cluster.tool("drain", "", agent.node.hex());
  cluster.replies.clear();
  cluster.persist_at_once = false;
  cluster.tool("undrain", "", agent.node.hex());
  EXPECT_TRUE(cluster.replies.empty());
  cluster.persist();
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_TRUE(cluster.replies.front().ok);
}

TEST_F(Drain, ReportsTimeLeftAndLeasesEndedAtDeadline) {
  actor_on_first_node(0);
  cluster.tool("drain", "5000", agent.node.hex());
  cluster.pass(1s);
  const auto node = [&] {
    return nlohmann::json::parse(cluster.tool("get", "node", agent.node.hex()).json);
  };
  EXPECT_GT(node()["drain"]["ends_in_ms"], 3'000);
  EXPECT_LE(node()["drain"]["ends_in_ms"], 4'000);
  cluster.pass(5s);
  EXPECT_EQ(node()["drain"]["ended_leases"], 1);
  EXPECT_TRUE(node()["drain"]["ends_in_ms"].is_null());
  cluster.tool("undrain", "", agent.node.hex());
  EXPECT_FALSE(node().contains("drain"));
}

TEST_F(Drain, RepliesWhenDurable) {
  cluster.persist_at_once = false;
  cluster.tool("drain", "", agent.node.hex());
  EXPECT_TRUE(cluster.replies.empty());
  cluster.persist();
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_TRUE(cluster.replies.front().ok);
}

TEST_F(Drain, RejectsDeadlineThatIsNoNumber) {
  EXPECT_FALSE(cluster.tool("drain", "soon", agent.node.hex()).ok);
  EXPECT_FALSE(cluster.tool("drain", "-1", agent.node.hex()).ok);
}

}  // namespace
}  // namespace mobula::internal::head
