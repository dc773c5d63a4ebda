// Blocked executors release CPU and executor place, and reacquire them whatever is free.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using testing::UnorderedElementsAre;

ReasonCode refusal(const Bench& bench, const Request& request) {
  return bench.scheduler.explain(request, ProgramId::of(1)).nodes.front().reason.code;
}

TEST(Lending, BlockedGet_ReleasesCpuAndOversubscribes) {
  Bench bench;
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1);
  const auto a = bench.plan().grants.at(0).id;
  bench.want(1, 2, cpus(1), 1);
  EXPECT_THAT(bench.plan().grants, SizeIs(0));

  EXPECT_TRUE(bench.scheduler.release_cpu(a));
  const auto b = bench.plan().grants.at(0).id;

  EXPECT_TRUE(bench.scheduler.reacquire_cpu(a));
  EXPECT_EQ(bench.scheduler.cluster_use().at("CPU").available, amount(0));
  EXPECT_EQ(refusal(bench, Request()), ReasonCode::oversubscribed);
  bench.want(1, 3, Request(), 1);
  EXPECT_THAT(bench.plan().grants, SizeIs(0)) << "nothing new starts while CPU is negative";

  EXPECT_TRUE(bench.scheduler.release(b));
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
}

// A node of one CPU: A has released it, B uses it, and A has continued.
class Oversubscription : public testing::Test {
 protected:
  Oversubscription() {
    bench.add_node(1, node_with(1, 0));
    bench.want(1, 1, cpus(1), 1);
    a = bench.plan().grants.at(0).id;
    bench.scheduler.release_cpu(a);
    bench.want(1, 2, cpus(1), 1);
    b = bench.plan().grants.at(0).id;
    bench.scheduler.reacquire_cpu(a);
  }
  std::vector<SlotId> recalled_after(Duration span) {
    std::vector<SlotId> slots;
    for (const auto& each : bench.plan_after(span).recalls) {
      EXPECT_EQ(each.cause, RecallCause::oversubscription);
      slots.push_back(each.slot);
    }
    return slots;
  }

  Bench bench;
  SlotId a, b;
};

TEST_F(Oversubscription, RecallsLatestSlotOnceAfterDelay) {
  EXPECT_THAT(recalled_after(Duration(0)), SizeIs(0));
  ASSERT_TRUE(bench.scheduler.next_deadline());
  EXPECT_EQ(*bench.scheduler.next_deadline(), bench.now + 200ms);
  EXPECT_THAT(recalled_after(199ms), SizeIs(0));
  EXPECT_THAT(recalled_after(1ms), ElementsAre(b));
  EXPECT_THAT(recalled_after(10s), SizeIs(0));
  EXPECT_FALSE(bench.scheduler.next_deadline()) << "no further recall is due";
  bench.scheduler.release(b);
  EXPECT_EQ(refusal(bench, Request()), ReasonCode::fits);
}

TEST_F(Oversubscription, ReturnedEarlier_IsNotRecalled) {
  bench.plan();
  bench.scheduler.release(b);
  EXPECT_THAT(recalled_after(10s), SizeIs(0));
}

TEST_F(Oversubscription, OversubscriptionEnded_RestartsDelay) {
  bench.plan();
  bench.scheduler.release_cpu(a);
  EXPECT_THAT(recalled_after(150ms), SizeIs(0));
  bench.scheduler.reacquire_cpu(a);
  EXPECT_THAT(recalled_after(Duration(0)), SizeIs(0));
  EXPECT_THAT(recalled_after(150ms), SizeIs(0));
  EXPECT_THAT(recalled_after(50ms), ElementsAre(b));
}

TEST_F(Oversubscription, RecallsAsManyAsOversubscribed) {
  bench.scheduler.release_cpu(a);
  bench.scheduler.release_cpu(b);
  bench.want(1, 3, cpus(0.5), 2);
  const auto halves = bench.plan().grants;
  ASSERT_THAT(halves, SizeIs(2));
  bench.scheduler.reacquire_cpu(a);
  bench.plan();
  EXPECT_THAT(recalled_after(200ms), UnorderedElementsAre(halves[0].id, halves[1].id));
  bench.scheduler.reacquire_cpu(b);
  bench.plan();
  EXPECT_THAT(recalled_after(200ms), ElementsAre(b)) << "the halves are on their way back";
}

