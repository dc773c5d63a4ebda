// Tests the recovery of a head from its journal and from the agents' facts, and failed writes.
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

class Recovery : public testing::Test {
 protected:
  Recovery() { cluster.driver_starts_job(home, 1); }

  SlotFact fact_of(const StartSlot& start, const Endpoint& endpoint) {
    SlotFact fact;
    fact.slot = start.slot;
    fact.demand_class = start.demand_class;
    fact.allocation = start.allocation;
    fact.lessee = start.lessee;
    fact.actor = start.actor;
    fact.generation = start.first_generation;
    fact.ready = true;
    fact.endpoint = endpoint;
    return fact;
  }
  void driver_is_attached() {
    home.facts.processes = {{driver, Principal{Role::driver, "user", JobId::of(1)}, 4711}};
  }

  // The driver has a slot. Both agents have returned, and neither reports the driver.
  void recover_without_the_driver() {
    cluster.wants(home, cpu, 1);
    const auto start = cluster.expect_start_slot(agent);
    agent.facts.slots = {fact_of(start, cluster.executor_ready(agent, start))};
    cluster.restart_head();
    cluster.register_agent(agent);
    cluster.register_agent(home);
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
  ProcessId driver = SmallCluster::driver(1);
  DemandClass cpu = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
};

TEST_F(Recovery, LastsUntilAllJournaledNodesReturn) {
  driver_is_attached();
  cluster.restart_head();
  EXPECT_TRUE(cluster.core().recovering());
  cluster.register_agent(agent);
  EXPECT_TRUE(cluster.core().recovering());
  cluster.register_agent(home);
  EXPECT_FALSE(cluster.core().recovering());
  EXPECT_FALSE(cluster.view().jobs[0].ended);
}

// The journal is older than the cluster, as after the restoration of a backup.
TEST_F(Recovery, JournalOlderThanAgents_EpochIsRaised) {
  cluster.restart_head();
  const auto registers = [&](std::uint64_t seen) {
    RegisterRequest message;
    message.address = {agent.node, agent.incarnation, agent.address, "", ""};
    message.host = "host";
    message.shape = agent.shape;
    message.version = agent.protocol;
    message.head_epoch = seen;
    cluster.raw(agent, std::move(message));
  };
  cluster.persist_at_once = false;
  registers(50);
  EXPECT_LT(cluster.core().epoch(), 50u) << "not before it is durable";
  cluster.persist();
  EXPECT_GT(cluster.core().epoch(), 50u);
  cluster.persist_at_once = true;
  agent.registered.reset();
  registers(50);
  ASSERT_TRUE(agent.registered);
  EXPECT_EQ(agent.registered->head_epoch, cluster.core().epoch());
  const auto events = cluster.tool("list", "events", "").json;
  EXPECT_NE(events.find("HEAD_JOURNAL_OUTDATED"), std::string::npos) << events;
  const auto raised = cluster.core().epoch();
  cluster.restart_head();
  EXPECT_EQ(cluster.core().epoch(), raised + 1) << "it is in the journal";
}

TEST_F(Recovery, KeepsSlotsRunningAndAllocated) {
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  const auto endpoint = cluster.executor_ready(agent, start);
  agent.facts.slots = {fact_of(start, endpoint)};
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  EXPECT_TRUE(agent.registered->unknown_slots.empty());
  ASSERT_EQ(cluster.view().slots.size(), 1u);
  // The lessee may have missed the notification, so it is repeated.
  EXPECT_EQ(cluster.received<SlotReady>(home, driver).size(), 1u);
  cluster.from_driver(home, 1, cluster.job_of(1));
  EXPECT_EQ(cluster.received<StartJobReply>(home, driver).size(), 1u);
  cluster.from_driver(home, 1, HoldSlot{start.slot, cpu.id});
  cluster.wants(home, cpu, 3);
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 1u);  // one of two CPUs is held
}

