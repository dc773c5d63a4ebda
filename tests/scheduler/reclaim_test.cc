// Recalls and reservations: no job starves, and no job loses more than its excess.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class Reclaim : public testing::Test {
 protected:
  std::set<std::uint64_t> recalled(const Plan& plan) {
    std::set<std::uint64_t> ids;
    for (const auto& each : plan.recalls) ids.insert(each.slot.bits().low);
    return ids;
  }
  Bench bench;
};

TEST_F(Reclaim, OtherJobWaits_RecallsSlotAfterDelay) {
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 10);
  bench.plan();
  bench.want(2, 2, cpus(1), 1);
  EXPECT_THAT(bench.plan().recalls, IsEmpty());
  EXPECT_EQ(bench.scheduler.next_deadline(), bench.now + 200ms);
  EXPECT_THAT(bench.plan_after(199ms).recalls, IsEmpty());

  const auto plan = bench.plan_after(1ms);
  ASSERT_THAT(plan.recalls, SizeIs(1)) << "as many as it lacks";
  EXPECT_EQ(plan.recalls.front().slot, SlotId::of(1)) << "the longest held";
  EXPECT_EQ(plan.recalls.front().lessee, ProcessId::of(1));
  EXPECT_EQ(plan.recalls.front().for_job, JobId::of(2));
  EXPECT_THAT(bench.plan_after(300ms).recalls, IsEmpty()) << "not twice";

  bench.scheduler.release(SlotId::of(1));
  const auto next = bench.plan();
  ASSERT_THAT(next.grants, SizeIs(1));
  EXPECT_EQ(next.grants.front().job, JobId::of(2));
}

TEST_F(Reclaim, Jobs_ReachEqualSharesAndSettle) {
  bench.add_node(1, node_with(8, 0));
  bench.want(1, 1, cpus(1), 100);
  bench.plan();
  bench.want(2, 2, cpus(1), 100);
  for (int i = 0; i < 50; ++i) {
    for (const auto& each : bench.plan_after(100ms).recalls) bench.scheduler.release(each.slot);
  }
  bench.plan();
  EXPECT_THAT(bench.slots_of_job(1), SizeIs(4));
  EXPECT_THAT(bench.slots_of_job(2), SizeIs(4));
  for (int i = 0; i < 20; ++i) EXPECT_THAT(bench.plan_after(100ms).recalls, IsEmpty());
}

TEST_F(Reclaim, Jobs_AlternateOnOneSlot) {
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 5);
  bench.want(2, 2, cpus(1), 5);
  std::vector<std::uint64_t> order;
  for (int i = 0; i < 40; ++i) {
    const auto plan = bench.plan_after(100ms);
    for (const auto& grant : plan.grants) order.push_back(grant.job.bits().low);
    for (const auto& each : plan.recalls) bench.scheduler.release(each.slot);
  }
  ASSERT_GE(order.size(), 6u);
  for (std::size_t i = 1; i < order.size(); ++i) EXPECT_NE(order[i], order[i - 1]);
}

TEST_F(Reclaim, OtherClassOfSameJob_IsNotStarved) {
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 10);
  bench.plan();
  bench.want(1, 1, cpus(2), 1);
  const auto plan = bench.plan_after(200ms);
  EXPECT_THAT(plan.recalls, SizeIs(2));
  for (const auto& each : plan.recalls) bench.scheduler.release(each.slot);
  const auto next = bench.plan();
  ASSERT_THAT(next.grants, SizeIs(1));
  EXPECT_EQ(next.grants.front().class_id, bench.demand_class(1, cpus(2)).id);
}

