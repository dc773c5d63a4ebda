// Tests commands between the start order and the report of their agent. The journal has the order
// before the agent has it.
#include "head/core/jobs/submissions.h"

namespace mobula::internal::head {
namespace {

class StartOrders : public Submissions {};

TEST_F(StartOrders, StartsNothingBeforeJournalWrite) {
  cluster.persist_at_once = false;
  const auto id = submit(1);
  cluster.expect_no_start_slot(agent);
  cluster.persist();
  const auto first = cluster.expect_start_slot(agent);
  EXPECT_EQ(first.first_generation, 0u);
  EXPECT_EQ(state(id), "PENDING");

  submit(2, {{"retries", 1}});
  cluster.persist();
  const auto second = cluster.expect_start_slot(agent);
  runs(agent, second);
  cluster.persist();
  ends(agent, second, exited(3));
  cluster.expect_no_start_slot(agent);
  cluster.persist();
  EXPECT_EQ(cluster.expect_start_slot(agent).first_generation, 1u) << "the second attempt as well";
}

TEST_F(StartOrders, StartsSeveralAfterOneWrite) {
  cluster.persist_at_once = false;
  const auto held = submit(1, {{"request", {{"num_cpus", 2}}}});
  cluster.persist();
  const auto holder = cluster.expect_start_slot(agent);
  submit(2, {{"request", {{"num_cpus", 1}}}});
  submit(3, {{"request", {{"num_cpus", 1}}}});
  runs(agent, holder);
  cluster.persist();
  cluster.expect_no_start_slot(agent);
  EndCause cause;
  cluster.from_agent(agent, SlotGone{holder.slot, cause, false});
  cluster.expect_no_start_slot(agent);
  EXPECT_EQ(cluster.unpersisted(), 1u);
  cluster.persist();
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 2u);
}

// The command may run or have run when the head crashes.
TEST_F(StartOrders, HeadAndAgentDied_StartsNotTwice) {
  const auto id = submit(1);
  cluster.expect_start_slot(agent);
  cluster.restart_head();
  cluster.comes_back_as(agent, 300);
  TestAgent& other = cluster.node_joins(2, SmallCluster::shape(2));
  cluster.pass(std::chrono::seconds(60));
  cluster.expect_no_start_slot(agent);
  cluster.expect_no_start_slot(other);
  EXPECT_EQ(state(id), "LOST");
  EXPECT_EQ(job(id)["attempts"], 1) << job(id).dump(2);
  EXPECT_EQ(job(id)["node_id"], agent.node.hex());
  EXPECT_NE(job(id).value("reason", "").find("and may have run"), std::string::npos)
      << job(id).dump(2);
}

TEST_F(StartOrders, RetriesLeft_NextAttemptRuns) {
  const auto id = submit(1, {{"retries", 1}});
  cluster.expect_start_slot(agent);
  cluster.restart_head();
  TestAgent& other = cluster.node_joins(2, SmallCluster::shape(2));
  cluster.pass(std::chrono::seconds(60));
  const auto again = cluster.expect_start_slot(other);
  EXPECT_EQ(again.first_generation, 1u);
  runs(other, again);
  EXPECT_EQ(job(id)["attempts"], 2);
  ends(other, again, exited(1));
  EXPECT_EQ(state(id), "FAILED") << "no retry is left";
}

TEST_F(StartOrders, OrderNeverReceived_IsResent) {
  const auto id = submit(1);
  cluster.expect_start_slot(agent);
  cluster.restart_head();
  cluster.register_agent(agent);  // the agent knows no command
  cluster.pass(std::chrono::seconds(60));
  const auto again = cluster.expect_start_slot(agent);
  EXPECT_EQ(again.first_generation, 0u);
  runs(agent, again);
  EXPECT_EQ(state(id), "RUNNING");
  EXPECT_EQ(job(id)["attempts"], 1);
}

TEST_F(StartOrders, AgentForgotEntries_JobIsLost) {
  const auto id = submit(1);
  const auto start = cluster.expect_start_slot(agent);
  cluster.restart_head();
  for (unsigned i = 0; i < max_ended_entries; ++i) {
    agent.facts.ended_entries.push_back({ActorId::of(500 + i), SlotId::of(500 + i), 0, exited(0)});
  }
  cluster.register_agent(agent);
  cluster.pass(std::chrono::seconds(60));
  cluster.expect_no_start_slot(agent);
  EXPECT_EQ(state(id), "LOST");
}

TEST_F(StartOrders, HeadDied_StartContinuesOnItsAgent) {
  const auto id = submit(1);
  const auto start = cluster.expect_start_slot(agent);
  SlotFact fact;
  fact.slot = start.slot;
  fact.demand_class = start.demand_class;
  fact.allocation = start.allocation;
  fact.actor = start.actor;
  agent.facts.slots = {fact};
  cluster.restart_head();
  cluster.register_agent(agent);
  runs(agent, start);
  cluster.pass(std::chrono::seconds(60));
  EXPECT_EQ(state(id), "RUNNING");
  cluster.expect_no_start_slot(agent);
  // Restarts once more: the order of the first head is still valid.
  cluster.restart_head();
  cluster.register_agent(agent);
  runs(agent, start);
  cluster.pass(std::chrono::seconds(60));
  ends(agent, start, exited(0));
  EXPECT_EQ(state(id), "SUCCEEDED");
}

TEST_F(StartOrders, OrderNotDurable_HeadOrdersAgain) {
  const auto id = submit(1, {{"request", {{"num_cpus", 8}}}});
  cluster.persist_at_once = false;
  TestAgent& large = cluster.node_joins(2, SmallCluster::shape(8));
  cluster.expect_no_start_slot(large);
  cluster.restart_head();
  cluster.persist_at_once = true;
  cluster.persist();
  TestAgent& third = cluster.node_joins(3, SmallCluster::shape(8));
  cluster.pass(std::chrono::seconds(60));
  EXPECT_EQ(cluster.expect_start_slot(third).first_generation, 0u);
  EXPECT_EQ(state(id), "PENDING");
}

// After the death of the node, as after the crash of the head, it is unknown whether the command
// ran.
TEST_F(StartOrders, NodeDied_OrderedStartIsLost) {
  const auto id = submit(1, {{"request", {{"num_cpus", 1}}}});
  cluster.expect_start_slot(agent);
  const auto again = submit(2, {{"request", {{"num_cpus", 1}}}, {"retries", 1}});
  cluster.expect_start_slot(agent);
  TestAgent& other = cluster.node_joins(2, SmallCluster::shape(2));
  agent.silent = true;
  cluster.pass(std::chrono::seconds(30));
  EXPECT_EQ(state(id), "LOST");
  EXPECT_EQ(job(id)["attempts"], 1);
  const auto start = cluster.expect_start_slot(other);
  EXPECT_EQ(start.first_generation, 1u);
  cluster.expect_no_start_slot(other);
  runs(other, start);
  EXPECT_EQ(job(again)["attempts"], 2);
}

TEST_F(StartOrders, NodeDiedBeforeOrder_CostsNoAttempt) {
  cluster.persist_at_once = false;
  const auto id = submit(1);
  agent.silent = true;
  TestAgent& other = cluster.node_joins(2, SmallCluster::shape(2));
  cluster.pass(std::chrono::seconds(30));
  cluster.persist();
  const auto start = cluster.expect_start_slot(other);
  EXPECT_EQ(start.first_generation, 0u);
  runs(other, start);
  cluster.persist();
  EXPECT_EQ(job(id)["attempts"], 1);
}

TEST_F(StartOrders, StoppedBeforeOrder_NeverRuns) {
  cluster.persist_at_once = false;
  const auto id = submit(1, {{"retries", 5}});
  cluster.step(ReceivedFromTool{900, Principal{Role::operator_, "stops", {}}, [&] {
                                  ToolRequest stop;
                                  stop.request = 1;
                                  stop.verb = "job_stop";
                                  stop.argument = id;
                                  return stop;
                                }()});
  cluster.persist();
  cluster.expect_no_start_slot(agent);
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty()) << "its agent knows of nothing";
  EXPECT_EQ(state(id), "STOPPED");
  EXPECT_TRUE(cluster.view().slots.empty());
  for (const auto& [key, value] : cluster.journal()) EXPECT_NE(key.first, "actors");
}

