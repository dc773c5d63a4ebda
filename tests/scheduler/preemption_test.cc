// Preemption: who may have whose tasks ended, how many, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

SchedulerSettings after_five_seconds() {
  SchedulerSettings settings;
  settings.preemption.after = 5s;
  return settings;
}

class Preemption : public testing::Test {
 protected:
  void priority(std::uint64_t job, std::int32_t priority) {
    JobTerms terms;
    terms.priority = priority;
    bench.scheduler.set_job_terms(JobId::of(job), terms);
  }
  std::vector<std::uint64_t> preempted_within(Duration span) { return preempted_within(span, bench); }
  // Plans every 100 ms; the slots asked for, in order. Nothing comes back.
  static std::vector<std::uint64_t> preempted_within(Duration span, Bench& of) {
    std::vector<std::uint64_t> ids;
    for (auto left = span; left > Duration(0); left -= 100ms) {
      for (const auto& each : of.plan_after(100ms).recalls) {
        if (each.cause == RecallCause::preemption) ids.push_back(each.slot.bits().low);
      }
    }
    return ids;
  }
  Bench bench{after_five_seconds()};
};

TEST_F(Preemption, IsOffUnlessItIsAskedFor) {
  Bench as_it_comes;
  as_it_comes.add_node(1, node_with(1, 0));
  as_it_comes.want(1, 1, cpus(1), 1);
  as_it_comes.plan();
  JobTerms terms;
  terms.priority = 1;
  as_it_comes.scheduler.set_job_terms(JobId::of(2), terms);
  as_it_comes.want(2, 2, cpus(1), 1);
  EXPECT_THAT(preempted_within(30s, as_it_comes), IsEmpty());
}

// What is ended for someone must not be in vain because the rest of the node goes to others meanwhile.
TEST_F(Preemption, WhatIsFreeBesideAnEndedTaskIsKeptForWhomItIsEndedFor) {
  SchedulerSettings settings;
  settings.preemption.after = 1s;
  Bench soon{settings};
  soon.add_node(1, node_with(2, 0));
  soon.want(1, 1, cpus(1), 1);
  const auto held = soon.plan().grants.at(0).id;
  JobTerms terms;
  terms.priority = 1;
  soon.scheduler.set_job_terms(JobId::of(2), terms);
  soon.want(2, 2, cpus(2), 1);
  EXPECT_THAT(preempted_within(1500ms, soon), ElementsAre(held.bits().low));
  soon.want(1, 3, cpus(1), 1);
  EXPECT_THAT(soon.plan().grants, IsEmpty());
  soon.scheduler.release(held);
  const auto grants = soon.plan().grants;
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].job, JobId::of(2));
}

TEST_F(Preemption, ASlotOfALowerPriorityIsAskedForAfterTheGrace) {
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1);
  bench.plan();
  priority(2, 1);
  bench.want(2, 2, cpus(1), 1);
  EXPECT_THAT(preempted_within(4900ms), IsEmpty());
  EXPECT_THAT(preempted_within(200ms), ElementsAre(1));
  EXPECT_THAT(preempted_within(5s), IsEmpty()) << "once";
  bench.scheduler.release(SlotId::of(1));
  const auto plan = bench.plan();
  ASSERT_THAT(plan.grants, SizeIs(1));
  EXPECT_EQ(plan.grants.front().job, JobId::of(2));
}

TEST_F(Preemption, NothingOfTheSamePriorityIsAskedFor) {
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1);
  bench.plan();
  bench.want(2, 2, cpus(1), 1);
  EXPECT_THAT(preempted_within(30s), IsEmpty());
}

TEST_F(Preemption, ActorsAndWhatRunsInBundlesAreLeftAlone) {
  bench.add_node(1, node_with(2, 0));
  bench.scheduler.add_actor_demand(ActorId::of(5), bench.demand_class(1, cpus(1)), bench.now);
  GroupSpec spec;
  spec.id = GroupId::of(7);
  spec.job = JobId::of(1);
  spec.program = ProgramId::of(1);
  spec.bundles = {cpus(1)};
  bench.scheduler.add_group(spec, {});
  bench.plan();
  bench.scheduler.open_group(spec.id);
  auto inside = cpus(1);
  inside.placement = {spec.id, 0, false};
  bench.want(1, 1, inside, 1);
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
  priority(2, 1);
  bench.want(2, 2, cpus(1), 1);
  EXPECT_THAT(preempted_within(30s), IsEmpty());
}

TEST_F(Preemption, TheLowestPriorityGoesFirstAndTheNewestOfIt) {
  bench.add_node(1, node_with(4, 0));
  priority(1, -1);
  bench.want(1, 1, cpus(1), 2);
  bench.plan();
  bench.want(2, 2, cpus(1), 2);
  bench.plan();
  priority(3, 1);
  bench.want(3, 3, cpus(1), 1);
  EXPECT_THAT(preempted_within(6s), ElementsAre(2));
}