TEST_F(Reclaim, RecallsResidentSlotsFirst) {
  bench.add_node(1, node_with(2, 0));
  JobTerms high;
  high.priority = 1;
  bench.scheduler.set_job_terms(JobId::of(1), high);
  bench.want(1, 1, cpus(1), 2);
  bench.plan();
  bench.want(2, 2, cpus(1), 1);
  EXPECT_THAT(bench.plan_after(300ms).recalls, IsEmpty())
      << "a slot that serves a higher priority is not recalled";
  EXPECT_TRUE(bench.scheduler.set_resident(SlotId::of(2), true));
  EXPECT_FALSE(bench.scheduler.set_resident(SlotId::of(2), true)) << "it is known";
  const auto plan = bench.plan_after(300ms);
  ASSERT_THAT(recalled(plan), ElementsAre(2u));
  EXPECT_EQ(plan.recalls.front().cause, RecallCause::residence);
  EXPECT_THAT(bench.plan_after(300ms).recalls, IsEmpty());
}

TEST_F(Reclaim, RecallsResidentSlotsOfSameJob) {
  bench.add_node(1, node_with(2, 1));
  bench.want(1, 1, gpus(1), 1);
  bench.plan();
  bench.want(1, 1, request({{"GPU", 1}, {"CPU", 1}}), 1);
  bench.scheduler.set_resident(SlotId::of(1), true);
  EXPECT_THAT(recalled(bench.plan_after(200ms)), ElementsAre(1u));
}

TEST_F(Reclaim, RecallsNoSlotForItsOwnHolder) {
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 10);
  for (int i = 0; i < 60; ++i) EXPECT_THAT(bench.plan_after(100ms).recalls, IsEmpty());
}

TEST_F(Reclaim, RecallsNoActors) {
  bench.add_node(1, node_with(1, 0));
  bench.scheduler.add_actor_demand(ActorId::of(5), bench.demand_class(1, cpus(1)), bench.now);
  bench.plan();
  bench.want(2, 2, cpus(1), 1);
  for (int i = 0; i < 60; ++i) EXPECT_THAT(bench.plan_after(100ms).recalls, IsEmpty());
}

TEST_F(Reclaim, Actor_GetsSlotsOfTasks) {
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 3);
  bench.plan();
  bench.scheduler.add_actor_demand(ActorId::of(5), bench.demand_class(1, cpus(1)), bench.now);
  EXPECT_THAT(bench.plan_after(200ms).recalls, SizeIs(1));
}

TEST_F(Reclaim, RecallsFromLargestJobOnlyWhatIsNeeded) {
  bench.add_node(1, node_with(8, 2));
  bench.want(1, 1, request({{"CPU", 1}, {"GPU", 0.5}}), 1);
  bench.plan();
  bench.want(2, 2, request({{"CPU", 1}, {"GPU", 0.5}}), 3);
  bench.plan();
  bench.want(3, 3, gpus(1), 1);
  const auto plan = bench.plan_after(200ms);
  // Jobs 1 and 2 share device 0; job 2 alone uses device 1.
  EXPECT_THAT(recalled(plan), ElementsAre(3, 4));
}

TEST_F(Reclaim, SlotNotReturned_RecallsAnother) {
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 10);
  bench.plan();
  bench.want(2, 2, cpus(1), 1);
  EXPECT_THAT(recalled(bench.plan_after(200ms)), ElementsAre(1));
  std::set<std::uint64_t> later;
  for (int i = 0; i < 25; ++i) later.merge(recalled(bench.plan_after(100ms)));
  EXPECT_THAT(later, ElementsAre(2));
}

// Small tasks start and end on every device; a request for all devices gets a node for itself.
TEST_F(Reclaim, SmallTasks_DoNotStarveLargeRequest) {
  bench.add_node(1, node_with(64, 4));
  bench.want(1, 1, gpus(0.5), 8);
  bench.plan();
  bench.want(2, 2, gpus(0.5), 1);
  bench.want(1, 3, gpus(4), 1);
  bool placed = false;
  for (int i = 0; i < 100 && !placed; ++i) {
    bench.now = bench.now + 100ms;
    // One small task ends in every round, whether recalled or not.
    const auto& small = bench.granted[static_cast<std::size_t>(i) % bench.granted.size()];
    bench.scheduler.release(small.id);
    for (const auto& grant : bench.plan().grants) {
      placed = placed || grant.class_id == bench.demand_class(1, gpus(4)).id;
    }
  }
  EXPECT_TRUE(placed);
}

