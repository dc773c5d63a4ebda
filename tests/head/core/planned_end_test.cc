// Tests executors that await submitted calls, and actors whose owners exited as planned.
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

class PlannedEnd : public testing::Test {
 protected:
  PlannedEnd() { cluster.driver_starts_job(home, 1); }

  ResourceSet cpus(int count) const {
    ResourceSet set;
    set.set("CPU", Quantity::whole(count));
    return set;
  }
  static EndCause retired() {
    EndCause cause;
    cause.kind = EndKind::retired;
    return cause;
  }
  // Starts an actor that an executor creates, and returns the process of that executor.
  ProcessId made_by_a_task() {
    const auto demand = cluster.demand_class(1, 1, cpus(1));
    cluster.wants(home, demand, 1);
    const auto slot = cluster.expect_start_slot(agent);
    const ProcessId maker = cluster.executor_ready(agent, slot).process;
    spec.owner = maker;
    cluster.from_process(agent, maker, Role::executor, 1, CreateActor{spec, false});
    actor_slot = cluster.actor_comes_alive(agent).slot;
    maker_slot = slot.slot;
    return maker;
  }
  void entrust(bool held) {
    ObjectCopies news;
    news.entrusted.push_back({spec.actor, cluster.job_of(1).job, held});
    cluster.from_agent(agent, news);
  }
  static ProcessId first_executor() { return ProcessId::of(5001); }
  // Whether the name "shared" belongs to this actor, in a query and in the list.
  bool is_found(ActorId actor) {
    cluster.from_driver(home, 1, FindActor{5, "shared", ""});
    const auto found = cluster.received<FindActorReply>(home, SmallCluster::driver(1));
    const std::string list = cluster.tool("list", "named_actors").json;
    const bool listed = list.find(actor.hex()) != std::string::npos;
    const bool is_found = found.size() == 1 && found[0].found && found[0].actor == actor;
    EXPECT_EQ(listed, is_found) << list;
    return is_found;
  }
  void exits(ProcessId process) { cluster.from_agent(agent, ProcessEnded{process, retired()}); }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
  ActorSpec spec = cluster.actor(1, 1);
  SlotId maker_slot;
  SlotId actor_slot;
};

TEST_F(PlannedEnd, DepartedSlot_ReturnsItsResources) {
  const auto demand = cluster.demand_class(1, 1, cpus(2));
  cluster.wants(home, demand, 1);
  const auto first = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, first);
  const auto other = cluster.demand_class(1, 2, cpus(2));
  cluster.wants(home, other, 1);
  cluster.expect_no_start_slot(agent);
  cluster.from_agent(agent, SlotCpuReleased{first.slot, true, true, retired()});
  EXPECT_NE(cluster.expect_start_slot(agent).slot, first.slot);
  EXPECT_EQ(cluster.received<SlotLost>(home, SmallCluster::driver(1)).size(), 1u);
  EXPECT_TRUE(cluster.core().verify().ok());
  cluster.slot_gone(agent, first.slot, retired());
  EXPECT_TRUE(cluster.core().verify().ok());
}

TEST_F(PlannedEnd, OwnerExited_EntrustedActorSurvives) {
  const ProcessId maker = made_by_a_task();
  entrust(true);
  exits(maker);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
  cluster.take<StopSlot>(agent);
  entrust(false);
  const auto stops = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].slot, actor_slot);
  EXPECT_TRUE(stops[0].graceful);
}

TEST_F(PlannedEnd, OwnerCrashed_ActorDies) {
  const ProcessId maker = made_by_a_task();
  exits(maker);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
}

TEST_F(PlannedEnd, JobEnded_EntrustedActorEnds) {
  const ProcessId maker = made_by_a_task();
  entrust(true);
  exits(maker);
  cluster.driver_dies(home, 1);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
}

TEST_F(PlannedEnd, ActorEnding_NameIsFree) {
  spec.name = "shared";
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  cluster.from_driver(home, 1, EndActor{spec.actor, false, true, "its last handle was released"});
  cluster.from_driver(home, 1, FindActor{5, "shared", ""});
  const auto found = cluster.received<FindActorReply>(home, SmallCluster::driver(1));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].found);
}

