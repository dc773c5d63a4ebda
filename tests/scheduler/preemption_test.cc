// Preemption: which tasks are ended for which job, how many, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
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
  // Adds nodes with these numbers of CPUs, and fills each with tasks of job 1.
  void fill(const std::vector<std::int64_t>& nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      bench.add_node(i + 1, node_with(static_cast<double>(nodes[i]), 0));
    }
    bench.want(1, 1, cpus(1), std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0}));
    bench.plan();
  }
  std::vector<std::uint64_t> preempted_timeout(Duration span) {
    return preempted_timeout(span, bench);
  }
  // Plans every 100 ms and returns the slots to end, in order. No slot returns. Each queried lessee
  // agrees, except for the slots in `kept`; with `silent`, none replies.
  std::vector<std::uint64_t> preempted_timeout(Duration span, Bench& of) {
    std::vector<std::uint64_t> ids;
    for (auto left = span; left > Duration(0); left -= 100ms) {
      for (const auto& each : of.plan_after(100ms).recalls) {
        if (each.cause != RecallCause::preemption) continue;
        const auto id = each.slot.bits().low;
        if (!each.queries) {
          ids.push_back(id);
        } else {
          queried.push_back(id);
          if (!silent) of.scheduler.answer_preemption(each.slot, !kept.contains(id));
        }
      }
    }
    return ids;
  }
  GroupId add_group(std::uint64_t job, const std::vector<Request>& bundles,
                    GroupStrategy strategy = GroupStrategy::pack, std::int32_t own_priority = 0) {
    GroupSpec spec;
    spec.id = GroupId::of(++groups);
    spec.job = JobId::of(job);
    spec.program = ProgramId::of(1);
    spec.strategy = strategy;
    spec.bundles = bundles;
    spec.priority = own_priority;
    bench.scheduler.add_group(spec, {});
    return spec.id;
  }
  std::vector<std::uint64_t> queried;
  std::set<std::uint64_t> kept;
  bool silent = false;
  std::uint64_t groups = 6;
  Bench bench{after_five_seconds()};
};

TEST_F(Preemption, DefaultSettings_PreemptNothing) {
  Bench as_it_comes;
  as_it_comes.add_node(1, node_with(1, 0));
  as_it_comes.want(1, 1, cpus(1), 1);
  as_it_comes.plan();
  JobTerms terms;
  terms.priority = 1;
  as_it_comes.scheduler.set_job_terms(JobId::of(2), terms);
  as_it_comes.want(2, 2, cpus(1), 1);
  EXPECT_THAT(preempted_timeout(30s, as_it_comes), IsEmpty());
}

// An ended task must not be wasted because the rest of the node goes to other requests.
TEST_F(Preemption, ReservesFreeCapacityNextToPreempted) {
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
  EXPECT_THAT(preempted_timeout(1500ms, soon), ElementsAre(held.bits().low));
  soon.want(1, 3, cpus(1), 1);
  EXPECT_THAT(soon.plan().grants, IsEmpty());
  soon.scheduler.release(held);
  const auto grants = soon.plan().grants;
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].job, JobId::of(2));
}

TEST_F(Preemption, PreemptsLowerPriorityAfterGrace) {
  fill({1});
  priority(2, 1);
  bench.want(2, 2, cpus(1), 1);
  EXPECT_THAT(preempted_timeout(4900ms), IsEmpty());
  EXPECT_THAT(preempted_timeout(200ms), ElementsAre(1));
  EXPECT_THAT(preempted_timeout(5s), IsEmpty()) << "once";
  bench.scheduler.release(SlotId::of(1));
  const auto plan = bench.plan();
  ASSERT_THAT(plan.grants, SizeIs(1));
  EXPECT_EQ(plan.grants.front().job, JobId::of(2));
}

TEST_F(Preemption, PreemptsNothingOfEqualPriority) {
  fill({1});
  bench.want(2, 2, cpus(1), 1);
  EXPECT_THAT(preempted_timeout(30s), IsEmpty());
}

TEST_F(Preemption, SparesActorsAndBundles) {
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
  EXPECT_THAT(preempted_timeout(30s), IsEmpty());
}

TEST_F(Preemption, PreemptsNewestOfLowestPriority) {
  bench.add_node(1, node_with(4, 0));
  priority(1, -1);
  bench.want(1, 1, cpus(1), 2);
  bench.plan();
  bench.want(2, 2, cpus(1), 2);
  bench.plan();
  priority(3, 1);
  bench.want(3, 3, cpus(1), 1);
  EXPECT_THAT(preempted_timeout(6s), ElementsAre(2));
}

TEST_F(Preemption, PreemptsAsManyAsNeeded) {
  fill({2, 2});
  priority(2, 1);
  bench.want(2, 2, cpus(1), 3);
  EXPECT_THAT(preempted_timeout(6s), SizeIs(3));
}

