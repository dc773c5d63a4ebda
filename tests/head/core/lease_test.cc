// Tests slots from demand to return, and deaths of their lessees, executors, and nodes.
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

class Lease : public testing::Test {
 protected:
  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2, 1));
  DemandClass cpu = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
  DemandClass gpu = cluster.demand_class(1, 2, {{"GPU", Quantity::whole(1)}});
  ProcessId driver = SmallCluster::driver(1);
};

TEST_F(Lease, GrantsSlotWithProgramAndEnvironment) {
  cluster.driver_starts_job(agent, 1);
  ASSERT_EQ(cluster.received<StartJobReply>(agent, driver).size(), 1u);
  cluster.wants(agent, gpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  EXPECT_EQ(start.lessee, driver);
  EXPECT_EQ(start.program.id, ProgramId::of(1));
  EXPECT_EQ(start.job_env.at("FROM_JOB"), "1");
  ASSERT_NE(start.allocation.find("GPU"), nullptr);
  cluster.executor_ready(agent, start);
  // The agent notifies a lessee on its own node.
  EXPECT_TRUE(cluster.received<SlotReady>(agent, driver).empty());
}

TEST_F(Lease, NotifiesRemoteLessee) {
  auto& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  const auto endpoint = cluster.executor_ready(agent, start);
  const auto ready = cluster.received<SlotReady>(home, driver);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].endpoint, endpoint);
  EXPECT_EQ(ready[0].demand_class, cpu.id);
  cluster.executor_crashes(agent, start.slot, 0);
  ASSERT_EQ(cluster.received<GenerationEnded>(home, driver).size(), 1u);
  cluster.executor_ready(agent, start, 1);
  const auto again = cluster.received<SlotReady>(home, driver);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].generation, 1u);
}

TEST_F(Lease, ReturnedSlot_IsOfferedAfterItsEnd) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, gpu, 1);
  const auto first = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, first);
  cluster.wants(agent, gpu, 0);
  cluster.driver_starts_job(agent, 2);
  const auto theirs = cluster.demand_class(2, 3, {{"GPU", Quantity::whole(1)}});
  cluster.wants(agent, theirs, 1);
  cluster.expect_no_start_slot(agent);
  cluster.from_driver(agent, 1, ReturnSlot{first.slot});
  ASSERT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  cluster.expect_no_start_slot(agent);
  cluster.slot_gone(agent, first.slot);
  EXPECT_EQ(cluster.expect_start_slot(agent).demand_class.job, JobId::of(2));
  EXPECT_TRUE(cluster.received<SlotLost>(agent, driver).empty());
}

TEST_F(Lease, ReturnedBeforeReady_DemandRemains) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cpu, 1);
  const auto first = cluster.expect_start_slot(agent);
  cluster.from_driver(agent, 1, ReturnSlot{first.slot});  // recalled before it was ready
  cluster.slot_gone(agent, first.slot);
  const auto second = cluster.expect_start_slot(agent);

  cluster.from_driver(agent, 1, ReturnSlot{second.slot});
  cluster.wants(agent, cpu, 1);  // in addition to the ending slot
  cluster.slot_gone(agent, second.slot);
  cluster.take<StartSlot>(agent);
  cluster.expect_no_start_slot(agent);
  ASSERT_EQ(cluster.view().slots.size(), 1u);
}

TEST_F(Lease, CountsStartingSlotsOnce) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cpu, 1);
  const auto first = cluster.expect_start_slot(agent);
  cluster.wants(agent, cpu, 1);  // the lessee does not know the slot yet
  cluster.expect_no_start_slot(agent);
  cluster.executor_ready(agent, first);
  cluster.expect_no_start_slot(agent);
  cluster.wants(agent, cpu, 1);  // the lessee does not know that the slot is ready
  cluster.expect_no_start_slot(agent);
  cluster.wants(agent, cpu, 1, {first.slot});  // one more than it holds
  cluster.expect_start_slot(agent);
}

TEST_F(Lease, ReportsStartingSlotsOnRequest) {
  auto& other = cluster.node_joins(2, SmallCluster::shape(1));
  cluster.driver_starts_job(agent, 1);
  Demand demand;
  demand.demand_class = cpu;
  demand.demand_class.request.strategy = SpreadStrategy{};
  demand.version = 7;
  demand.wanted_slots = 2;
  demand.report_plan = true;
  cluster.from_driver(agent, 1, demand);
  const auto near = cluster.expect_start_slot(agent);
  const auto far = cluster.expect_start_slot(other);
  const auto reports = cluster.received<DemandPlanned>(agent, driver);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].demand_class, cpu.id);
  EXPECT_EQ(reports[0].version, 7u);
  EXPECT_EQ(std::set(reports[0].starting.begin(), reports[0].starting.end()),
            (std::set{near.slot, far.slot}));

  // A slot that the lessee expects is reported as lost even if it never started.
  EndCause cause;
  cause.kind = EndKind::start_failed;
  cluster.from_agent(other, SlotGone{far.slot, cause, true});
  EXPECT_EQ(cluster.received<SlotLost>(agent, driver).size(), 1u);
}