TEST_F(PlannedEnd, ActorExits_NameIsFreeWithTheReply) {
  spec.name = "shared";
  cluster.creates(home, spec);
  const StartSlot slot = cluster.actor_comes_alive(agent);
  const ProcessId executor = first_executor();
  FindActor leaving{1, "", "", spec.actor};
  cluster.from_process(home, ProcessId::of(77), Role::driver, 1, leaving);
  EXPECT_TRUE(is_found(spec.actor)) << "only the executor of an actor releases its name";
  cluster.from_process(agent, executor, Role::executor, 1, leaving);
  const auto reply = cluster.received<FindActorReply>(agent, executor);
  ASSERT_EQ(reply.size(), 1u);
  EXPECT_EQ(reply[0].request, 1u);
  EXPECT_FALSE(is_found(spec.actor));
  ActorSpec next = cluster.actor(1, 2);
  next.name = "shared";
  cluster.creates(home, next);
  EXPECT_TRUE(is_found(next.actor));
  // The executor may still run for long, and a crash is no reason to restart it.
  cluster.slot_gone(agent, slot.slot, retired());
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
  EXPECT_TRUE(is_found(next.actor));
}

TEST_F(PlannedEnd, HeadRestarts_ExitingActorHasNoName) {
  spec.name = "shared";
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  ActorSpec next = cluster.actor(1, 2);
  next.name = "shared";
  cluster.from_process(agent, first_executor(), Role::executor, 1,
                       FindActor{1, "", "", spec.actor});
  cluster.creates(home, next);
  EXPECT_TRUE(is_found(next.actor));
  for (int i = 0; i < 2; ++i) {
    cluster.restart_head();
    cluster.register_agent(home);
    EXPECT_TRUE(is_found(next.actor));
  }
}

TEST_F(PlannedEnd, ActorFoundByProcess_Stays) {
  spec.name = "shared";
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  const ProcessId finder = ProcessId::of(77);
  cluster.from_process(home, finder, Role::driver, 1, FindActor{5, "shared", ""});
  cluster.from_driver(home, 1, EndActor{spec.actor, false, true, "its last handle was released"});
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty());
  cluster.from_process(home, finder, Role::driver, 1, WatchActor{spec.actor, true});
  cluster.from_process(home, finder, Role::driver, 1, WatchActor{spec.actor, false});
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

TEST_F(PlannedEnd, OwnerExited_FoundActorSurvives) {
  spec.name = "shared";
  const ProcessId maker = made_by_a_task();
  const ProcessId finder = ProcessId::of(77);
  cluster.from_process(home, finder, Role::driver, 1, FindActor{5, "shared", ""});
  cluster.from_process(agent, maker, Role::executor, 1,
                       EndActor{spec.actor, false, true, "its last handle was released"});
  exits(maker);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
  cluster.take<StopSlot>(agent);
  cluster.from_process(home, finder, Role::driver, 1, WatchActor{spec.actor, true});
  cluster.from_process(home, finder, Role::driver, 1, WatchActor{spec.actor, false});
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

TEST_F(PlannedEnd, FindsActorThatOwnerReleased) {
  spec.name = "shared";
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  const ProcessId finder = ProcessId::of(77);
  cluster.from_process(home, finder, Role::driver, 1, FindActor{5, "shared", ""});
  cluster.from_driver(home, 1, EndActor{spec.actor, false, true, "its last handle was released"});
  cluster.from_driver(home, 1, FindActor{6, "shared", ""});
  cluster.from_process(home, finder, Role::driver, 1, WatchActor{spec.actor, false});
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty());
  cluster.from_driver(home, 1, WatchActor{spec.actor, false});
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

TEST_F(PlannedEnd, FoundActor_StaysWhileRestarting) {
  spec.name = "shared";
  spec.max_restarts = 1;
  cluster.creates(home, spec);
  const auto start = cluster.actor_comes_alive(agent);
  const ProcessId finder = ProcessId::of(77);
  cluster.from_process(home, finder, Role::driver, 1, FindActor{5, "shared", ""});
  EndCause cause = retired();
  cause.kind = EndKind::out_of_memory;  // causes a backoff before the next incarnation
  cluster.slot_gone(agent, start.slot, cause);
  cluster.from_driver(home, 1, EndActor{spec.actor, false, true, "its last handle was released"});
  EXPECT_NE(cluster.state_of(spec.actor).state, ActorState::dead);
}

}  // namespace
}  // namespace mobula::internal::head
