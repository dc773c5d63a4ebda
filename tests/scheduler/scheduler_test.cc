// The interface of the scheduler: full-state demand, actors, restore, drops, displayed use, avoided
// work.
#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Scheduler, CountsHeldSlotsInDemand) {
  Bench bench;
  bench.add_node(1, node_with(8, 0));
  bench.want(1, 1, cpus(1), 2);
  EXPECT_THAT(bench.plan().grants, SizeIs(2));
  bench.want(1, 1, cpus(1), 2);
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  bench.want(1, 1, cpus(1), 3);
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
  bench.scheduler.release(bench.granted.front().id);
  EXPECT_THAT(bench.plan().grants, SizeIs(1)) << "still wanted, so given again";
  bench.want(1, 1, cpus(1), 0);
  bench.scheduler.release(bench.granted.back().id);
  EXPECT_THAT(bench.plan().grants, IsEmpty());
}

TEST(Scheduler, NoChange_PlansNothing) {
  Bench bench;
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1);
  bench.plan();
  EXPECT_FALSE(bench.scheduler.next_deadline());
  EXPECT_TRUE(bench.plan().empty());
}

TEST(Scheduler, Jobs_AlternateByDominantShare) {
  Bench bench;
  bench.add_node(1, node_with(6, 0));
  bench.want(1, 1, cpus(1), 6);
  bench.want(2, 2, cpus(2), 3);
  bench.plan();
  // Job 1 gets one CPU, job 2 two, then job 1 two more one by one, and the last CPU fits only job
  // 1.
  EXPECT_THAT(bench.slots_of_job(1), SizeIs(4));
  EXPECT_THAT(bench.slots_of_job(2), SizeIs(1));
}

TEST(Scheduler, Weight_MultipliesShareOfJob) {
  Bench bench;
  bench.add_node(1, node_with(9, 0));
  bench.scheduler.set_job_terms(JobId::of(2), {.weight = 2});
  bench.want(1, 1, cpus(1), 9);
  bench.want(2, 2, cpus(1), 9);
  bench.plan();
  EXPECT_THAT(bench.slots_of_job(1), SizeIs(3));
  EXPECT_THAT(bench.slots_of_job(2), SizeIs(6));
}

TEST(Scheduler, HigherPriorityOfJob_IsServedFirst) {
  Bench bench;
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1);
  auto urgent = cpus(1);
  urgent.priority = 5;
  bench.want(1, 2, urgent, 1);
  EXPECT_EQ(bench.plan().grants.at(0).lessee, ProcessId::of(2));
}

TEST(Scheduler, LongestWaitingLessee_IsServedFirst) {
  Bench bench;
  bench.add_node(1, node_with(1, 0));
  bench.now = bench.now + 5ms;
  bench.want(1, 1, cpus(1), 1);
  bench.now = bench.now - 3ms;
  bench.want(1, 2, cpus(1), 1);
  bench.now = bench.now + 10ms;
  EXPECT_EQ(bench.plan().grants.at(0).lessee, ProcessId::of(2));
}

TEST(Scheduler, PlacesActorOnceAndEndsItsDemand) {
  Bench bench;
  bench.add_node(1, node_with(1, 0));
  Request placed_once;
  placed_once.required_totals = ResourceSet{{"CPU", amount(1)}};
  const auto demand = bench.demand_class(1, placed_once);
  bench.scheduler.add_actor_demand(ActorId::of(7), demand, bench.now);
  const auto plan = bench.plan();
  ASSERT_THAT(plan.grants, SizeIs(1));
  EXPECT_EQ(plan.grants.front().actor, ActorId::of(7));
  EXPECT_EQ(bench.scheduler.cluster_use().at("CPU").available, amount(1));
  bench.scheduler.release(plan.grants.front().id);
  EXPECT_TRUE(bench.plan().empty());
  bench.scheduler.add_actor_demand(ActorId::of(8), demand, bench.now);
  bench.scheduler.drop_actor_demand(ActorId::of(8), demand);
  EXPECT_TRUE(bench.plan().empty());
}