// The report for a demand that only the returned slot can meet follows its release.
TEST_F(Lease, ReportsPlanAfterReturnedSlotIsReleased) {
  auto& other = cluster.node_joins(2, SmallCluster::shape(1));
  cluster.driver_starts_job(agent, 1);
  Demand demand;
  demand.demand_class = cpu;
  demand.demand_class.request.strategy = SpreadStrategy{};
  demand.version = 1;
  demand.wanted_slots = 3;
  cluster.from_driver(agent, 1, demand);
  const auto far = cluster.expect_start_slot(other);
  for (const auto& start : cluster.take<StartSlot>(agent)) {
    cluster.executor_ready(agent, start);
    demand.received.push_back(start.slot);
  }
  ASSERT_EQ(demand.received.size(), 2u);
  cluster.executor_ready(other, far);
  demand.received.push_back(far.slot);
  cluster.from_driver(agent, 1, ReturnSlot{far.slot});
  demand.version = 2;
  demand.wanted_slots = 1;
  demand.report_plan = true;
  cluster.from_driver(agent, 1, demand);
  EXPECT_TRUE(cluster.received<DemandPlanned>(agent, driver).empty());
  cluster.slot_gone(other, far.slot);
  const auto next = cluster.expect_start_slot(other);
  const auto reports = cluster.received<DemandPlanned>(agent, driver);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].starting, std::vector{next.slot});
}

TEST_F(Lease, ReportsPlanWhenNoSlotStops) {
  cluster.driver_starts_job(agent, 1);
  Demand demand;
  demand.demand_class = cpu;
  demand.demand_class.request.strategy = SpreadStrategy{};
  demand.version = 1;
  demand.wanted_slots = 3;
  demand.report_plan = true;
  cluster.from_driver(agent, 1, demand);
  const auto reports = cluster.received<DemandPlanned>(agent, driver);
  ASSERT_EQ(reports.size(), 1u) << "the node has two CPUs";
  EXPECT_EQ(reports[0].starting.size(), 2u);
}

TEST_F(Lease, IgnoresStaleDemand) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cpu, 1);
  cluster.expect_start_slot(agent);
  Demand stale;
  stale.demand_class = cpu;
  stale.version = 0;
  stale.wanted_slots = 2;
  cluster.from_driver(agent, 1, stale);
  cluster.expect_no_start_slot(agent);
}

TEST_F(Lease, RetriesFailedStart) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cpu, 1);
  const auto first = cluster.expect_start_slot(agent);
  EndCause cause;
  cause.kind = EndKind::start_failed;
  cluster.slot_gone(agent, first.slot, cause);
  EXPECT_NE(cluster.expect_start_slot(agent).slot, first.slot);
}

TEST_F(Lease, ProgramCannotStart_NodeAvoidedWithReason) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cpu, 1);
  const auto first = cluster.expect_start_slot(agent);
  EndCause cause;
  cause.kind = EndKind::start_failed;
  cause.text = "libcudart.so.12: not found";
  cluster.from_agent(agent, SlotGone{first.slot, cause, true});
  cluster.expect_no_start_slot(agent);
  const auto news = cluster.received<DemandInfeasible>(agent, driver);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_NE(news[0].summary.find("libcudart.so.12"), std::string::npos) << news[0].summary;
}

TEST_F(Lease, FailedStart_ExpiresAfterBackoff) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cpu, 1);
  EndCause cause;
  cause.kind = EndKind::start_failed;
  cause.text = "libcudart.so.12: not found";
  cluster.from_agent(agent, SlotGone{cluster.expect_start_slot(agent).slot, cause, true});
  cluster.pass(29s);
  cluster.expect_no_start_slot(agent);
  cluster.pass(2s);
  cluster.from_agent(agent, SlotGone{cluster.expect_start_slot(agent).slot, cause, true});
  cluster.pass(55s);
  cluster.expect_no_start_slot(agent);
  cluster.pass(10s);
  cluster.expect_start_slot(agent);
}

TEST_F(Lease, FailedStartWithEnv_SparesOtherEnvs) {
  cluster.driver_starts_job(agent, 1);
  DemandClass other = cpu;
  other.id = ClassId::of(77);
  other.env["LD_LIBRARY_PATH"] = "/nowhere";
  cluster.wants(agent, other, 1);
  EndCause cause;
  cause.kind = EndKind::start_failed;
  cluster.from_agent(agent, SlotGone{cluster.expect_start_slot(agent).slot, cause, true});
  cluster.expect_no_start_slot(agent);
  cluster.wants(agent, cpu, 1);
  EXPECT_EQ(cluster.expect_start_slot(agent).demand_class.id, cpu.id);
}