// The executor that the lessee knows may have ended, and the next one started, while no head was
// running.
TEST_F(Recovery, LesseeSendsFirst_ReceivesCurrentProcess) {
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  auto fact = fact_of(start, cluster.executor_ready(agent, start));
  fact.generation = 3;
  agent.facts.slots = {fact};
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.from_driver(home, 1, HoldSlot{start.slot, cpu.id});
  cluster.register_agent(agent);
  const auto before = cluster.received<SlotReady>(home, driver);
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(before[0].generation, 3u);
  cluster.from_driver(home, 1, HoldSlot{start.slot, cpu.id});
  EXPECT_EQ(cluster.received<SlotReady>(home, driver).size(), 1u);
}

TEST_F(Recovery, LesseeOnSlotNode_ReceivesSlotAgain) {
  cluster.driver_starts_job(agent, 2);
  cluster.wants(agent, cluster.demand_class(2, 4, {{"CPU", Quantity::whole(1)}}), 1);
  const auto start = cluster.expect_start_slot(agent);
  agent.facts.slots = {fact_of(start, cluster.executor_ready(agent, start))};
  const auto lessee = SmallCluster::driver(2);
  agent.facts.processes = {{lessee, Principal{Role::driver, "user", JobId::of(2)}, 4712}};
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  ASSERT_EQ(cluster.received<SlotReady>(agent, lessee).size(),
            1u);  // its return may have been lost
  cluster.from_driver(agent, 2, ReturnSlot{start.slot});
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

// The executor was starting when its agent returned. The agent notified the lessee, and the reply
// of the lessee was lost.
TEST_F(Recovery, SlotReadyLater_LesseeOnSlotNodeReceivesIt) {
  cluster.driver_starts_job(agent, 2);
  cluster.wants(agent, cluster.demand_class(2, 4, {{"CPU", Quantity::whole(1)}}), 1);
  const auto start = cluster.expect_start_slot(agent);
  auto fact = fact_of(start, {});
  fact.ready = false;
  agent.facts.slots = {fact};
  const auto lessee = SmallCluster::driver(2);
  agent.facts.processes = {{lessee, Principal{Role::driver, "user", JobId::of(2)}, 4712}};
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  EXPECT_TRUE(cluster.received<SlotReady>(agent, lessee).empty());
  cluster.executor_ready(agent, start);
  ASSERT_EQ(cluster.received<SlotReady>(agent, lessee).size(), 1u);
  cluster.from_driver(agent, 2, ReturnSlot{start.slot});
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

TEST_F(Recovery, NamesNewSlotsByEpoch) {
  cluster.wants(home, cpu, 1);
  const auto before = cluster.expect_start_slot(agent);
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  cluster.wants(home, cpu, 1);
  EXPECT_NE(cluster.expect_start_slot(agent).slot, before.slot);
}

TEST_F(Recovery, DriverNeverReturned_SlotsEnd) {
  recover_without_the_driver();
  cluster.pass(HeadOptions{}.driver_absence - 1s);
  EXPECT_FALSE(cluster.view().jobs[0].ended);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  cluster.pass(2s);
  EXPECT_TRUE(cluster.view().jobs[0].ended);
}

TEST_F(Recovery, HeadRestartsAgain_AbsenceContinues) {
  cluster.wall_clock_runs = true;
  recover_without_the_driver();
  cluster.pass(HeadOptions{}.driver_absence - 10s);
  EXPECT_FALSE(cluster.view().jobs[0].ended);
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  cluster.pass(11s);
  EXPECT_TRUE(cluster.view().jobs[0].ended);
}

// The agent of the driver died with the head, so the driver needs another one.
TEST_F(Recovery, DriverReturnsLate_JobContinues) {
  recover_without_the_driver();
  EXPECT_FALSE(cluster.core().recovering());
  cluster.pass(10s);
  cluster.wants(home, cpu, 1);
  cluster.pass(30s);
  EXPECT_FALSE(cluster.view().jobs[0].ended);
}

TEST_F(Recovery, NodesAbsentAtDeadline_AreDead) {
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.pass(29s);
  EXPECT_TRUE(cluster.core().recovering());
  cluster.pass(2s);
  EXPECT_FALSE(cluster.core().recovering());
  EXPECT_EQ(cluster.view().nodes[0].state, NodeState::dead);
  cluster.register_agent(agent);
  ASSERT_TRUE(agent.refused);
  EXPECT_EQ(agent.refused->code, RefusalCode::fenced);
}

TEST_F(Recovery, NodesMissing_ReportsNothingInfeasible) {
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.wants(home, cpu, 1);
  EXPECT_TRUE(cluster.received<DemandInfeasible>(home, driver).empty());
  cluster.register_agent(agent);
  EXPECT_TRUE(cluster.received<DemandInfeasible>(home, driver).empty());
  cluster.expect_start_slot(agent);
}

TEST_F(Recovery, IgnoresFramesOfPreviousEpoch) {
  driver_is_attached();
  cluster.restart_head();
  cluster.raw(agent, AgentFrame{1, agent.incarnation, 0, 0, {}});
  ASSERT_TRUE(agent.refused);
  EXPECT_EQ(agent.refused->code, RefusalCode::unknown);
}

TEST_F(Recovery, DetachedActor_ContinuesOnItsNode) {
  auto spec = cluster.actor(1, 2);
  spec.detached = true;
  spec.name = "keeper";
  spec.name_space = "shared";
  cluster.creates(home, spec);
  const auto start = cluster.expect_start_slot(agent);
  const auto endpoint = cluster.executor_ready(agent, start);
  cluster.from_agent(agent, ActorConstructed{spec.actor, start.slot, 0, {}});
  cluster.driver_dies(home, 1);
  agent.facts.slots = {fact_of(start, endpoint)};
  cluster.restart_head();
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::placing);
  cluster.register_agent(agent);
  cluster.from_agent(agent, ActorConstructed{spec.actor, start.slot, 0, {}});
  cluster.register_agent(home);
  EXPECT_TRUE(agent.registered->unknown_slots.empty());
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
  cluster.expect_no_start_slot(agent);
  cluster.driver_starts_job(home, 2);
  cluster.from_driver(home, 2, FindActor{1, "keeper", "shared"});
  const auto found = cluster.received<FindActorReply>(home, SmallCluster::driver(2));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].found);
}

