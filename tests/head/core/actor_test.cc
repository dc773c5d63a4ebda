// Tests creation, names, watchers, restarts, and ends of actors.
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

class Actors : public testing::Test {
 protected:
  Actors() { cluster.driver_starts_job(home, 1); }

  std::vector<ActorChanged> news(ProcessId process = SmallCluster::driver(1)) {
    return cluster.received<ActorChanged>(home, process);
  }
  EndCause crash() const {
    EndCause cause;
    cause.kind = EndKind::signalled;
    cause.signal = 11;
    return cause;
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
  ActorSpec spec = cluster.actor(1, 1);
};

TEST_F(Actors, NotifiesOwnerWhenActorIsAlive) {
  cluster.creates(home, spec);
  const auto start = cluster.actor_comes_alive(agent);
  EXPECT_EQ(start.first_generation, 0u);
  EXPECT_EQ(start.actor.class_name, "Counter");
  const auto received = news();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].state, ActorState::placing);
  EXPECT_EQ(received[1].state, ActorState::alive);
  EXPECT_EQ(received[1].incarnation, 1u);
  EXPECT_FALSE(received[1].endpoint.process.empty());
  EXPECT_LT(received[0].version, received[1].version);
}

TEST_F(Actors, NotifiesEarlyWatchers) {
  const auto watcher = ProcessId::of(77);
  cluster.from_process(home, watcher, Role::driver, 1, WatchActor{spec.actor, true});
  EXPECT_TRUE(news(watcher).empty());
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  auto received = news(watcher);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[1].state, ActorState::alive);
  cluster.from_process(home, watcher, Role::driver, 1, WatchActor{spec.actor, true});
  EXPECT_EQ(news(watcher).size(), 1u);
}

TEST_F(Actors, ActorNeverCreated_WatcherIsNotified) {
  cluster.from_driver(home, 1, WatchActor{ActorId::of(99), true});
  cluster.pass(11s);
  const auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, ActorState::dead);
}

TEST_F(Actors, ConstructorThrows_ActorDies) {
  cluster.creates(home, spec);
  const auto start = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, start);
  ValueRecord error;
  error.is_error = true;
  error.size_bytes = 3;
  cluster.from_agent(agent, ActorConstructed{spec.actor, start.slot, 0, error});
  const auto received = news();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[1].state, ActorState::dead);
  EXPECT_EQ(received[1].construction_error, error);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

TEST_F(Actors, OutOfMemory_RestartsWithGrowingBackoff) {
  spec.max_restarts = -1;
  cluster.creates(home, spec);
  auto started = cluster.actor_comes_alive(agent);
  EndCause cause = crash();
  cause.kind = EndKind::out_of_memory;
  for (const Duration pause : {Duration(500ms), Duration(1s), Duration(2s)}) {
    cluster.actor_executor_dies(agent, started, cause);
    cluster.pass(pause - Duration(1ms));
    cluster.expect_no_start_slot(agent);
    cluster.pass(Duration(2ms));
    started = cluster.actor_comes_alive(agent);
  }
}

TEST_F(Actors, StartFailed_RetriesAtOnceThenWithBackoff) {
  cluster.creates(home, spec);
  EndCause cause;
  cause.kind = EndKind::start_failed;
  cause.text = "no descriptors are left";
  cluster.slot_gone(agent, cluster.expect_start_slot(agent).slot, cause);
  for (const Duration pause : {Duration(100ms), Duration(200ms), Duration(400ms)}) {
    cluster.slot_gone(agent, cluster.expect_start_slot(agent).slot, cause);
    cluster.pass(pause - Duration(1ms));
    cluster.expect_no_start_slot(agent);
    cluster.pass(Duration(2ms));
  }
  cluster.actor_comes_alive(agent);
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 0);
}

TEST_F(Actors, RestartsUntilLimitIsReached) {
  spec.max_restarts = 1;
  cluster.creates(home, spec);
  const auto first = cluster.actor_comes_alive(agent);
  news();
  cluster.actor_executor_dies(agent, first, crash());
  auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, ActorState::restarting);
  const auto second = cluster.actor_comes_alive(agent);
  EXPECT_EQ(second.first_generation, 1u);
  received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].incarnation, 2u);
  cluster.actor_executor_dies(agent, second, crash());
  received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, ActorState::dead);
  EXPECT_EQ(received[0].cause.signal, 11);
  cluster.expect_no_start_slot(agent);
}