TEST_F(Preemption, PreemptsSeveralSlotsForOneRequest) {
  fill({4});
  priority(2, 1);
  bench.want(2, 2, cpus(2), 1);
  const auto ids = preempted_timeout(6s);
  EXPECT_THAT(queried, ElementsAre(4, 3));
  EXPECT_THAT(ids, ElementsAre(4, 3));
  for (const auto id : ids) {
    bench.scheduler.release(SlotId::of(id));
    for (const auto& grant : bench.plan().grants) EXPECT_EQ(grant.job, JobId::of(2));
  }
  EXPECT_THAT(bench.slots_of_job(2), SizeIs(1));
}

TEST_F(Preemption, PreemptsNoneUntilAllMayEnd) {
  fill({4});
  priority(2, 1);
  bench.want(2, 2, cpus(2), 1);
  kept = {4};
  EXPECT_THAT(preempted_timeout(5400ms), ElementsAre(3, 2));
  EXPECT_THAT(queried, ElementsAre(4, 3, 2)) << "another in place of the one that refused, at once";
}

TEST_F(Preemption, TooFewMayEnd_PreemptsNone) {
  fill({4});
  priority(2, 1);
  bench.want(2, 2, cpus(3), 1);
  kept = {2, 4};
  EXPECT_THAT(preempted_timeout(14s), IsEmpty());
  EXPECT_THAT(queried, ElementsAre(4, 3, 2)) << "the last one alone would not help";
}

TEST_F(Preemption, SilentLessee_IsSparedForAWhile) {
  fill({4});
  priority(2, 1);
  bench.want(2, 2, cpus(2), 1);
  silent = true;
  EXPECT_THAT(preempted_timeout(6s), IsEmpty());
  EXPECT_THAT(queried, ElementsAre(4, 3));
  silent = false;
  EXPECT_THAT(preempted_timeout(3s), ElementsAre(2, 1));
}

TEST_F(Preemption, ReturnedSlot_CountsAsAnswer) {
  fill({4});
  priority(2, 1);
  bench.want(2, 2, cpus(3), 1);
  silent = true;
  preempted_timeout(5500ms);
  EXPECT_THAT(queried, ElementsAre(4, 3, 2));
  bench.scheduler.release(SlotId::of(4));
  bench.scheduler.answer_preemption(SlotId::of(3), true);
  bench.scheduler.answer_preemption(SlotId::of(2), true);
  EXPECT_THAT(preempted_timeout(100ms), ElementsAre(3, 2));
}

// No capacity that it could use was freed, so no round of placement has visited it.
TEST_F(Preemption, QuotaFull_PreemptsNothing) {
  fill({4});
  JobTerms terms;
  terms.priority = 1;
  terms.quota["CPU"] = amount(1);
  bench.scheduler.set_job_terms(JobId::of(2), terms);
  bench.want(2, 2, cpus(1), 3);
  bench.plan();
  bench.want(1, 1, cpus(1), 0);
  bench.scheduler.release(SlotId::of(1));
  bench.plan();
  ASSERT_THAT(bench.slots_of_job(2), SizeIs(1));
  for (auto left = 10s; left > 0s; left -= 1s) EXPECT_THAT(bench.plan_after(1s).recalls, IsEmpty());
}

TEST_F(Preemption, PreemptsNoMoreThanQuotaAllows) {
  fill({4});
  JobTerms terms;
  terms.priority = 1;
  terms.quota["CPU"] = amount(2);
  bench.scheduler.set_job_terms(JobId::of(2), terms);
  bench.want(2, 2, cpus(1), 4);
  EXPECT_THAT(preempted_timeout(6s), SizeIs(2));
}

TEST_F(Preemption, PreemptsForWholeGroup) {
  fill({2, 2});
  priority(2, 1);
  const auto id = add_group(2, {cpus(1), cpus(2)}, GroupStrategy::spread);
  EXPECT_THAT(preempted_timeout(4900ms), IsEmpty());
  const auto ids = preempted_timeout(1s);
  EXPECT_THAT(queried, SizeIs(3));
  ASSERT_THAT(ids, SizeIs(3));
  EXPECT_THAT(preempted_timeout(5s), IsEmpty()) << "they are on their way";
  for (const auto slot : ids) bench.scheduler.release(SlotId::of(slot));
  const auto plan = bench.plan();
  ASSERT_THAT(plan.groups, SizeIs(1));
  EXPECT_EQ(plan.groups[0].group, id);
  EXPECT_EQ(plan.groups[0].kind, GroupNews::Kind::placed);
}

TEST_F(Preemption, HigherPriorityGroup_GetsCapacity) {
  fill({2});
  priority(2, 1);
  const auto low = add_group(2, {cpus(2)});
  const auto high = add_group(2, {cpus(2)}, GroupStrategy::pack, 1);
  const auto ids = preempted_timeout(6s);
  ASSERT_THAT(ids, SizeIs(2)) << "capacity for one group";
  for (const auto slot : ids) bench.scheduler.release(SlotId::of(slot));
  bench.plan();
  EXPECT_TRUE(bench.scheduler.groups().find(high)->complete());
  EXPECT_FALSE(bench.scheduler.groups().find(low)->complete());
}