// CPU released in a bundle stays in the bundle: neither the node nor another bundle is
// oversubscribed.
TEST(Lending, BundleOversubscribed_RecallsItsLatest) {
  Bench bench;
  bench.add_node(1, node_with(2, 0));
  GroupSpec spec;
  spec.id = GroupId::of(7);
  spec.job = JobId::of(1);
  spec.program = ProgramId::of(1);
  spec.bundles = {cpus(1), cpus(1)};
  bench.scheduler.add_group(spec, {});
  bench.plan();
  bench.scheduler.open_group(spec.id);
  const auto granted_in = [&](std::uint64_t lessee, std::int32_t bundle) {
    auto inside = cpus(1);
    inside.placement = {spec.id, bundle, false};
    bench.want(1, lessee, inside, 1);
    return bench.plan().grants.at(0).id;
  };
  const auto first = granted_in(3, 0);
  granted_in(4, 1);
  bench.scheduler.release_cpu(first);
  const auto second = granted_in(5, 0);
  bench.scheduler.reacquire_cpu(first);
  bench.plan();
  EXPECT_THAT(bench.plan_after(199ms).recalls, SizeIs(0));
  const auto recalls = bench.plan_after(1ms).recalls;
  ASSERT_THAT(recalls, SizeIs(1));
  EXPECT_EQ(recalls[0].slot, second);
  EXPECT_EQ(recalls[0].cause, RecallCause::oversubscription);
  bench.scheduler.release(second);
  EXPECT_THAT(bench.plan_after(10s).recalls, SizeIs(0));
}

TEST(Lending, RepeatedAndUnknownReports_ChangeNothing) {
  Bench bench;
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1);
  const auto a = bench.plan().grants.at(0).id;
  EXPECT_FALSE(bench.scheduler.reacquire_cpu(a));
  EXPECT_TRUE(bench.scheduler.release_cpu(a));
  EXPECT_FALSE(bench.scheduler.release_cpu(a));
  EXPECT_FALSE(bench.scheduler.release_cpu(SlotId::of(99)));
  EXPECT_TRUE(bench.scheduler.release(a));
  EXPECT_FALSE(bench.scheduler.release(a));
  EXPECT_EQ(bench.scheduler.verify_books(), "");
  EXPECT_EQ(bench.scheduler.cluster_use().at("CPU").available, amount(1));
}

// Two CPUs and two places; outer tasks block until their child, of another class, has run.
TEST(Lending, NestedTasksOfAnotherClass_Progress) {
  Bench bench;
  auto shape = node_with(2, 0);
  shape.task_executors = 2;
  bench.add_node(1, shape);
  bench.want(1, 1, cpus(1), 20);
  int finished = 0;
  std::vector<SlotId> outer;
  for (int round = 0; round < 60 && finished < 20; ++round) {
    for (const auto& grant : bench.plan().grants) {
      if (grant.lessee != ProcessId::of(1)) {
        // A child: it runs and finishes, then its parent continues and finishes.
        bench.want(1, grant.lessee.bits().low, cpus(0.5), 0);
        bench.scheduler.release(grant.id);
        const auto parent = SlotId::of(grant.lessee.bits().low - 100);
        bench.scheduler.reacquire_cpu(parent);
        bench.scheduler.release(parent);
        ++finished;
        bench.want(1, 1, cpus(1), 20 - finished);
        continue;
      }
      bench.scheduler.release_cpu(grant.id);
      bench.want(1, 100 + grant.id.bits().low, cpus(0.5), 1);
    }
  }
  EXPECT_EQ(finished, 20);
}

TEST(Lending, BlockedExecutors_CountAgainstNodeLimit) {
  SchedulerSettings settings;
  settings.max_task_slots_per_node = 2;
  Bench bench(settings);
  bench.add_node(1, node_with(8, 0));
  bench.want(1, 1, cpus(1), 5);
  for (const auto& grant : bench.plan().grants) bench.scheduler.release_cpu(grant.id);
  EXPECT_THAT(bench.plan().grants, SizeIs(0));
  EXPECT_EQ(refusal(bench, cpus(1)), ReasonCode::executors_full);
}

TEST(Lending, ReleasedCpu_DoesNotCountInShare) {
  Bench bench;
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(2), 1);
  bench.scheduler.release_cpu(bench.plan().grants.at(0).id);
  bench.want(2, 2, cpus(1), 1);
  bench.plan();
  // Job 1 has released all of its CPU, so job 2 with one CPU follows it.
  bench.want(1, 3, cpus(1), 1);
  bench.want(2, 4, cpus(1), 1);
  const auto grants = bench.plan().grants;
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants.front().job, JobId::of(1));
}

}  // namespace
}  // namespace mobula::internal::scheduler