TEST(Scheduler, RestoredSlots_CountForHolder) {
  Bench bench;
  bench.add_node(1, node_with(1, 0));
  const auto demand = bench.demand_class(1, cpus(1));
  Slot slot;
  slot.id = SlotId::of(100);
  slot.node = NodeId::of(1);
  slot.job = JobId::of(1);
  slot.class_id = demand.id;
  slot.lessee = ProcessId::of(1);
  slot.allocation.resources = {{"CPU", {{0, amount(1), 0}}}};
  EXPECT_TRUE(bench.scheduler.restore(slot));
  EXPECT_FALSE(bench.scheduler.restore(slot)) << "known already";
  slot.id = SlotId::of(101);
  EXPECT_TRUE(bench.scheduler.restore(slot));
  EXPECT_EQ(bench.scheduler.verify_books(), "");
  EXPECT_EQ(bench.scheduler.cluster_use().at("CPU").available, amount(0));
  bench.want(1, 1, cpus(1), 3);
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  bench.scheduler.release(SlotId::of(100));
  bench.scheduler.release(SlotId::of(101));
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
  slot.node = NodeId::of(9);
  slot.id = SlotId::of(102);
  EXPECT_FALSE(bench.scheduler.restore(slot)) << "its node is unknown";
}

TEST(Scheduler, DroppedLessee_KeepsSlotsAllocated) {
  Bench bench;
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 5);
  bench.plan();
  bench.scheduler.drop_lessee(ProcessId::of(1));
  const auto slots = bench.slots_of_job(1);
  EXPECT_THAT(slots, SizeIs(2));
  EXPECT_EQ(bench.scheduler.cluster_use().at("CPU").available, amount(0));
  for (const auto slot : slots) bench.scheduler.release(slot);
  EXPECT_TRUE(bench.plan().empty());
}

TEST(Scheduler, DroppedJob_EndsItsActors) {
  Bench bench;
  bench.add_node(1, node_with(4, 0));
  bench.want(1, 1, cpus(1), 1);
  bench.scheduler.add_actor_demand(ActorId::of(7), bench.demand_class(1, cpus(2)), bench.now);
  bench.want(2, 2, cpus(1), 1);
  bench.plan();
  bench.scheduler.drop_job(JobId::of(1));
  EXPECT_THAT(bench.slots_of_job(1), SizeIs(2));
  for (const auto slot : bench.slots_of_job(1)) bench.scheduler.release(slot);
  EXPECT_TRUE(bench.plan().empty());
  EXPECT_EQ(bench.scheduler.cluster_use().at("CPU").available, amount(3));
}

TEST(Scheduler, NodeRemoved_SlotsArePlacedAgain) {
  Bench bench;
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 2);
  bench.plan();
  bench.add_node(2, node_with(2, 0));
  EXPECT_THAT(bench.scheduler.remove_node(NodeId::of(1)), SizeIs(2));
  EXPECT_THAT(bench.placed(), ElementsAre(2, 2));
}

TEST(Scheduler, NodeReregistered_SlotsStayAllocated) {
  Bench bench;
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 2);
  bench.plan();
  bench.add_node(1, node_with(3, 0));
  EXPECT_EQ(bench.scheduler.verify_books(), "");
  EXPECT_EQ(bench.scheduler.cluster_use().at("CPU").available, amount(1));
}

TEST(Scheduler, ShowsAcceleratorTypesInUse) {
  Bench bench;
  bench.add_node(1, node_shape(4, {{1, 0, {"H100"}}}));
  auto typed = gpus(0.5);
  typed.accelerator_type = "H100";
  bench.want(1, 1, typed, 1);
  bench.plan();
  const auto use = bench.scheduler.node_use().front().resources;
  EXPECT_EQ(use.at("accelerator_type:H100").available, amount(0.999));
  EXPECT_EQ(use.at("GPU").available, amount(0.5));
  bench.scheduler.release(bench.granted.front().id);
  EXPECT_EQ(bench.scheduler.cluster_use().at("accelerator_type:H100").available, amount(1));
}