TEST_F(Lease, ReportsInfeasibleDemandAndFatality) {
  cluster.driver_starts_job(agent, 1);
  const auto large = cluster.demand_class(1, 5, {{"GPU", Quantity::whole(9)}});
  cluster.wants(agent, large, 1);
  auto news = cluster.received<DemandInfeasible>(agent, driver);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_FALSE(news[0].fatal);
  EXPECT_NE(news[0].summary.find("GPU 9"), std::string::npos) << news[0].summary;

  auto pinned = cluster.demand_class(1, 6, {{"CPU", Quantity::whole(1)}});
  pinned.request.strategy = NodeAffinityStrategy{NodeId::of(55), false};
  cluster.wants(agent, pinned, 1);
  news = cluster.received<DemandInfeasible>(agent, driver);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_TRUE(news[0].fatal);
}

TEST_F(Lease, NodeDied_LesseesLoseSlots) {
  auto& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  const auto endpoint = cluster.executor_ready(agent, start);
  cluster.take<PeersChanged>(home);
  cluster.step(AgentLinkLost{agent.link});
  cluster.step(NodeProbed{agent.incarnation, true});
  const auto lost = cluster.received<SlotLost>(home, driver);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].cause.kind, EndKind::node_died);
  const auto news = cluster.take<PeersChanged>(home);
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].dead_agents, std::vector{agent.incarnation});
  EXPECT_EQ(news[0].dead_processes, std::vector{endpoint.process});
  EXPECT_TRUE(cluster.view().slots.empty());
}

// A driver may outlive its agent.
TEST_F(Lease, OwnNodeDied_DriverKeepsSlots) {
  auto& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  cluster.step(AgentLinkLost{home.link});
  cluster.step(NodeProbed{home.incarnation, true});
  cluster.executor_ready(agent, start);  // the lessee cannot be notified
  cluster.pass(2s);
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty());
  for (const auto& news : cluster.take<PeersChanged>(agent)) {
    EXPECT_TRUE(news.dead_processes.empty());
  }
  auto& next = cluster.node_joins(3, {}, Role::driver_agent);
  cluster.driver_starts_job(next, 1);
  EXPECT_EQ(cluster.received<StartJobReply>(next, driver).size(), 1u);
  const auto ready = cluster.received<SlotReady>(next, driver);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].slot, start.slot);
  cluster.pass(60s);
  EXPECT_FALSE(cluster.view().jobs[0].ended);
}

// The agent of a slot notifies lessees on its own node, but this lessee attached later.
TEST_F(Lease, DriverReattachedAtSlotNode_ReceivesSlot) {
  auto& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  cluster.step(AgentLinkLost{home.link});
  cluster.step(NodeProbed{home.incarnation, true});
  cluster.executor_ready(agent, start);
  cluster.driver_starts_job(agent, 1);
  const auto ready = cluster.received<SlotReady>(agent, driver);
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].slot, start.slot);
}

TEST_F(Lease, NodeDiedAndDriverAbsent_JobEnds) {
  auto& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.wants(home, cpu, 1);
  cluster.executor_ready(agent, cluster.expect_start_slot(agent));
  cluster.step(AgentLinkLost{home.link});
  cluster.step(NodeProbed{home.incarnation, true});
  cluster.pass(HeadOptions{}.driver_absence + 1s);
  EXPECT_TRUE(cluster.view().jobs[0].ended);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  bool published = false;
  for (const auto& news : cluster.take<PeersChanged>(agent)) {
    published = published || news.dead_processes == std::vector{driver};
  }
  EXPECT_TRUE(published);
}

TEST_F(Lease, DriverAbsence_LastsTwoMinutesByDefault) {
  auto& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.step(AgentLinkLost{home.link});
  cluster.step(NodeProbed{home.incarnation, true});
  cluster.pass(100s);
  EXPECT_FALSE(cluster.view().jobs[0].ended);
  cluster.driver_starts_job(agent, 1);
  cluster.pass(60s);
  EXPECT_FALSE(cluster.view().jobs[0].ended) << "the driver is back";
}

TEST_F(Lease, DriverAbsence_ContinuesOverHeadRestart) {
  cluster.step(ClockMoved{1'000'000'000'000});
  auto& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.step(AgentLinkLost{home.link});
  cluster.step(NodeProbed{home.incarnation, true});
  cluster.pass(60s);
  const std::int64_t wall = cluster.core().wall_ms(cluster.now);
  cluster.restart_head();
  cluster.step(ClockMoved{wall});
  cluster.register_agent(agent);
  EXPECT_FALSE(cluster.view().jobs[0].ended);
  cluster.pass(62s);
  EXPECT_TRUE(cluster.view().jobs[0].ended);
}

