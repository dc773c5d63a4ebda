// Tests the ends of jobs: survivors of a detached actor, notifications of the driver, and output.
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class JobEnds : public testing::Test {
 protected:
  JobEnds() { cluster.driver_starts_job(home, 1); }

  // Starts the actor. Its executor requests one slot, which is ready.
  void detached_actor_with_a_task() {
    spec.detached = true;
    spec.name = "keeper";
    cluster.creates(home, spec);
    actor = cluster.expect_start_slot(agent);
    actor_process = cluster.executor_ready(agent, actor).process;
    cluster.from_agent(agent, ActorConstructed{spec.actor, actor.slot, 0, {}});
    nested_wants(1);
    nested = cluster.expect_start_slot(agent);
    EXPECT_EQ(nested.lessee, actor_process);
    cluster.executor_ready(agent, nested);
  }
  void nested_wants(int slots, std::vector<SlotId> received = {}) {
    Demand demand;
    demand.demand_class = cpu;
    demand.version = ++version;
    demand.wanted_slots = slots;
    demand.waiting_tasks = slots;
    demand.received = std::move(received);
    cluster.from_process(agent, actor_process, Role::executor, 1, demand);
  }
  const JobView& job() {
    view = cluster.view();
    return view.jobs.at(0);
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(8));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
  DemandClass cpu = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
  ActorSpec spec = cluster.actor(1, 1);
  StartSlot actor, nested;
  ProcessId actor_process;
  std::uint64_t version = 0;
  HeadView view;
};

// A task of job 1 names a function of the program of job 2.
TEST_F(JobEnds, OtherProgram_QueuedTasksFail) {
  cluster.driver_starts_job(home, 2);
  DemandClass other = cluster.demand_class(1, 2, {{"CPU", Quantity::whole(8)}});
  other.program = ProgramId::of(2);
  cluster.wants(home, other, 2);
  const StartSlot start = cluster.expect_start_slot(agent);
  EXPECT_EQ(start.program.id, ProgramId::of(2));
  EXPECT_EQ(start.job_env.at("FROM_JOB"), "1");
  cluster.executor_ready(agent, start);
  EXPECT_TRUE(cluster.received<DemandInfeasible>(home, SmallCluster::driver(1)).empty());

  cluster.driver_dies(home, 2);
  const auto refused = cluster.received<DemandInfeasible>(home, SmallCluster::driver(1));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].demand_class, other.id);
  EXPECT_TRUE(refused[0].fatal);
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty()) << "its running task continues";
  cluster.wants(home, other, 1);
  EXPECT_EQ(cluster.received<DemandInfeasible>(home, SmallCluster::driver(1)).size(), 1u);
  cluster.slot_gone(agent, start.slot);
  cluster.expect_no_start_slot(agent);
}

// The actor, which a task of the program of job 2 creates, restarts with that program.
TEST_F(JobEnds, OtherProgram_StartsItsActor) {
  cluster.driver_starts_job(home, 2);
  spec.demand.program = ProgramId::of(2);
  cluster.creates(home, spec);
  EXPECT_EQ(cluster.expect_start_slot(agent).program.id, ProgramId::of(2));
}

TEST_F(JobEnds, NamesProgramsOfWorkingJobs) {
  const auto found = [&](const std::string& name) {
    cluster.from_driver(home, 1, ReadState{7, "program", name});
    const auto replies = cluster.received<ReadStateReply>(home, SmallCluster::driver(1));
    return replies.empty() ? Json() : Json::parse(replies[0].json);
  };
  cluster.driver_starts_job(home, 2);
  EXPECT_EQ(found("job 2").at("program"), ProgramId::of(2).hex());
  EXPECT_NE(found("jbo 2").at("not_found").get<std::string>().find("did you mean 'job 2'?"),
            std::string::npos);
  StartJob same_name = cluster.job_of(3);
  same_name.name = "job 2";
  const Principal principal{Role::driver, "user", JobId::of(3)};
  cluster.from_agent(home, ProcessAttached{{SmallCluster::driver(3), principal, 4711}});
  cluster.from_driver(home, 3, same_name);
  EXPECT_NE(found("job 2").at("ambiguous").get<std::string>().find("run several programs"),
            std::string::npos);
  cluster.driver_dies(home, 2);
  EXPECT_EQ(found("job 2").at("program"), ProgramId::of(3).hex());
}

TEST_F(JobEnds, DetachedActor_KeepsTasksAndGetsMore) {
  detached_actor_with_a_task();
  cluster.wants(home, cpu, 1);
  const auto drivers = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, drivers);
  cluster.from_driver(home, 1, EndJob{JobId::of(1)});
  const auto stops = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stops.size(), 1u) << "the driver's own alone";
  EXPECT_EQ(stops[0].slot, drivers.slot);
  const auto ended = cluster.take<JobEnded>(agent);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(ended[0].lingers);
  EXPECT_EQ(ended[0].kept_slots.size(), 2u);
  nested_wants(1, {nested.slot});
  const auto more = cluster.expect_start_slot(agent);
  EXPECT_EQ(more.lessee, actor_process);
  EXPECT_EQ(more.program.id, ProgramId::of(1));
  EXPECT_EQ(more.program.source, agent.node) << "the driver's node may have forgotten it";
  EXPECT_FALSE(more.show_output) << "no driver is left to print it";
}