TEST_F(Reclaim, ReservedInstances_AreWithheldWithReason) {
  SchedulerSettings settings;
  settings.reclaim.recall_delay = 3s;
  Bench patient(settings);
  patient.add_node(1, node_with(64, 2));
  patient.want(1, 1, gpus(1), 2);
  patient.plan();
  patient.want(1, 3, gpus(2), 1);
  patient.now = patient.now + 3s;
  const auto plan = patient.plan();
  EXPECT_THAT(plan.recalls, SizeIs(2));
  EXPECT_EQ(plan.recalls.front().cause, RecallCause::reservation);
  patient.scheduler.release(plan.recalls.front().slot);
  EXPECT_THAT(patient.plan().grants, IsEmpty()) << "withheld from the two that wait for it";
  const auto why = patient.scheduler.explain(gpus(1), ProgramId::of(1)).nodes.front().reason;
  EXPECT_EQ(why.code, ReasonCode::reserved_for_older);
  EXPECT_EQ(why.detail, "one of job 00000000000000000000000000000001 for GPU 2");
  EXPECT_EQ(patient.scheduler.explain(cpus(1), ProgramId::of(1)).nodes.front().reason.code,
            ReasonCode::fits)
      << "capacity that the large request does not need is not reserved";
  patient.scheduler.release(plan.recalls.back().slot);
  const auto last = patient.plan();
  ASSERT_THAT(last.grants, SizeIs(1));
  EXPECT_EQ(last.grants.front().lessee, ProcessId::of(3));
}