TEST_F(Recovery, DetachedActorLost_Restarts) {
  auto spec = cluster.actor(1, 2);
  spec.detached = true;
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  cluster.driver_dies(home, 1);
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.expect_no_start_slot(agent);
  cluster.comes_back_as(agent, 201);  // its executors died with the previous incarnation
  const auto again = cluster.actor_comes_alive(agent);
  EXPECT_EQ(again.first_generation, 1u);
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 0);
}

// The owner has seen incarnation 1 alive, and its node returns without it.
TEST_F(Recovery, OwnedActorLost_DiesWithoutRestarts) {
  const auto spec = cluster.actor(1, 2);
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.from_driver(home, 1, CreateActor{spec, false, 1});
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::placing);
  cluster.comes_back_as(agent, 201);
  cluster.expect_no_start_slot(agent);
  EXPECT_EQ(cluster.state_of(spec.actor).cause.kind, EndKind::node_died);
  EXPECT_EQ(cluster.received<ActorChanged>(home, driver).back().state, ActorState::dead);
}

TEST_F(Recovery, OwnerReturnsLate_LostActorDies) {
  const auto spec = cluster.actor(1, 2);
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.comes_back_as(agent, 201);
  ASSERT_FALSE(cluster.core().recovering());
  cluster.from_driver(home, 1, CreateActor{spec, false, 1});
  cluster.expect_no_start_slot(agent);
  EXPECT_EQ(cluster.received<ActorChanged>(home, driver).back().state, ActorState::dead);
}

TEST_F(Recovery, OwnedActorLost_UsesRestart) {
  auto spec = cluster.actor(1, 2);
  spec.max_restarts = 1;
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.from_driver(home, 1, CreateActor{spec, false, 1});
  cluster.comes_back_as(agent, 201);
  EXPECT_EQ(cluster.actor_comes_alive(agent).first_generation, 1u);
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 1);
  EXPECT_EQ(cluster.state_of(spec.actor).incarnation, 2u);
}

TEST_F(Recovery, NamedActorLost_DiesWithoutRestarts) {
  auto spec = cluster.actor(1, 2);
  spec.name = "kept";
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.comes_back_as(agent, 201);
  cluster.expect_no_start_slot(agent);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
}