TEST_F(Preemption, GroupPriority_PreemptsNoEqualJob) {
  fill({2});
  add_group(2, {cpus(2)}, GroupStrategy::pack, 1000);
  EXPECT_THAT(preempted_timeout(30s), IsEmpty());
}

TEST_F(Preemption, GroupCannotFit_PreemptsNothing) {
  fill({2, 2});
  priority(2, 1);
  add_group(2, {cpus(2), cpus(2)}, GroupStrategy::strict_spread);
  kept = {1};
  EXPECT_THAT(preempted_timeout(30s), IsEmpty());
  EXPECT_THAT(queried, testing::Contains(1));
}

// If the tasks of one node may not be ended, the group uses other nodes.
TEST_F(Preemption, Group_MovesToPreemptibleNodes) {
  fill({1, 1, 1});
  priority(2, 1);
  add_group(2, {cpus(1), cpus(1)}, GroupStrategy::strict_spread);
  preempted_timeout(4900ms);
  const auto& reserved = bench.scheduler.cluster().nodes();
  for (std::uint64_t slot = 1; slot <= 3; ++slot) {
    const auto node = bench.scheduler.find_slot(SlotId::of(slot))->node;
    if (reserved.at(node).reservation) {
      kept = {slot};
      break;
    }
  }
  ASSERT_THAT(kept, SizeIs(1));
  EXPECT_THAT(preempted_timeout(1s), SizeIs(2));
}

TEST_F(Preemption, EqualPriorityGroup_PreemptsNothing) {
  fill({2});
  add_group(2, {cpus(2)});
  EXPECT_THAT(preempted_timeout(30s), IsEmpty());
  EXPECT_THAT(queried, IsEmpty());
}

TEST_F(Preemption, PrefersFewLargeSlots) {
  bench.add_node(1, node_with(4, 0));
  bench.want(1, 1, cpus(1), 2);
  bench.plan();
  bench.want(1, 2, cpus(2), 1);
  bench.plan();
  priority(2, 1);
  bench.want(2, 3, cpus(2), 1);
  EXPECT_THAT(preempted_timeout(6s), ElementsAre(3));
}

TEST_F(Preemption, PreemptionRejected_QueriesAnother) {
  fill({1, 1});
  priority(2, 1);
  bench.want(2, 2, cpus(1), 1);
  std::vector<std::uint64_t> ordered;
  const auto refuse_for = [&](Duration span) {
    for (auto left = span; left > Duration(0); left -= 100ms) {
      for (const auto id : preempted_timeout(100ms)) {
        ordered.push_back(id);
        EXPECT_TRUE(bench.scheduler.answer_preemption(SlotId::of(id), false));
      }
    }
  };
  refuse_for(10s);
  EXPECT_THAT(ordered, ElementsAre(2, 1)) << "and then left alone for a while";
  refuse_for(10s);
  EXPECT_THAT(ordered, ElementsAre(2, 1, 2, 1));
}

// Two slots are needed on one node: the reservation moves to a node without a refusal.
TEST_F(Preemption, RejectedPreemption_MovesReservation) {
  fill({2, 2});
  priority(2, 1);
  bench.want(2, 2, cpus(2), 1);
  std::optional<NodeId> refusing;
  bool placed = false;
  for (int i = 0; i < 300 && !placed; ++i) {
    const auto plan = bench.plan_after(100ms);
    for (const auto& each : plan.grants) placed = placed || each.job == JobId::of(2);
    for (const auto& each : plan.recalls) {
      if (each.cause != RecallCause::preemption) continue;
      if (!refusing) refusing = each.node;
      if (each.node == *refusing) {
        bench.scheduler.answer_preemption(each.slot, false);
      } else {
        bench.scheduler.release(each.slot);
      }
    }
  }
  EXPECT_TRUE(placed);
}

TEST_F(Preemption, PreemptsForHigherPriorityActor) {
  fill({1});
  priority(2, 1);
  bench.scheduler.add_actor_demand(ActorId::of(5), bench.demand_class(2, cpus(1)), bench.now);
  EXPECT_THAT(preempted_timeout(6s), ElementsAre(1));
}

TEST_F(Preemption, InfeasibleRequest_PreemptsNothing) {
  fill({1});
  priority(2, 1);
  bench.want(2, 2, cpus(2), 1);
  JobTerms terms;
  terms.priority = 1;
  terms.quota["CPU"] = amount(0);
  bench.scheduler.set_job_terms(JobId::of(3), terms);
  bench.want(3, 3, cpus(1), 1);
  EXPECT_THAT(preempted_timeout(30s), IsEmpty());
}

}  // namespace
}  // namespace mobula::internal::scheduler
