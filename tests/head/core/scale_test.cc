// Cost of events with many idle rows, and the limits of rows that are kept after their end. Counts
// walks over tables, not time.
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

ResourceSet of(const char* resource) {
  ResourceSet set;
  set.set(resource, Quantity::whole(1));
  return set;
}

// Rows that walks have visited during typical events of one job, with `idle` rows of others.
std::uint64_t walked_beside(int idle) {
  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  for (int i = 0; i < idle; ++i) {
    ActorSpec spec = cluster.actor(1, 1'000 + i);
    spec.demand.request.resources = of("absent");
    if (i % 2 == 0) spec.demand.id = ClassId::of(77);
    cluster.creates(home, spec);
    GroupSpec group;
    group.id = GroupId::of(static_cast<unsigned>(1 + i));
    group.job = spec.job;
    group.creator = SmallCluster::driver(1);
    group.bundles.emplace_back().resources = of("absent");
    cluster.driver_sends(home, 1, CreateGroup{group});
    cluster.driver_sends(home, 1,
                         WatchActor{ActorId::of(100'000u + static_cast<unsigned>(i)), true});
    cluster.driver_sends(home, 1, WatchGroup{GroupId::of(100'000u + static_cast<unsigned>(i))});
    cluster.driver_starts_job(home, 10 + i);
    cluster.wants(home, cluster.demand_class(10 + i, 100 + i, of("absent")), 1);
  }
  const std::uint64_t before = cluster.rows_walked;
  ActorSpec infeasible = cluster.actor(1, 999);
  infeasible.demand.request.resources = of("absent");
  cluster.creates(home, infeasible);
  infeasible.actor = ActorId::of(998);
  infeasible.demand.id = ClassId::of(77);
  cluster.creates(home, infeasible);
  cluster.driver_starts_job(home, 2);
  cluster.creates(home, cluster.actor(2, 1));
  const StartSlot first = cluster.actor_comes_alive(agent);
  EndCause cause;
  cause.kind = EndKind::signalled;
  cluster.actor_executor_dies(agent, first, cause);
  GroupSpec group;
  group.id = GroupId::of(99'999);
  group.job = JobId::of(2);
  group.creator = SmallCluster::driver(2);
  group.bundles.emplace_back().resources = of("CPU");
  cluster.driver_sends(home, 2, CreateGroup{group});
  cluster.driver_sends(home, 2, RemoveGroup{group.id});
  cluster.creates(home, cluster.actor(2, 2));
  const StartSlot second = cluster.actor_comes_alive(agent);
  cluster.wants(home, cluster.demand_class(2, 3, of("CPU")), 1);
  cluster.driver_dies(home, 2);
  cluster.slot_gone(agent, second.slot);
  cluster.pass(300ms);
  return cluster.rows_walked - before;
}

TEST(HeadScale, EventsVisitNoIdleRows) {
  const std::uint64_t beside_few = walked_beside(3);
  EXPECT_EQ(walked_beside(40), beside_few);
}

// Rows that a lost link and the deadlines of 11 s have visited, with `nodes` nodes that send
// heartbeats.
std::uint64_t walked_by_deadlines(int nodes) {
  SmallCluster cluster;
  TestAgent& home = cluster.node_joins(1, {}, Role::driver_agent);
  for (int i = 0; i < nodes; ++i) cluster.node_joins(2 + i, SmallCluster::shape(1));
  cluster.driver_starts_job(home, 1);
  cluster.driver_sends(home, 1, WatchActor{ActorId::of(100'000), true});
  const std::uint64_t before = cluster.rows_walked;
  cluster.step(AgentLinkLost{999});
  cluster.pass(11s);
  return cluster.rows_walked - before;
}

TEST(HeadScale, DeadlinesVisitNoOtherNodes) {
  EXPECT_EQ(walked_by_deadlines(40), walked_by_deadlines(3));
}

// Rows that a drain with a deadline and the death of two nodes have visited, with `idle` actors of
// others: half of them wait, half run on a third node.
std::uint64_t walked_by_departures(int idle) {
  SmallCluster cluster;
  TestAgent& home = cluster.node_joins(1, {}, Role::driver_agent);
  TestAgent& drained = cluster.node_joins(2, SmallCluster::shape(2));
  cluster.driver_starts_job(home, 1);
  for (int i = 0; i < 2; ++i) {
    ActorSpec spec = cluster.actor(1, 1 + i);
    spec.max_restarts = i;
    cluster.creates(home, spec);
    cluster.actor_comes_alive(drained);
  }
  TestAgent& dying = cluster.node_joins(3, SmallCluster::shape(1));
  ActorSpec exclusive = cluster.actor(1, 3);
  exclusive.exclusive = true;
  exclusive.max_restarts = 1;
  cluster.creates(home, exclusive);
  cluster.actor_comes_alive(dying);
  NodeShape large = SmallCluster::shape(idle);
  large.resources.push_back({"license", {InstanceShape{Quantity::whole(1), "", {}, 0}}});
  TestAgent& other = cluster.node_joins(4, large);
  for (int i = 0; i < idle; ++i) {
    cluster.creates(home, cluster.actor(1, 1'000 + i));
    cluster.actor_comes_alive(other);
  }
  for (int i = 0; i < idle; ++i) {
    ActorSpec waiting = cluster.actor(1, 10'000 + i);
    waiting.demand.id = ClassId::of(77);
    waiting.demand.request.resources = of("license");
    cluster.creates(home, waiting);
  }
  cluster.actor_comes_alive(other);
  const std::uint64_t before = cluster.rows_walked;
  EXPECT_TRUE(cluster.tool("drain", "2000", drained.node.hex()).ok);
  cluster.pass(3s);
  dying.silent = true;
  cluster.pass(30s);
  EXPECT_EQ(cluster.state_of(exclusive.actor).state, ActorState::restarting);
  return cluster.rows_walked - before;
}

TEST(HeadScale, DeparturesVisitNoOtherActors) {
  const std::uint64_t beside_few = walked_by_departures(3);
  EXPECT_EQ(walked_by_departures(40), beside_few);
}

TEST(HeadScale, ForgetsOldestDeadActors) {
  HeadOptions options;
  options.max_ended_kept = 10;
  SmallCluster cluster(options);
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  for (int i = 0; i < 50; ++i) {
    const ActorSpec spec = cluster.actor(1, 100 + i);
    cluster.creates(home, spec);
    cluster.driver_sends(home, 1, EndActor{spec.actor, true, true, "killed by kill()"});
  }
  EXPECT_EQ(cluster.view().actors.size(), 10u);
  EXPECT_EQ(cluster.view().actors.back().cause.text, "killed by kill()");
}

}  // namespace
}  // namespace mobula::internal::head
