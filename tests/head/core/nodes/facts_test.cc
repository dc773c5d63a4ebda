// Tests the reconciliation of agents' facts with the state of the head.
#include "head/core/small_cluster.h"
#include "protocol/messages/facts/slot_digest.h"

namespace mobula::internal::head {
namespace {

class FactsOfNodes : public testing::Test {
 protected:
  // Starts one ready slot of the driver, which both sides know.
  StartSlot one_slot() {
    cluster.driver_starts_job(agent, 1);
    cluster.wants(agent, cpu, 1);
    const auto start = cluster.expect_start_slot(agent);
    endpoint = cluster.executor_ready(agent, start);
    return start;
  }
  // Returns the facts that the agent would report now for these slots.
  FactsReply facts_of(const std::vector<SlotFact>& slots) {
    FactsReply facts;
    facts.facts.slots = slots;
    facts.facts.processes = {{driver, Principal{Role::driver, "user", JobId::of(1)}, 7}};
    if (!endpoint.process.empty()) {
      facts.facts.processes.push_back(
          {endpoint.process, Principal{Role::executor, "", JobId::of(1)}, 8});
    }
    facts.facts.jobs = {JobId::of(1)};
    facts.applied_through = agent.session->received();
    return facts;
  }
  SlotFact fact_of(const StartSlot& start, std::uint32_t generation = 0) {
    SlotFact fact;
    fact.slot = start.slot;
    fact.demand_class = start.demand_class;
    fact.allocation = start.allocation;
    fact.lessee = start.lessee;
    fact.generation = generation;
    fact.ready = true;
    fact.endpoint = endpoint;
    return fact;
  }
  const SlotView* view_of(SlotId slot) {
    view = cluster.view();
    for (const auto& each : view.slots) {
      if (each.slot == slot) return &each;
    }
    return nullptr;
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2, 1));
  DemandClass cpu = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
  ProcessId driver = SmallCluster::driver(1);
  Endpoint endpoint;
  HeadView view;
};

TEST_F(FactsOfNodes, RequestsNoFactsWhileDigestsAgree) {
  const auto start = one_slot();
  agent.digest = slot_digest(start.slot, 0, true);
  cluster.pass(20s);
  EXPECT_TRUE(cluster.take<FactsRequest>(agent).empty());
}

TEST_F(FactsOfNodes, RequestsFactsOnceWhenDigestDiffers) {
  one_slot();
  agent.digest = 0;  // the agent knows no slot
  cluster.pass(1s);
  EXPECT_EQ(cluster.take<FactsRequest>(agent).size(), 1u);
  cluster.pass(1s);
  EXPECT_TRUE(cluster.take<FactsRequest>(agent).empty());
  cluster.pass(5s);
  EXPECT_FALSE(cluster.take<FactsRequest>(agent).empty()) << "it still differs";
}

// Commands and reports in transit make the sides differ. Neither is a loss.
TEST_F(FactsOfNodes, ComparesOnlyAcknowledgedState) {
  const auto start = one_slot();
  agent.digest = slot_digest(start.slot, 0, true);
  const std::uint64_t applied = agent.session->received();
  const auto heartbeat = [&](std::uint64_t applied_through, std::uint64_t sent) {
    cluster.raw(agent, AgentFrame{agent.registered->head_epoch,
                                  agent.incarnation,
                                  applied_through,
                                  *agent.digest,
                                  {0, agent.session->received(), std::nullopt},
                                  sent});
  };
  cluster.from_driver(agent, 1, ReturnSlot{start.slot});
  ASSERT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  heartbeat(applied, agent.sent);
  EXPECT_TRUE(cluster.take<FactsRequest>(agent).empty())
      << "the agent has not received StopSlot yet";
  agent.digest = ending_slot_digest(start.slot);
  heartbeat(agent.session->received(), agent.sent);
  EXPECT_TRUE(cluster.take<FactsRequest>(agent).empty()) << "it is stopping it";
  agent.digest = 17;
  heartbeat(agent.session->received(), agent.sent + 1);
  EXPECT_TRUE(cluster.take<FactsRequest>(agent).empty()) << "its news is still on its way";
  heartbeat(agent.session->received(), agent.sent);
  EXPECT_EQ(cluster.take<FactsRequest>(agent).size(), 1u);
}

TEST_F(FactsOfNodes, StopsUnknownSlotAndReplacesLostSlot) {
  const auto start = one_slot();
  SlotFact strange;
  strange.slot = SlotId::of(12345);
  cluster.from_agent(agent, facts_of({strange}));
  const auto stops = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].slot, strange.slot);
  const auto lost = cluster.received<SlotLost>(agent, driver);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].slot, start.slot);
  EXPECT_EQ(lost[0].cause.text, "its agent does not know the slot");
  cluster.wants(agent, cpu, 1);
  EXPECT_NE(cluster.expect_start_slot(agent).slot, start.slot);
}

TEST_F(FactsOfNodes, SlotEndMissed_IsDetected) {
  const auto start = one_slot();
  cluster.from_driver(agent, 1, ReturnSlot{start.slot});
  agent.digest = ending_slot_digest(start.slot);
  cluster.pass(1s);
  EXPECT_TRUE(cluster.take<FactsRequest>(agent).empty());
  agent.digest = 0;  // the slot ended, and the report was lost
  cluster.pass(1s);
  EXPECT_EQ(cluster.take<FactsRequest>(agent).size(), 1u);
  cluster.from_agent(agent, facts_of({}));
  EXPECT_EQ(view_of(start.slot), nullptr);
}

TEST_F(FactsOfNodes, SlotNotYetReceivedByAgent_IsKept) {
  cluster.driver_starts_job(agent, 1);
  const auto before = facts_of({});
  cluster.wants(agent, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  cluster.from_agent(agent, before);
  EXPECT_NE(view_of(start.slot), nullptr);
  EXPECT_TRUE(cluster.received<SlotLost>(agent, driver).empty());
}

TEST_F(FactsOfNodes, GenerationStartMissed_IsRecovered) {
  auto& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  endpoint.process = ProcessId::of(77);
  auto facts = facts_of({fact_of(start, 2)});
  facts.facts.processes.erase(facts.facts.processes.begin());
  cluster.from_agent(agent, facts);
  const auto ready = cluster.received<SlotReady>(home, driver);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].generation, 2u);
  ASSERT_NE(view_of(start.slot), nullptr);
  EXPECT_TRUE(view_of(start.slot)->ready);
}

TEST_F(FactsOfNodes, DriverMissingFromFacts_JobEnds) {
  const auto start = one_slot();
  auto facts = facts_of({fact_of(start)});
  facts.facts.processes.erase(facts.facts.processes.begin());
  cluster.from_agent(agent, facts);
  ASSERT_EQ(cluster.view().jobs.size(), 1u);
  EXPECT_TRUE(cluster.view().jobs[0].ended);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

TEST_F(FactsOfNodes, StopLost_IsResent) {
  const auto start = one_slot();
  cluster.from_driver(agent, 1, ReturnSlot{start.slot});
  ASSERT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  cluster.from_agent(agent, facts_of({fact_of(start)}));
  const auto again = cluster.take<StopSlot>(agent);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].slot, start.slot);
}

}  // namespace
}  // namespace mobula::internal::head