TEST(Scheduler, Explain_NamesFirstRuleOfEveryNode) {
  Bench bench;
  bench.add_node(1, node_with(4, 1));
  bench.add_node(2, node_with(4, 0));
  bench.want(1, 1, gpus(1), 1);
  bench.plan();
  const auto why = bench.scheduler.explain(gpus(1), ProgramId::of(1));
  EXPECT_TRUE(why.feasible);
  EXPECT_EQ(to_string(why.nodes.at(0).reason), "GPU: needs 1 whole, free 0");
  EXPECT_EQ(to_string(why.nodes.at(1).reason), "GPU: needs 1, the node has none");
  EXPECT_FALSE(bench.scheduler.explain(gpus(2), ProgramId::of(1)).feasible);
}

TEST(Scheduler, Explain_NamesFreePartOfEachDevice) {
  Bench bench;
  bench.add_node(1, node_with(4, 3));
  bench.want(1, 1, gpus(0.5), 1);
  bench.want(1, 2, gpus(1), 1);
  bench.plan();
  const auto reason = [&](const Request& request) {
    return to_string(bench.scheduler.explain(request, ProgramId::of(1)).nodes.at(0).reason);
  };
  EXPECT_EQ(reason(gpus(2)), "GPU: needs 2 whole, free 1.5 on 2 devices: 0.5, 1");
  bench.want(1, 3, gpus(1), 1);
  bench.plan();
  EXPECT_EQ(reason(gpus(0.75)), "GPU: needs 0.75 of one device, free 0.5 on 1 device: 0.5");
}

// If more classes wait than one plan examines, they take turns over plans, and none is omitted.
TEST(Scheduler, ManyClasses_AlternateOverPlans) {
  SchedulerSettings settings;
  settings.placement.visits_per_plan = 2;
  Bench bench(settings);
  bench.add_node(1, node_with(8, 0));
  for (int i = 1; i <= 5; ++i) bench.want(1, 1, cpus(i * 0.1), 1);
  EXPECT_THAT(bench.plan().grants, SizeIs(2));
  EXPECT_EQ(bench.scheduler.next_deadline(), bench.now);
  EXPECT_THAT(bench.plan().grants, SizeIs(2));
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
  EXPECT_FALSE(bench.scheduler.next_deadline());
}

// Many shapes wait. A freed node is tried with 64 of them without success, and later plans try the
// rest.
TEST(Scheduler, UnvisitedRequests_StayForNextPlan) {
  Bench bench;
  auto shape = node_with(2, 0);
  shape.resources.push_back({"licence", {{amount(1000), {}, {}, 0}}});
  bench.add_node(1, shape);
  bench.want(1, 1, cpus(2), 1);
  bench.want(1, 2, request({{"licence", 700}}), 1);
  bench.plan();
  for (int i = 0; i < 200; ++i) {
    // CPU is the scarcest for all, but only the youngest can have the licenses that it requests.
    auto wide = request({{"CPU", 1}, {"licence", i == 199 ? 1.0 : 400.0}});
    wide.label_selector = {{"index", "!" + std::to_string(i)}};  // makes a separate shape
    bench.now = bench.now + 1us;
    bench.want(2, static_cast<std::uint64_t>(10 + i), wide, 1);
  }
  bench.plan();
  bench.want(1, 1, cpus(2), 0);
  bench.scheduler.release(bench.granted.front().id);
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  EXPECT_EQ(bench.scheduler.next_deadline(), bench.now) << "there is more to look at";
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
}

}  // namespace
}  // namespace mobula::internal::scheduler