TEST_F(JobEnds, LastDetachedActorEnded_JobEnds) {
  detached_actor_with_a_task();
  cluster.from_driver(home, 1, EndJob{JobId::of(1)});
  EXPECT_TRUE(cluster.journal().contains({"jobs", JobId::of(1).hex()}));
  cluster.take<JobEnded>(agent);
  cluster.take<StopSlot>(agent);
  cluster.from_process(agent, actor_process, Role::executor, 1,
                       EndActor{spec.actor, true, true, ""});
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 2u)
      << "the slot of the actor and the slot of its task";
  const auto ended = cluster.take<JobEnded>(agent);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_FALSE(ended[0].lingers);
  EXPECT_TRUE(ended[0].kept_slots.empty());
  EXPECT_FALSE(cluster.journal().contains({"jobs", JobId::of(1).hex()}));
}

TEST_F(JobEnds, HeadRestarted_DetachedActorGetsSlots) {
  detached_actor_with_a_task();
  cluster.from_driver(home, 1, EndJob{JobId::of(1)});
  cluster.from_agent(home, ProcessEnded{SmallCluster::driver(1), {}});
  SlotFact fact;
  fact.slot = actor.slot;
  fact.demand_class = actor.demand_class;
  fact.allocation = actor.allocation;
  fact.actor = actor.actor;
  fact.ready = true;
  fact.endpoint = {actor_process, agent.node, "ipc", "node:1", "key"};
  agent.facts.slots = {fact};
  agent.facts.processes = {{actor_process, Principal{Role::executor, "", JobId::of(1)}, 5}};
  agent.facts.jobs = {JobId::of(1)};
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  cluster.from_agent(agent, ActorConstructed{spec.actor, actor.slot, 0, {}});
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
  nested_wants(1);
  EXPECT_EQ(cluster.expect_start_slot(agent).lessee, actor_process);
}

TEST_F(JobEnds, NotifiesDriverWhenJobHasEnded) {
  cluster.wants(home, cpu, 1);
  const auto start = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, start);
  cluster.from_driver(home, 1, EndJob{JobId::of(1)});
  EXPECT_TRUE(cluster.take<JobFinished>(home).empty());
  cluster.from_agent(agent, JobOutputLines{JobId::of(1), "square pid=1 node=1", {"last words"}});
  cluster.slot_gone(agent, start.slot);
  ASSERT_FALSE(home.got.empty());
  EXPECT_TRUE(std::holds_alternative<JobFinished>(home.got.back()));
  EXPECT_EQ(cluster.take<JobOutputLines>(home).size(), 1u) << "before the word that all is over";
}

TEST_F(JobEnds, PlannedEnd_ShowsExitOfDriver) {
  const auto shown_after = [&](int number, EndCause cause) {
    cluster.driver_starts_job(home, number);
    cluster.from_driver(home, number, EndJob{JobId::of(static_cast<unsigned>(number))});
    cause.pid = 4711;
    cause.text = "without ending its job";
    cluster.from_agent(home, ProcessEnded{SmallCluster::driver(number), cause});
    const auto jobs = Json::parse(cluster.tool("list", "jobs").json);
    for (const auto& each : jobs.at("items")) {
      if (each.at("job_id") == JobId::of(static_cast<unsigned>(number)).hex())
        return each.at("state").get<std::string>() + ": " + each.at("reason").get<std::string>();
    }
    return std::string("not listed");
  };
  EndCause code;
  code.exit_code = 3;
  EXPECT_EQ(shown_after(2, code),
            "SUCCEEDED: its driver has finished and then exited with code 3 (pid 4711)");
  EndCause signal;
  signal.kind = EndKind::signalled;
  signal.signal = 11;
  EXPECT_EQ(shown_after(3, signal),
            "SUCCEEDED: its driver has finished and then was killed by signal 11 (pid 4711)");
  signal.signal = 0;
  EXPECT_EQ(shown_after(4, signal), "SUCCEEDED: its driver has finished") << "status unknown";
}

TEST_F(JobEnds, JobRanNothing_NotifiesAtOnce) {
  cluster.from_driver(home, 1, EndJob{JobId::of(1)});
  EXPECT_EQ(cluster.take<JobFinished>(home).size(), 1u);
}

TEST_F(JobEnds, SlowNode_DropsAndCountsOutputLines) {
  home.silent = true;  // acknowledges no messages
  for (int i = 0; i < 1000; ++i) {
    cluster.from_agent(agent, JobOutputLines{JobId::of(1), "f pid=1 node=1", {"line"}});
  }
  home.silent = false;
  cluster.pass(8s);
  cluster.from_agent(agent, JobOutputLines{JobId::of(1), "f pid=1 node=1", {"last"}});
  const auto received = cluster.take<JobOutputLines>(home);
  ASSERT_GT(received.size(), 100u);
  ASSERT_LT(received.size(), 300u);
  ASSERT_EQ(received.back().lines.size(), 2u);
  EXPECT_EQ(received.back().lines[0], "... " + std::to_string(1000 - (received.size() - 1)) +
                                          " lines of executors on other nodes were left out here");
  EXPECT_EQ(received.back().lines[1], "last");
}

}  // namespace
}  // namespace mobula::internal::head