TEST_F(StartOrders, PersistFailed_OrderWithheldAndRetried) {
  const auto id = submit(1, {{"request", {{"num_cpus", 8}}}});
  cluster.persist_at_once = false;
  TestAgent& large = cluster.node_joins(2, SmallCluster::shape(8));
  for (int times = 0; times < 4; ++times) {
    cluster.fail_to_persist("the disk is full");
    cluster.expect_no_start_slot(large);
    cluster.pass(std::chrono::seconds(10));
  }
  cluster.persist_at_once = true;
  cluster.persist();
  cluster.pass(std::chrono::seconds(10));
  const auto start = cluster.expect_start_slot(large);
  EXPECT_EQ(start.first_generation, 0u);
  runs(large, start);
  EXPECT_EQ(state(id), "RUNNING");
}

TEST_F(StartOrders, PersistFailed_IsNotStarted) {
  cluster.persist_at_once = false;
  const auto id = submit(1);
  cluster.fail_to_persist("the disk is full");
  cluster.expect_no_start_slot(agent);
  cluster.pass(std::chrono::seconds(5));
  cluster.persist();
  cluster.expect_no_start_slot(agent);
  EXPECT_TRUE(cluster.view().slots.empty());
  for (const auto& [key, value] : cluster.journal()) EXPECT_NE(key.first, "actors");
  cluster.restart_head();
  cluster.persist();
  cluster.pass(std::chrono::seconds(60));
  cluster.expect_no_start_slot(agent);
}

}  // namespace
}  // namespace mobula::internal::head