TEST_F(Recovery, ActorLostBeforeItLived_Starts) {
  auto spec = cluster.actor(1, 2);
  spec.name = "kept";
  cluster.creates(home, spec);
  cluster.executor_ready(agent, cluster.expect_start_slot(agent));
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.comes_back_as(agent, 201);
  cluster.actor_comes_alive(agent);
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 0);
}

TEST_F(Recovery, ActorEndedBeforeNodeReturned_StaysDead) {
  auto spec = cluster.actor(1, 2);
  cluster.creates(home, spec);
  const auto start = cluster.expect_start_slot(agent);
  agent.facts.slots = {fact_of(start, cluster.executor_ready(agent, start))};
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.from_driver(home, 1, EndActor{spec.actor, false, true, "its last handle was released"});
  EXPECT_TRUE(cluster.received<ActorChanged>(home, driver).empty());
  cluster.register_agent(agent);
  EXPECT_EQ(agent.registered->unknown_slots, std::vector<SlotId>{start.slot});
  EXPECT_TRUE(cluster.view().slots.empty());
  const auto news = cluster.received<ActorChanged>(home, driver);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].actor, spec.actor);
  EXPECT_EQ(news[0].state, ActorState::dead);
}

TEST_F(Recovery, EndOfDeadOrUnknownActor_RepliesDead) {
  auto spec = cluster.actor(1, 2);
  cluster.from_driver(home, 1, EndActor{spec.actor, false, true, "its last handle was released"});
  EXPECT_EQ(cluster.received<ActorChanged>(home, driver).at(0).state, ActorState::dead);
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  cluster.from_driver(home, 1, EndActor{spec.actor, true, true, "test"});
  cluster.received<ActorChanged>(home, driver);
  cluster.from_driver(home, 1, EndActor{spec.actor, true, true, "test"});
  EXPECT_EQ(cluster.received<ActorChanged>(home, driver).at(0).state, ActorState::dead);
}

TEST_F(Recovery, AdoptsActorFromFactsAndRestatement) {
  auto spec = cluster.actor(1, 2);
  cluster.creates(home, spec);
  const auto start = cluster.expect_start_slot(agent);
  agent.facts.slots = {fact_of(start, cluster.executor_ready(agent, start))};
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.creates(home, spec);  // repeated before its node has returned
  cluster.register_agent(agent);
  cluster.from_agent(agent, ActorConstructed{spec.actor, start.slot, 0, {}});
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
  EXPECT_EQ(cluster.received<ActorChanged>(home, driver).back().state, ActorState::alive);
  cluster.expect_no_start_slot(agent);
}

TEST_F(Recovery, JobEndedMeanwhile_SlotsRejected) {
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  agent.facts.slots = {fact_of(start, cluster.executor_ready(agent, start))};
  cluster.from_driver(home, 1, EndJob{JobId::of(1)});
  cluster.restart_head();
  cluster.register_agent(agent);
  EXPECT_EQ(agent.registered->unknown_slots, std::vector{start.slot});
}

// Executors of the slot may still use its resources.
TEST_F(Recovery, RejectedSlot_KeepsResourcesUntilEnded) {
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  auto fact = fact_of(start, cluster.executor_ready(agent, start));
  fact.demand_class.job = JobId::of(99);
  driver_is_attached();
  agent.facts.slots = {fact};
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  cluster.from_driver(home, 1, cluster.job_of(1));
  EXPECT_EQ(agent.registered->unknown_slots, std::vector{start.slot});
  cluster.wants(home, cpu, 2);
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 1u) << "of two CPUs one is held";
  cluster.from_agent(agent, SlotGone{start.slot, {}, false});
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 1u);
}

TEST_F(Recovery, NodeMissing_HeldSlotIsLost) {
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.from_driver(home, 1, HoldSlot{SlotId::of(4), cpu.id});
  EXPECT_TRUE(cluster.received<SlotLost>(home, driver).empty());
  cluster.pass(31s);
  EXPECT_EQ(cluster.received<SlotLost>(home, driver).size(), 1u);
}

TEST_F(Recovery, NotifiesNodeOfEndedJob) {
  agent.facts.jobs = {JobId::of(1), JobId::of(5)};
  driver_is_attached();
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.register_agent(agent);
  const auto ended = cluster.take<JobEnded>(agent);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].job, JobId::of(5));
}