TEST_F(Actors, ExitActor_IsNotACrash) {
  spec.max_restarts = -1;
  cluster.creates(home, spec);
  const auto start = cluster.actor_comes_alive(agent);
  EndCause cause;
  cause.kind = EndKind::intended;
  cluster.actor_executor_dies(agent, start, cause);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
}

TEST_F(Actors, Kill_EndsAtOnceOrRestarts) {
  spec.max_restarts = 1;
  cluster.creates(home, spec);
  const auto start = cluster.actor_comes_alive(agent);
  cluster.from_driver(home, 1, EndActor{spec.actor, true, false, "test"});
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  cluster.actor_executor_dies(agent, start, crash());
  cluster.actor_comes_alive(agent);
  EXPECT_EQ(cluster.state_of(spec.actor).restarts_used, 1);
  cluster.from_driver(home, 1, EndActor{spec.actor, true, true, "test"});
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
  const auto stops = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_FALSE(stops[0].graceful);
}

TEST_F(Actors, LastHandleReleased_RunningCallsFinish) {
  cluster.creates(home, spec);
  const auto start = cluster.actor_comes_alive(agent);
  cluster.from_driver(home, 1, EndActor{spec.actor, false, true, "no handle is left"});
  const auto stops = cluster.take<StopSlot>(agent);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_TRUE(stops[0].graceful);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
  cluster.actor_executor_dies(agent, start, {});
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
  EXPECT_TRUE(cluster.view().slots.empty());
}

TEST_F(Actors, NameTaken_RejectsOrReturnsExisting) {
  spec.name = "counter";
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  news();
  auto second = cluster.actor(1, 2);
  second.name = "counter";
  cluster.creates(home, second);
  const auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(received[0].refused);
  EXPECT_EQ(received[0].state, ActorState::dead);
  EXPECT_NE(received[0].cause.text.find("counter"), std::string::npos);

  second.get_if_exists = true;
  cluster.creates(home, second);
  const auto found = cluster.received<FindActorReply>(home, SmallCluster::driver(1));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].found);
  EXPECT_EQ(found[0].actor, spec.actor);
  EXPECT_EQ(found[0].wanted, second.actor);
  EXPECT_EQ(found[0].owner_node, home.node);
}

TEST_F(Actors, ReportsPendingLimitToCallers) {
  spec.name = "counter";
  spec.max_pending_calls = 4;
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  EXPECT_EQ(news().back().max_pending_calls, 4);
  auto second = cluster.actor(1, 2);
  second.name = "counter";
  second.get_if_exists = true;
  cluster.creates(home, second);
  EXPECT_EQ(
      cluster.received<FindActorReply>(home, SmallCluster::driver(1)).back().max_pending_calls, 4);
}

TEST_F(Actors, FindsNamesInNamespaceUntilDeath) {
  spec.name = "counter";
  spec.name_space = "shared";
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  const auto send_query = [&](const std::string& space) {
    cluster.from_driver(home, 1, FindActor{3, "counter", space});
    const auto found = cluster.received<FindActorReply>(home, SmallCluster::driver(1));
    return found.size() == 1 && found[0].request == 3 && found[0].found;
  };
  EXPECT_TRUE(send_query("shared"));
  EXPECT_FALSE(send_query(""));
  cluster.from_driver(home, 1, EndActor{spec.actor, true, true, ""});
  EXPECT_FALSE(send_query("shared"));
  auto second = cluster.actor(1, 2);
  second.name = "counter";
  second.name_space = "shared";
  cluster.creates(home, second);
  EXPECT_TRUE(send_query("shared"));
}

TEST_F(Actors, JobEnded_ActorsEndUnlessDetached) {
  auto detached = cluster.actor(1, 2);
  detached.detached = true;
  detached.name = "keeper";
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  cluster.creates(home, detached);
  const auto kept = cluster.actor_comes_alive(agent);
  cluster.driver_dies(home, 1);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
  EXPECT_EQ(cluster.state_of(detached.actor).state, ActorState::alive);
  const auto ended = cluster.take<JobEnded>(agent);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].kept_slots, std::vector{kept.slot});
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

