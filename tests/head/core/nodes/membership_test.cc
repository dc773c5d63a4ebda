// Tests members of the cluster: registration, silence, death, fencing, and rivals.
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

NodeState state_of(const SmallCluster& cluster, int node) {
  for (const auto& each : cluster.view().nodes) {
    if (each.node == NodeId::of(static_cast<unsigned>(node))) return each.state;
  }
  ADD_FAILURE() << "no node " << node;
  return NodeState::dead;
}

TEST(Membership, EpochNotDurable_RepliesToNoAgent) {
  SmallCluster cluster;
  cluster.persist_at_once = false;
  cluster.restart_head();
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  EXPECT_FALSE(agent.registered);
  EXPECT_FALSE(cluster.view().durable_epoch);
  cluster.fail_to_persist("disk full");
  EXPECT_FALSE(cluster.view().durable_epoch);
  cluster.pass(2s);
  cluster.persist();
  EXPECT_TRUE(cluster.view().durable_epoch);
  cluster.register_agent(agent);
  ASSERT_TRUE(agent.registered);
  EXPECT_EQ(agent.registered->head_epoch, 2u);
}

TEST(Membership, AdvancesEpochOnRestart) {
  SmallCluster cluster;
  EXPECT_EQ(cluster.core().epoch(), 1u);
  cluster.restart_head();
  EXPECT_EQ(cluster.core().epoch(), 2u);
}

TEST(Membership, NotifiesNodesOfEachOther) {
  SmallCluster cluster;
  auto& first = cluster.node_joins(1, SmallCluster::shape(4));
  auto& second = cluster.node_joins(2, SmallCluster::shape(4));
  EXPECT_TRUE(first.registered->peers.empty());
  ASSERT_EQ(second.registered->peers.size(), 1u);
  EXPECT_EQ(second.registered->peers[0].node, first.node);
  const auto news = cluster.take<PeersChanged>(first);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].present[0].node, second.node);
}

TEST(Membership, RegistrationRepeated_RepliesWithoutChange) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  agent.registered.reset();
  cluster.register_agent(agent);
  EXPECT_TRUE(agent.registered);
  EXPECT_EQ(cluster.view().nodes.size(), 1u);
}

TEST(Membership, RejectsOtherVersionAndNamesBoth) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  RegisterRequest message;
  message.version = message.oldest = 99;
  message.address = {NodeId::of(2), ProcessId::of(102), "x:1", "", ""};
  cluster.raw(agent, message);
  ASSERT_TRUE(agent.refused);
  EXPECT_EQ(agent.refused->code, RefusalCode::version);
  EXPECT_NE(agent.refused->why.find("99"), std::string::npos);
  EXPECT_NE(agent.refused->why.find(std::to_string(protocol_version)), std::string::npos);
}

TEST(Membership, AdmitsAgentOfPreviousVersion) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  RegisterRequest message;
  message.version = oldest_protocol_version;
  message.oldest = 0;  // agents of that version do not send it
  message.address = {NodeId::of(2), ProcessId::of(102), "x:1", "", ""};
  message.shape = SmallCluster::shape(1);
  cluster.raw(agent, message);
  EXPECT_FALSE(agent.refused);
  message.version = oldest_protocol_version - 1;
  message.address = {NodeId::of(3), ProcessId::of(103), "x:2", "", ""};
  cluster.raw(agent, message);
  ASSERT_TRUE(agent.refused);
  EXPECT_EQ(agent.refused->code, RefusalCode::version);
  EXPECT_NE(agent.refused->why.find("install a newer release of Mobula for the agent"),
            std::string::npos)
      << agent.refused->why;
}

TEST(Membership, AdmitsOnlyAgents) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4), Role::observer);
  EXPECT_FALSE(agent.registered);
  ASSERT_TRUE(agent.refused);
  EXPECT_EQ(agent.refused->code, RefusalCode::permission);
}

TEST(Membership, NodeSilent_SuspectThenDeadAndReturnFenced) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  auto& other = cluster.node_joins(2, SmallCluster::shape(4));
  cluster.pass(5s);
  EXPECT_EQ(state_of(cluster, 1), NodeState::alive);
  agent.silent = true;
  cluster.pass(4s);
  EXPECT_EQ(state_of(cluster, 1), NodeState::suspect);
  cluster.pass(7s);
  EXPECT_EQ(state_of(cluster, 1), NodeState::dead);
  bool published = false;
  for (const auto& news : cluster.take<PeersChanged>(other)) {
    for (const auto dead : news.dead_agents) published = published || dead == agent.incarnation;
  }
  EXPECT_TRUE(published);
  agent.silent = false;
  cluster.pass(1s);
  ASSERT_TRUE(agent.refused);
  EXPECT_EQ(agent.refused->code, RefusalCode::fenced);
  cluster.register_agent(agent);
  EXPECT_EQ(state_of(cluster, 1), NodeState::dead);
  cluster.comes_back_as(agent, 201);
  EXPECT_TRUE(agent.registered);
  EXPECT_EQ(state_of(cluster, 1), NodeState::alive);
}