TEST_F(Lease, LinkLost_SlotIsFencedAndReported) {
  auto& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, start);
  cluster.from_driver(home, 1,
                      ReturnSlot{start.slot, "executor 14 could not be reached", agent.node});
  const auto stopped = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_FALSE(stopped[0].graceful);
  EXPECT_NE(cluster.tool("status").json.find("could not reach node"), std::string::npos);
  EXPECT_NE(cluster.tool("list", "events", R"({"kind":"LINK_LOST"})").json.find("LINK_LOST"),
            std::string::npos);
  cluster.pass(301s);
  EXPECT_EQ(cluster.tool("status").json.find("could not reach node"), std::string::npos);
}

TEST_F(Lease, LesseeDied_SlotsRevoked) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cpu, 2);
  ASSERT_EQ(cluster.take<StartSlot>(agent).size(), 2u);
  cluster.driver_dies(agent, 1);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 2u);
  EXPECT_EQ(cluster.take<JobEnded>(agent).size(), 1u);
  EXPECT_TRUE(cluster.view().jobs[0].ended);
  cluster.pass(100ms);
  bool published = false;
  for (const auto& news : cluster.take<PeersChanged>(agent)) {
    published = published || news.dead_processes == std::vector{driver};
  }
  EXPECT_TRUE(published);
}

TEST_F(Lease, ExecutorBlocked_CpuReleased) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cpu, 3);
  const auto starts = cluster.take<StartSlot>(agent);
  ASSERT_EQ(starts.size(), 2u);
  cluster.executor_ready(agent, starts[0]);
  cluster.from_agent(agent, SlotCpuReleased{starts[0].slot, true});
  const auto third = cluster.expect_start_slot(agent);
  cluster.from_agent(agent, SlotCpuReleased{starts[0].slot, false});
  cluster.slot_gone(agent, third.slot);
  cluster.expect_no_start_slot(agent);
}

TEST_F(Lease, DrainingNode_RecallsAndGrantsNothing) {
  cluster.driver_starts_job(agent, 1);
  cluster.wants(agent, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, start);
  EXPECT_TRUE(cluster.tool("drain", "", agent.node.hex()).ok);
  const auto recalls = cluster.received<RecallSlot>(agent, driver);
  ASSERT_EQ(recalls.size(), 1u);
  EXPECT_EQ(recalls[0].slot, start.slot);
  cluster.wants(agent, cpu, 1);
  cluster.expect_no_start_slot(agent);
}

TEST_F(Lease, RejectsDemandForAnotherJob) {
  cluster.driver_starts_job(agent, 1);
  cluster.driver_starts_job(agent, 2);
  Demand theirs;
  theirs.demand_class = cluster.demand_class(2, 9, {{"CPU", Quantity::whole(1)}});
  theirs.wanted_slots = 1;
  cluster.from_process(agent, driver, Role::driver, 1, theirs);
  cluster.expect_no_start_slot(agent);
  EXPECT_EQ(cluster.received<RequestRejected>(agent, driver).size(), 1u);
}

TEST_F(Lease, LostAndRepeatedFrames_ChangeNothing) {
  agent.lossy = true;
  cluster.driver_starts_job(agent, 1);
  cluster.pass(3s);
  cluster.wants(agent, cpu, 2);
  cluster.pass(3s);
  const auto starts = cluster.take<StartSlot>(agent);
  ASSERT_EQ(starts.size(), 2u);
  for (const auto& start : starts) cluster.executor_ready(agent, start);
  cluster.pass(10s);
  for (const auto& slot : cluster.view().slots) EXPECT_TRUE(slot.ready);
  EXPECT_TRUE(cluster.take<StartSlot>(agent).empty());
}

TEST_F(Lease, LocatesReplicasOnOtherNodes) {
  auto& other = cluster.node_joins(2, SmallCluster::shape(1));
  cluster.from_agent(other, ObjectCopies{{ObjectId::of(5)}, {}});
  cluster.from_agent(agent, LocateObjectRequest{ObjectId::of(5)});
  auto answers = cluster.take<LocateObjectReply>(agent);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].nodes, std::vector{other.node});
  cluster.raw(other, AgentStopped{other.incarnation});
  cluster.from_agent(agent, LocateObjectRequest{ObjectId::of(5)});
  EXPECT_TRUE(cluster.take<LocateObjectReply>(agent)[0].nodes.empty());
}

}  // namespace
}  // namespace mobula::internal::head