TEST_F(Actors, JobEnded_DetachedActorStillRestarts) {
  auto detached = cluster.actor(1, 2);
  detached.detached = true;
  detached.max_restarts = -1;
  cluster.creates(home, detached);
  const auto start = cluster.actor_comes_alive(agent);
  cluster.from_driver(home, 1, EndJob{JobId::of(1)});
  cluster.actor_executor_dies(agent, start, crash());
  const auto again = cluster.actor_comes_alive(agent);
  EXPECT_EQ(again.program.id, ProgramId::of(1));
  EXPECT_EQ(again.job_env.at("FROM_JOB"), "1");
}

TEST_F(Actors, OwnerExited_ActorsEnd) {
  const auto owner = ProcessId::of(88);
  spec.owner = owner;
  cluster.from_process(home, owner, Role::driver, 1, CreateActor{spec, false});
  cluster.actor_comes_alive(agent);
  cluster.from_agent(home, ProcessEnded{owner, crash()});
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
}

TEST_F(Actors, NodeDied_ActorMoves) {
  auto& spare = cluster.node_joins(3, SmallCluster::shape(2));
  spec.max_restarts = 1;
  cluster.creates(home, spec);
  TestAgent& first = cluster.view().slots[0].node == agent.node ? agent : spare;
  TestAgent& second = &first == &agent ? spare : agent;
  cluster.actor_comes_alive(first);
  news();
  cluster.step(AgentLinkLost{first.link});
  cluster.step(NodeProbed{first.incarnation, true});
  const auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, ActorState::restarting);
  EXPECT_EQ(received[0].cause.kind, EndKind::node_died);
  cluster.actor_comes_alive(second);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
}

TEST_F(Actors, ExclusiveActor_WaitsUntilNodeIsFenced) {
  auto& spare = cluster.node_joins(3, SmallCluster::shape(2));
  spec.max_restarts = -1;
  spec.exclusive = true;
  cluster.creates(home, spec);
  TestAgent& first = cluster.view().slots[0].node == agent.node ? agent : spare;
  TestAgent& second = &first == &agent ? spare : agent;
  cluster.actor_comes_alive(first);
  first.silent = true;
  cluster.pass(10500ms);  // the node is dead
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::restarting);
  cluster.pass(9s);
  cluster.expect_no_start_slot(second);
  cluster.pass(2s);
  cluster.expect_start_slot(second);
}

TEST_F(Actors, RejectsInfeasibleActorWhenFailFast) {
  spec.demand.request.resources = {{"GPU", Quantity::whole(1)}};
  cluster.from_driver(home, 1, CreateActor{spec, true});
  const auto infeasible = cluster.received<DemandInfeasible>(home, SmallCluster::driver(1));
  ASSERT_EQ(infeasible.size(), 1u);
  EXPECT_EQ(infeasible[0].actor, spec.actor);
  EXPECT_TRUE(infeasible[0].fatal);
  EXPECT_TRUE(news().back().refused);
}

TEST_F(Actors, CreationResent_RepliesWithoutChange) {
  cluster.creates(home, spec);
  cluster.actor_comes_alive(agent);
  news();
  cluster.creates(home, spec);
  const auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, ActorState::alive);
  cluster.expect_no_start_slot(agent);
}

TEST_F(Actors, DetachedActor_StartsWhenDurable) {
  spec.detached = true;
  cluster.persist_at_once = false;
  cluster.creates(home, spec);
  EXPECT_TRUE(news().empty());
  cluster.expect_no_start_slot(agent);
  cluster.persist();
  EXPECT_EQ(news().size(), 1u);
  cluster.expect_start_slot(agent);
}

TEST_F(Actors, PersistFailed_DetachedActorRejected) {
  spec.detached = true;
  spec.name = "keeper";
  cluster.persist_at_once = false;
  cluster.creates(home, spec);
  cluster.fail_to_persist("disk full");
  const auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(received[0].refused);
  EXPECT_NE(received[0].cause.text.find("disk full"), std::string::npos);
  cluster.expect_no_start_slot(agent);
  cluster.pass(2s);
  cluster.persist();
  EXPECT_EQ(cluster.journal().count({"actors", spec.actor.hex()}), 0u);
}

}  // namespace
}  // namespace mobula::internal::head