TEST(Membership, SuspectResponds_NodeAlive) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  agent.silent = true;
  cluster.pass(4s);
  agent.silent = false;
  cluster.pass(1s);
  EXPECT_EQ(state_of(cluster, 1), NodeState::alive);
}

TEST(Membership, HeadPaused_NodesStayAlive) {
  SmallCluster cluster;
  cluster.node_joins(1, SmallCluster::shape(4));
  cluster.now = cluster.now + 60s;
  cluster.step(Paused{60s});
  cluster.step(Tick{});
  EXPECT_EQ(state_of(cluster, 1), NodeState::alive);
}

TEST(Membership, ProbeRefused_NodeDead) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  cluster.step(AgentLinkLost{agent.link});
  ASSERT_EQ(cluster.probes.size(), 1u);
  EXPECT_EQ(cluster.probes[0].address, agent.address);
  cluster.step(NodeProbed{agent.incarnation, true});
  EXPECT_EQ(state_of(cluster, 1), NodeState::dead);
}

TEST(Membership, LateProbeResult_KeepsReconnectedNodeAlive) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  cluster.step(AgentLinkLost{agent.link});
  agent.link = 77;
  cluster.pass(1s);
  cluster.step(NodeProbed{agent.incarnation, true});
  EXPECT_EQ(state_of(cluster, 1), NodeState::alive);
}

TEST(Membership, AgentStopped_NodeIsDeadAtOnce) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  cluster.raw(agent, AgentStopped{agent.incarnation});
  EXPECT_EQ(state_of(cluster, 1), NodeState::dead);
}

TEST(Membership, RejectsDriverKeyForNodeWithSlots) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  ASSERT_TRUE(agent.registered);
  TestAgent stranger;
  stranger.node = agent.node;
  stranger.incarnation = ProcessId::of(777);
  stranger.role = Role::driver_agent;
  RegisterRequest message;
  message.address = {stranger.node, stranger.incarnation, agent.address, "", ""};
  message.role = Role::driver_agent;
  cluster.step(ReceivedFromAgent{4711, Principal{Role::driver_agent, "ci", {}}, message});
  EXPECT_FALSE(agent.refused) << agent.refused->why;
  const auto node = cluster.tool("get", "node", agent.node.hex());
  ASSERT_TRUE(node.ok) << node.text;
  EXPECT_NE(node.json.find(R"("ALIVE")"), std::string::npos) << node.json;
  // The agent is still registered: no other agent has replaced it.
  cluster.register_agent(agent);
  EXPECT_FALSE(agent.refused) << agent.refused->why;
}

TEST(Membership, RejectsSecondLiveAgentOfSameNode) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  RegisterRequest message;
  message.address = {agent.node, ProcessId::of(202), "elsewhere:7000", "", ""};
  message.shape = agent.shape;
  cluster.raw(agent, message);
  ASSERT_EQ(cluster.probes.size(), 1u);
  cluster.step(NodeProbed{agent.incarnation, false});
  ASSERT_TRUE(agent.refused);
  EXPECT_EQ(agent.refused->code, RefusalCode::duplicate);
  EXPECT_EQ(cluster.view().nodes[0].incarnation, agent.incarnation);
}

TEST(Membership, OldPortRefuses_NewIncarnationReplacesOld) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  const auto before = agent.incarnation;
  agent.address = "node1:7001";
  cluster.comes_back_as(agent, 202);
  EXPECT_FALSE(agent.registered);
  cluster.step(NodeProbed{before, true});
  EXPECT_TRUE(agent.registered);
  EXPECT_EQ(cluster.view().nodes[0].incarnation, ProcessId::of(202));
}

TEST(Membership, SamePort_NewIncarnationReplacesAtOnce) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4));
  cluster.comes_back_as(agent, 202);
  EXPECT_TRUE(agent.registered);
}

TEST(Membership, AllocatesNoSlotsOnDriverAgent) {
  SmallCluster cluster;
  auto& agent = cluster.node_joins(1, SmallCluster::shape(4), Role::driver_agent);
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}}), 1);
  cluster.expect_no_start_slot(agent);
  const auto news = cluster.received<DemandInfeasible>(agent, SmallCluster::driver(1));
  ASSERT_EQ(news.size(), 1u);
  EXPECT_FALSE(news[0].fatal);
}

}  // namespace
}  // namespace mobula::internal::head