TEST_F(Recovery, SparesJobThatDriverIsAboutToStart) {
  auto& early = cluster.node_joins(3, {}, Role::driver_agent);
  early.facts.jobs = {JobId::of(7)};
  early.facts.processes = {
      {SmallCluster::driver(7), Principal{Role::driver, "user", JobId::of(7)}, 1}};
  cluster.comes_back_as(early, 203);
  EXPECT_TRUE(cluster.take<JobEnded>(early).empty());
}

// ---- the journal as a peer ---------------------------------------------------------------------

TEST_F(Recovery, PublishesDeathUnpublishedByFormerHead) {
  driver_is_attached();
  const ProcessId gone = ProcessId::of(4000);
  cluster.from_agent(agent,
                     ProcessAttached{{gone, Principal{Role::executor, "", JobId::of(1)}, 12}});
  cluster.from_agent(agent, ProcessEnded{gone, {}});
  EXPECT_TRUE(cluster.take<PeersChanged>(home).empty()) << "deaths are gathered for a moment";
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  cluster.from_agent(agent, ProcessEnded{gone, {}});
  cluster.pass(20ms);
  std::vector<ProcessId> published;
  for (const auto& news : cluster.take<PeersChanged>(home)) {
    published.insert(published.end(), news.dead_processes.begin(), news.dead_processes.end());
  }
  EXPECT_EQ(published, std::vector<ProcessId>{gone});
}

TEST_F(Recovery, NodeDied_ReturningNodeIsNotified) {
  driver_is_attached();
  const ProcessId incarnation = agent.incarnation;
  agent.silent = true;
  home.silent = true;  // the next head notifies it of the death
  cluster.step(AgentLinkLost{agent.link});
  cluster.step(NodeProbed{incarnation, true});
  home.silent = false;
  cluster.restart_head();
  cluster.register_agent(home);
  std::vector<ProcessId> dead;
  for (const auto& news : cluster.take<PeersChanged>(home)) {
    dead.insert(dead.end(), news.dead_agents.begin(), news.dead_agents.end());
  }
  EXPECT_EQ(dead, std::vector<ProcessId>{incarnation});
}

TEST_F(Recovery, RepliesWhenJobIsDurable) {
  cluster.persist_at_once = false;
  cluster.driver_starts_job(home, 2);
  EXPECT_TRUE(cluster.received<StartJobReply>(home, SmallCluster::driver(2)).empty());
  cluster.persist();
  EXPECT_EQ(cluster.received<StartJobReply>(home, SmallCluster::driver(2)).size(), 1u);
  EXPECT_EQ(cluster.journal().count({"jobs", JobId::of(2).hex()}), 1u);
}

TEST_F(Recovery, PersistFailed_RejectsJobAndContinues) {
  cluster.persist_at_once = false;
  cluster.driver_starts_job(home, 2);
  cluster.fail_to_persist("disk full");
  const auto refused = cluster.received<RequestRejected>(home, SmallCluster::driver(2));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].why.find("disk full"), std::string::npos);
  EXPECT_NE(cluster.tool("status").json.find("disk full"), std::string::npos);
  cluster.wants(home, cpu, 1);
  cluster.expect_start_slot(agent);

  cluster.pass(2s);  // rows that no reply waits for are written again
  cluster.persist();
  cluster.persist_at_once = true;
  cluster.pass(60s);
  cluster.from_driver(home, 2, cluster.job_of(2));
  EXPECT_EQ(cluster.tool("status").json.find("disk full"), std::string::npos);
  EXPECT_EQ(cluster.received<StartJobReply>(home, SmallCluster::driver(2)).size(), 1u);
}

TEST_F(Recovery, PersistFailed_WritesJobEndLater) {
  cluster.persist_at_once = false;
  cluster.from_driver(home, 1, EndJob{JobId::of(1)});
  cluster.fail_to_persist("disk full");
  EXPECT_EQ(cluster.journal().count({"jobs", JobId::of(1).hex()}), 1u);
  cluster.pass(2s);
  cluster.persist();
  EXPECT_EQ(cluster.journal().count({"jobs", JobId::of(1).hex()}), 0u);
}

}  // namespace
}  // namespace mobula::internal::head