// The limit holds for any shortage; later rounds examine the rest.
TEST_F(Reclaim, LimitsNodesPerRound) {
  constexpr std::size_t most = ReclaimSettings().nodes_per_round;
  for (std::uint64_t node = 1; node <= 2 * most; ++node) bench.add_node(node, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1'000);
  bench.plan();
  bench.want(2, 2, cpus(1), static_cast<std::int64_t>(most));
  bench.want(3, 3, cpus(1), static_cast<std::int64_t>(most));
  std::size_t recalls = 0;
  for (int i = 0; i < 50; ++i) {
    const auto plan = bench.plan_after(100ms);
    EXPECT_LE(plan.recalls.size(), most);
    recalls += plan.recalls.size();
    for (const auto& each : plan.recalls) bench.scheduler.release(each.slot);
  }
  EXPECT_GT(recalls, most);
  for (const std::uint64_t job : {1u, 2u, 3u})
    EXPECT_GE(bench.slots_of_job(job).size(), 2 * most / 3);
}

// The task that must end first waits for a small one, which the reservation excludes.
TEST_F(Reclaim, NothingReturns_ReservationOpensBriefly) {
  bench.add_node(1, node_with(8, 4));
  bench.want(1, 1, gpus(0.25), 1);
  const auto parent = bench.plan().grants.at(0).id;
  bench.want(2, 2, gpus(4), 1);
  bench.plan_after(2500ms);
  bench.scheduler.release_cpu(parent);
  bench.want(1, 3, gpus(0.5), 1);
  EXPECT_THAT(bench.plan().grants, IsEmpty()) << "withheld";
  EXPECT_THAT(bench.plan_after(1500ms).grants, IsEmpty()) << "still";
  std::vector<Slot> child;
  for (int i = 0; i < 15 && child.empty(); ++i) {
    ASSERT_TRUE(bench.scheduler.next_deadline());
    child = bench.plan_after(100ms).grants;
  }
  ASSERT_THAT(child, SizeIs(1));
  EXPECT_EQ(child[0].lessee, ProcessId::of(3));
  for (int i = 0; i < 30; ++i)
    EXPECT_THAT(bench.plan_after(100ms).recalls, IsEmpty()) << "not before it has begun";
  EXPECT_TRUE(bench.scheduler.started(child[0].id));
  EXPECT_THAT(recalled(bench.plan_after(2s)), ElementsAre(child[0].id.bits().low));

  bench.want(1, 3, gpus(0.5), 0);
  bench.scheduler.release(child[0].id);
  bench.scheduler.reacquire_cpu(parent);
  bench.plan_after(200ms);
  bench.want(3, 4, gpus(0.5), 1);
  EXPECT_THAT(bench.plan_after(1s).grants, IsEmpty()) << "withheld again";
  bench.scheduler.release(parent);
  bench.want(1, 1, gpus(0.25), 0);
  const auto last = bench.plan();
  ASSERT_THAT(last.grants, SizeIs(1));
  EXPECT_EQ(last.grants[0].job, JobId::of(2));
}

// The return of an abundant resource brings no progress.
TEST_F(Reclaim, CpuTasks_DoNotKeepGpuReservationClosed) {
  bench.add_node(1, node_with(8, 4));
  bench.want(1, 1, gpus(0.25), 1);
  bench.scheduler.release_cpu(bench.plan().grants.at(0).id);
  bench.want(2, 2, request({{"CPU", 1}, {"GPU", 4}}), 1);
  bench.plan_after(2500ms);
  bench.want(1, 3, gpus(0.5), 1);
  bool child_runs = false;
  for (int i = 0; i < 50 && !child_runs; ++i) {
    bench.want(3, 4, cpus(1), i % 2);
    for (const auto& grant : bench.plan_after(100ms).grants) {
      child_runs = child_runs || grant.lessee == ProcessId::of(3);
      if (grant.lessee == ProcessId::of(4)) bench.scheduler.release(grant.id);
    }
  }
  EXPECT_TRUE(child_runs);
}

// Work that fills the node at each opening must have left it before the next opening.
TEST_F(Reclaim, LongTasks_DoNotKeepReservedNode) {
  bench.add_node(1, node_with(64, 4));
  bench.want(1, 1, gpus(0.5), 1);
  const auto first = bench.plan().grants.at(0);
  bench.want(2, 2, gpus(4), 1);
  bench.plan_after(2500ms);
  bench.want(1, 3, gpus(0.5), 1'000);
  std::multimap<Time, SlotId> ends{{bench.now + 30s, first.id}};
  bool served = false;
  for (int i = 0; i < 6'000 && !served; ++i) {
    const auto plan = bench.plan_after(100ms);
    for (const auto& grant : plan.grants) {
      served = served || grant.job == JobId::of(2);
      ends.emplace(bench.now + 25s + (i % 7) * 1s, grant.id);
    }
    for (auto at = ends.begin(); at != ends.end() && at->first <= bench.now; at = ends.erase(at)) {
      bench.scheduler.release(at->second);
    }
  }
  EXPECT_TRUE(served);
}

TEST_F(Reclaim, DemandEnded_ReservationEnds) {
  bench.add_node(1, node_with(64, 2));
  bench.want(1, 1, gpus(1), 2);
  bench.plan();
  bench.want(2, 3, gpus(2), 1);
  bench.plan_after(200ms);
  bench.plan_after(2s);
  bench.scheduler.release(SlotId::of(1));
  bench.plan();
  EXPECT_EQ(bench.scheduler.explain(gpus(1), ProgramId::of(1)).nodes.front().reason.code,
            ReasonCode::reserved_for_older);
  bench.want(2, 3, gpus(2), 0);
  EXPECT_THAT(bench.plan().grants, SizeIs(1)) << "job 1 gets it back";
}

}  // namespace
}  // namespace mobula::internal::scheduler