TEST_F(Preemption, AsManyAreAskedForAsItLacks) {
  bench.add_node(1, node_with(2, 0));
  bench.add_node(2, node_with(2, 0));
  bench.want(1, 1, cpus(1), 4);
  bench.plan();
  priority(2, 1);
  bench.want(2, 2, cpus(1), 3);
  EXPECT_THAT(preempted_within(6s), SizeIs(3));
}

TEST_F(Preemption, SeveralAreAskedForWhereTheirRoomIsKeptForOneRequest) {
  bench.add_node(1, node_with(4, 0));
  bench.want(1, 1, cpus(1), 4);
  bench.plan();
  priority(2, 1);
  bench.want(2, 2, cpus(2), 1);
  const auto ids = preempted_within(6s);
  EXPECT_THAT(ids, ElementsAre(4, 3));
  for (const auto id : ids) {
    bench.scheduler.release(SlotId::of(id));
    for (const auto& grant : bench.plan().grants) EXPECT_EQ(grant.job, JobId::of(2));
  }
  EXPECT_THAT(bench.slots_of_job(2), SizeIs(1));
}

TEST_F(Preemption, FewLargeSlotsAreAskedForRatherThanManySmallOnes) {
  bench.add_node(1, node_with(4, 0));
  bench.want(1, 1, cpus(1), 2);
  bench.plan();
  bench.want(1, 2, cpus(2), 1);
  bench.plan();
  priority(2, 1);
  bench.want(2, 3, cpus(2), 1);
  EXPECT_THAT(preempted_within(6s), ElementsAre(3));
}

TEST_F(Preemption, AnotherIsAskedForInPlaceOfOneThatIsRefused) {
  bench.add_node(1, node_with(1, 0));
  bench.add_node(2, node_with(1, 0));
  bench.want(1, 1, cpus(1), 2);
  bench.plan();
  priority(2, 1);
  bench.want(2, 2, cpus(1), 1);
  std::vector<std::uint64_t> asked;
  const auto refuse_for = [&](Duration span) {
    for (auto left = span; left > Duration(0); left -= 100ms) {
      for (const auto id : preempted_within(100ms)) {
        asked.push_back(id);
        EXPECT_TRUE(bench.scheduler.refuse_preemption(SlotId::of(id)));
      }
    }
  };
  refuse_for(10s);
  EXPECT_THAT(asked, ElementsAre(2, 1)) << "and then left alone for a while";
  refuse_for(10s);
  EXPECT_THAT(asked, ElementsAre(2, 1, 2, 1));
}

// Two slots are needed on one node: the reservation goes where nobody has refused.
TEST_F(Preemption, ARefusedSlotDrivesTheReservationElsewhere) {
  bench.add_node(1, node_with(2, 0));
  bench.add_node(2, node_with(2, 0));
  bench.want(1, 1, cpus(1), 4);
  bench.plan();
  priority(2, 1);
  bench.want(2, 2, cpus(2), 1);
  std::set<std::uint64_t> asked;
  std::optional<NodeId> refusing;
  bool placed = false;
  for (int i = 0; i < 300 && !placed; ++i) {
    const auto plan = bench.plan_after(100ms);
    for (const auto& each : plan.grants) placed = placed || each.job == JobId::of(2);
    for (const auto& each : plan.recalls) {
      if (each.cause != RecallCause::preemption) continue;
      if (!refusing) refusing = each.node;
      if (each.node == *refusing) {
        bench.scheduler.refuse_preemption(each.slot);
      } else {
        bench.scheduler.release(each.slot);
      }
    }
  }
  EXPECT_TRUE(placed);
}

TEST_F(Preemption, AnActorOfAHigherPriorityGetsRoom) {
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1);
  bench.plan();
  priority(2, 1);
  bench.scheduler.add_actor_demand(ActorId::of(5), bench.demand_class(2, cpus(1)), bench.now);
  EXPECT_THAT(preempted_within(6s), ElementsAre(1));
}

TEST_F(Preemption, WhatCanNeverRunAsksForNothing) {
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1);
  bench.plan();
  priority(2, 1);
  bench.want(2, 2, cpus(2), 1);
  JobTerms terms;
  terms.priority = 1;
  terms.quota["CPU"] = amount(0);
  bench.scheduler.set_job_terms(JobId::of(3), terms);
  bench.want(3, 3, cpus(1), 1);
  EXPECT_THAT(preempted_within(30s), IsEmpty());
}

}  // namespace
}  // namespace mobula::internal::scheduler
