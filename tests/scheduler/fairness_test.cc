// Order between jobs: priorities, weights, quotas, and their effect on recalls, reservations, and
// placement groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/random.h"
#include "sanitizers.h"
#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

JobTerms of_priority(std::int32_t priority) {
  JobTerms terms;
  terms.priority = priority;
  return terms;
}

JobTerms with_quota(const std::string& name, double most) {
  JobTerms terms;
  terms.quota[name] = amount(most);
  return terms;
}

class Fairness : public testing::Test {
 protected:
  void terms(std::uint64_t job, const JobTerms& of) {
    bench.scheduler.set_job_terms(JobId::of(job), of);
  }
  Explanation explain(std::uint64_t job, const Request& request) {
    return bench.scheduler.explain(bench.demand_class(job, request), Tenant::task);
  }
  std::set<std::uint64_t> jobs_of(const Plan& plan) {
    std::set<std::uint64_t> jobs;
    for (const auto& each : plan.grants) jobs.insert(each.job.bits().low);
    return jobs;
  }
  Bench bench;
};

TEST_F(Fairness, HigherPriorityJob_IsServedFirst) {
  bench.add_node(1, node_with(4, 0));
  terms(2, of_priority(5));
  bench.want(1, 1, cpus(1), 4);
  bench.want(2, 2, cpus(1), 3);
  bench.plan();
  EXPECT_THAT(bench.slots_of_job(2), SizeIs(3));
  EXPECT_THAT(bench.slots_of_job(1), SizeIs(1));
}

// 1,000 TB exceed 64 bits in units of 1/10000.
TEST_F(Fairness, HugeHolding_CountsCorrectShare) {
  auto shape = node_with(4, 0);
  auto& memory = shape.resources.emplace_back();
  memory.name = "memory";
  memory.instances.emplace_back().total = Quantity::whole(Quantity::max_whole);
  for (std::uint64_t node = 1; node <= 20; ++node) bench.add_node(node, shape);
  const auto all = request({{"memory", static_cast<double>(Quantity::max_whole)}});
  bench.want(1, 1, all, 19);
  bench.plan();
  ASSERT_THAT(bench.slots_of_job(1), SizeIs(19));
  EXPECT_EQ(bench.scheduler.held_by(JobId::of(1)).get("memory").units(),
            std::numeric_limits<std::int64_t>::max());
  bench.want(2, 2, all, 1);
  bench.plan();
  ASSERT_THAT(bench.slots_of_job(2), SizeIs(1));
  // Both request more; the first has waited longer.
  bench.want(1, 1, all, 20);
  bench.want(2, 2, all, 2);
  bench.scheduler.release(bench.slots_of_job(1).front());
  EXPECT_THAT(jobs_of(bench.plan()), ElementsAre(2)) << "it has a twentieth";
  for (const std::uint64_t job : {1, 2}) {
    for (const auto slot : bench.slots_of_job(job)) bench.scheduler.release(slot);
  }
  EXPECT_TRUE(bench.scheduler.held_by(JobId::of(1)).empty());
  EXPECT_TRUE(bench.scheduler.held_by(JobId::of(2)).empty());
}

// Three lessees of one job use its quota in turns: each keeps a new grant for a while.
TEST_F(Fairness, JustGranted_IsNotRecalledAtQuota) {
  bench.add_node(1, node_with(4, 0));
  terms(1, with_quota("CPU", 1));
  std::map<SlotId, Time> granted;
  int recalled = 0;
  const auto keep = [&](const Plan& plan) {
    for (const auto& each : plan.grants) granted[each.id] = bench.now;
    for (const auto& each : plan.recalls) {
      ++recalled;
      EXPECT_EQ(each.cause, RecallCause::quota);
      EXPECT_GE(bench.now - granted.at(each.slot), Duration(200ms)) << "recall " << recalled;
    }
    return plan.recalls;
  };
  for (std::uint64_t lessee = 1; lessee <= 3; ++lessee) {
    bench.want(1, lessee, cpus(1 - 0.1 * static_cast<double>(lessee)), 1);
    keep(bench.plan());
  }
  for (int round = 0; round < 200; ++round) {
    for (const auto& each : keep(bench.plan_after(50ms))) {
      bench.scheduler.release(each.slot);
      keep(bench.plan());
    }
  }
  EXPECT_GT(recalled, 5);
}

TEST_F(Fairness, RecallsNoMoreThanQuotaAllows) {
  bench.add_node(1, node_with(4, 0));
  bench.want(1, 1, cpus(1), 8);
  bench.plan();
  auto limited = of_priority(1);
  limited.quota["CPU"] = amount(2);
  terms(2, limited);
  bench.want(2, 2, cpus(1), 4);
  std::size_t recalls = 0;
  for (int i = 0; i < 10; ++i) recalls += bench.plan_after(100ms).recalls.size();
  EXPECT_EQ(recalls, 2u);
}

TEST_F(Fairness, LaterPriorityChange_TakesEffect) {
  bench.add_node(1, node_with(1, 0));
  bench.want(1, 1, cpus(1), 1);
  bench.plan();
  bench.want(1, 3, cpus(1), 2);
  bench.want(2, 2, cpus(1), 2);
  terms(2, of_priority(-3));
  bench.scheduler.release(bench.granted.front().id);
  bench.want(1, 1, cpus(1), 0);
  EXPECT_EQ(bench.plan().grants.at(0).job, JobId::of(1));
}

TEST_F(Fairness, RecallsLowerPriorityWithSmallerShare) {
  bench.add_node(1, node_with(3, 0));
  terms(2, of_priority(1));
  bench.want(2, 2, cpus(1), 2);
  bench.plan();
  bench.want(1, 1, cpus(1), 1);
  bench.plan();
  bench.want(2, 2, cpus(1), 3);
  const auto plan = bench.plan_after(200ms);
  ASSERT_THAT(plan.recalls, SizeIs(1));
  EXPECT_EQ(plan.recalls.front().lessee, ProcessId::of(1));
}

TEST_F(Fairness, RecallsNothingOfHigherPriority) {
  bench.add_node(1, node_with(2, 0));
  terms(2, of_priority(1));
  bench.want(2, 2, cpus(1), 2);
  bench.plan();
  bench.want(1, 1, cpus(1), 1);
  for (int i = 0; i < 60; ++i) EXPECT_THAT(bench.plan_after(100ms).recalls, IsEmpty());
}

TEST_F(Fairness, ReportsBlockingPriority) {
  bench.add_node(1, node_with(1, 0));
  terms(2, of_priority(1));
  bench.want(2, 2, cpus(1), 2);
  bench.want(1, 1, cpus(1), 1);
  bench.plan();
  const auto why = explain(1, cpus(1));
  ASSERT_TRUE(why.held_back);
  EXPECT_EQ(why.held_back->code, ReasonCode::behind_priority);
  EXPECT_THAT(to_string(*why.held_back), HasSubstr("(Priority)"));
  EXPECT_FALSE(explain(2, cpus(1)).held_back);
}

TEST_F(Fairness, Reservation_YieldsToHigherPriority) {
  bench.add_node(1, node_with(64, 2));
  bench.want(1, 1, gpus(1), 2);
  bench.plan();
  bench.want(2, 3, gpus(2), 1);
  bench.plan_after(200ms);
  bench.plan_after(2s);
  bench.scheduler.release(SlotId::of(1));
  EXPECT_THAT(bench.plan().grants, IsEmpty()) << "withheld for the large one";
  EXPECT_EQ(explain(1, gpus(1)).nodes.front().reason.code, ReasonCode::reserved_for_older);
  terms(3, of_priority(1));
  bench.want(3, 4, gpus(1), 1);
  bench.plan();
  EXPECT_THAT(bench.slots_of_job(3), SizeIs(1));
}

TEST_F(Fairness, KeepsQuotaAndReusesReturnedSlots) {
  bench.add_node(1, node_with(8, 4));
  terms(1, with_quota("GPU", 2));
  bench.want(1, 1, gpus(1), 4);
  EXPECT_THAT(bench.plan().grants, SizeIs(2));
  const auto why = explain(1, gpus(1));
  EXPECT_TRUE(why.feasible);
  ASSERT_TRUE(why.held_back);
  EXPECT_EQ(to_string(*why.held_back), "(Quota) GPU: needs 1, 0 left of the job's quota of 2");
  EXPECT_THAT(bench.plan_after(1ms).grants, IsEmpty());
  bench.scheduler.release(bench.granted.front().id);
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
  bench.want(2, 2, gpus(1), 4);
  EXPECT_THAT(bench.plan().grants, SizeIs(2)) << "others get what it may not have";
}

TEST_F(Fairness, WaitingForQuota_LetsOthersOfJobPass) {
  bench.add_node(1, node_with(8, 4));
  terms(1, with_quota("GPU", 3));
  bench.want(1, 1, gpus(2), 2);
  bench.plan();
  bench.want(1, 2, gpus(1), 1);
  bench.want(1, 3, cpus(1), 1);
  EXPECT_THAT(bench.plan().grants, SizeIs(2));
}

TEST_F(Fairness, QuotaFull_RecallsNothingOfOtherJobs) {
  bench.add_node(1, node_with(4, 0));
  terms(1, with_quota("CPU", 1));
  bench.want(2, 2, cpus(1), 3);
  bench.want(1, 1, cpus(1), 5);
  bench.plan();
  EXPECT_THAT(bench.slots_of_job(1), SizeIs(1));
  for (int i = 0; i < 60; ++i) EXPECT_THAT(bench.plan_after(100ms).recalls, IsEmpty());
}

TEST_F(Fairness, LargeRequestInQuota_IsNotStarved) {
  bench.add_node(1, node_with(8, 0));
  terms(1, with_quota("CPU", 2));
  bench.want(1, 1, cpus(1), 50);
  bench.plan();
  bench.want(1, 2, cpus(2), 1);
  bool placed = false;
  std::size_t back = 0;
  for (int i = 0; i < 60 && !placed; ++i) {
    // One small task ends in every round, and others of its kind wait.
    bench.scheduler.release(bench.granted.at(back++).id);
    for (const auto& each : bench.plan_after(100ms).grants) {
      placed = placed || each.lessee == ProcessId::of(2);
    }
  }
  EXPECT_TRUE(placed);
}

TEST_F(Fairness, QuotaFull_RecallsSlotsOfSameJob) {
  bench.add_node(1, node_with(8, 0));
  terms(1, with_quota("CPU", 3));
  bench.want(1, 1, cpus(1), 50);
  bench.want(2, 9, cpus(1), 5);
  bench.plan();
  bench.want(1, 2, cpus(2), 1);
  const auto plan = bench.plan_after(200ms);
  ASSERT_THAT(plan.recalls, SizeIs(2)) << "as many as its quota lacks";
  for (const auto& each : plan.recalls) {
    EXPECT_EQ(each.lessee, ProcessId::of(1));
    EXPECT_EQ(each.cause, RecallCause::quota);
    bench.scheduler.release(each.slot);
  }
  EXPECT_EQ(bench.plan().grants.at(0).lessee, ProcessId::of(2));
}

TEST_F(Fairness, FreedDuringQuotaWait_IsFoundLater) {
  bench.add_node(1, node_with(2, 0));
  bench.add_node(2, node_with(2, 0));
  terms(1, with_quota("CPU", 2));
  bench.want(1, 1, cpus(2), 2);
  bench.want(2, 2, cpus(2), 1);
  bench.plan();
  ASSERT_THAT(bench.granted, SizeIs(2));
  // The node of job 2 is free while job 1 is at its quota; its own slot returns later.
  bench.want(2, 2, cpus(2), 0);
  for (const auto& each : bench.granted) {
    if (each.job == JobId::of(2)) bench.scheduler.release(each.id);
  }
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  const auto mine = bench.slots_of_job(1).front();
  const auto where = bench.scheduler.find_slot(mine)->node;
  bench.scheduler.set_node_state(where, NodeState::draining);
  bench.plan();
  bench.scheduler.release(mine);
  const auto plan = bench.plan();
  ASSERT_THAT(plan.grants, SizeIs(1));
  EXPECT_NE(plan.grants.front().node, where);
}

TEST_F(Fairness, ReleasedCpu_DoesNotCountInQuota) {
  bench.add_node(1, node_with(4, 0));
  terms(1, with_quota("CPU", 1));
  bench.want(1, 1, cpus(1), 2);
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
  bench.scheduler.release_cpu(bench.granted.front().id);
  EXPECT_THAT(bench.plan().grants, SizeIs(1)) << "the child of a blocked task can run";
  bench.scheduler.reacquire_cpu(bench.granted.front().id);
  bench.scheduler.release(bench.granted.back().id);
  bench.want(1, 1, cpus(1), 5);
  EXPECT_THAT(bench.plan().grants, IsEmpty());
}

TEST_F(Fairness, SlotsUnknown_QuotaGrantsNothing) {
  bench.add_node(1, node_with(4, 0));
  terms(1, with_quota("CPU", 1));
  bench.scheduler.set_all_known(false);
  bench.want(1, 1, cpus(1), 1);
  bench.want(2, 2, cpus(1), 1);
  EXPECT_THAT(jobs_of(bench.plan()), ElementsAre(2));
  EXPECT_EQ(explain(1, cpus(1)).held_back->code, ReasonCode::recovering);
  bench.scheduler.set_all_known(true);
  EXPECT_THAT(jobs_of(bench.plan()), ElementsAre(1));
}

TEST_F(Fairness, ReportsRequestBeyondQuotaOnce) {
  bench.add_node(1, node_with(8, 4));
  terms(1, with_quota("GPU", 1));
  bench.want(1, 1, gpus(2), 1);
  const auto plan = bench.plan();
  ASSERT_THAT(plan.infeasible, SizeIs(1));
  EXPECT_EQ(plan.infeasible.front().reasons.at(0).reason.code, ReasonCode::over_quota);
  EXPECT_FALSE(explain(1, gpus(2)).feasible);
  bench.want(1, 1, gpus(2), 2);
  EXPECT_THAT(bench.plan().infeasible, IsEmpty());
  bench.want(2, 2, gpus(2), 1);
  EXPECT_THAT(bench.plan().infeasible, IsEmpty()) << "another job may";
}

TEST_F(Fairness, ZeroQuota_ForbidsResource) {
  bench.add_node(1, node_with(8, 4));
  terms(1, with_quota("GPU", 0));
  bench.want(1, 1, gpus(0.5), 1);
  EXPECT_THAT(bench.plan().infeasible, SizeIs(1));
  bench.want(1, 2, cpus(1), 1);
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
}

GroupSpec group_of(std::uint64_t job, std::uint64_t id, std::vector<Request> bundles) {
  GroupSpec spec;
  spec.id = GroupId::of(id);
  spec.job = JobId::of(job);
  spec.program = ProgramId::of(1);
  spec.bundles = std::move(bundles);
  return spec;
}

TEST_F(Fairness, Bundles_CountInQuotaAllOrNone) {
  bench.add_node(1, node_with(8, 4));
  terms(1, with_quota("GPU", 3));
  bench.want(1, 1, gpus(1), 2);
  bench.plan();
  bench.scheduler.add_group(group_of(1, 7, {gpus(1), gpus(1)}), {});
  EXPECT_THAT(bench.plan().groups, IsEmpty());
  const auto why = bench.scheduler.explain(group_of(1, 7, {gpus(1), gpus(1)}));
  ASSERT_TRUE(why.held_back);
  EXPECT_EQ(why.held_back->code, ReasonCode::over_quota);
  bench.want(1, 1, gpus(1), 1);
  bench.scheduler.release(bench.granted.front().id);
  const auto plan = bench.plan();
  ASSERT_THAT(plan.groups, SizeIs(1));
  EXPECT_EQ(plan.groups.front().kind, GroupNews::Kind::placed);
}

TEST_F(Fairness, SlotInBundle_CountsOnceAgainstQuota) {
  bench.add_node(1, node_with(8, 4));
  terms(1, with_quota("GPU", 1));
  bench.scheduler.add_group(group_of(1, 7, {gpus(1)}), {});
  bench.plan();
  bench.scheduler.open_group(GroupId::of(7));
  auto inside = gpus(1);
  inside.placement.group = GroupId::of(7);
  bench.want(1, 1, inside, 1);
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
}

TEST_F(Fairness, GroupBeyondQuota_IsInfeasible) {
  bench.add_node(1, node_with(8, 4));
  terms(1, with_quota("GPU", 1));
  bench.scheduler.add_group(group_of(1, 7, {gpus(1), gpus(1)}), {});
  const auto plan = bench.plan();
  ASSERT_THAT(plan.groups, SizeIs(1));
  EXPECT_EQ(plan.groups.front().kind, GroupNews::Kind::infeasible);
  EXPECT_THAT(plan.groups.front().text, HasSubstr("(Quota) GPU"));
}

TEST_F(Fairness, OrdersGroupsAndClassesByPriority) {
  bench.add_node(1, node_with(64, 1));
  terms(1, of_priority(3));
  terms(2, of_priority(2));
  terms(3, of_priority(1));
  bench.want(3, 3, gpus(1), 1);
  bench.scheduler.add_group(group_of(2, 7, {gpus(1)}), {});
  bench.want(1, 1, gpus(1), 1);
  EXPECT_THAT(jobs_of(bench.plan()), ElementsAre(1));
  bench.want(1, 1, gpus(1), 0);
  bench.scheduler.release(bench.granted.front().id);
  const auto plan = bench.plan();
  EXPECT_THAT(plan.groups, SizeIs(1));
  EXPECT_THAT(plan.grants, IsEmpty());
}

// Random jobs with priorities and quotas on one node, against independent counts. No quota is
// exceeded. A grant has the highest priority that has a permitted request. No permitted request
// that fits is left waiting.
TEST_F(Fairness, RandomHistories_KeepQuotasAndPriorities) {
  for (std::uint64_t seed = 1; seed <= histories(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Bench world;
    world.add_node(1, node_with(12, 6));
    std::map<std::uint64_t, JobTerms> jobs;
    std::map<std::pair<std::uint64_t, std::uint64_t>, Request> requests;  // job, lessee
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::int64_t> wanted;
    std::map<SlotId, Slot> live;
    for (std::uint64_t job = 1; job <= 4; ++job) {
      jobs[job] = of_priority(static_cast<std::int32_t>(random.below(3)));
      if (random.chance(600))
        jobs[job].quota["CPU"] = amount(static_cast<double>(random.between(1, 6)));
      if (random.chance(300))
        jobs[job].quota["GPU"] = amount(static_cast<double>(random.between(0, 3)));
      world.scheduler.set_job_terms(JobId::of(job), jobs[job]);
      for (std::uint64_t lessee = 10 * job; lessee < 10 * job + 3; ++lessee) {
        auto made = cpus(static_cast<double>(random.between(1, 4)));
        if (random.chance(500)) {
          made.resources.set("GPU", amount(static_cast<double>(random.between(1, 2))));
        }
        requests[{job, lessee}] = made;
      }
    }
    const auto held = [&](std::uint64_t job, const char* name) {  // 0: all jobs
      std::int64_t units = 0;
      for (const auto& [id, slot] : live) {
        const auto* share = slot.allocation.find(name);
        if ((job != 0 && slot.job != JobId::of(job)) || share == nullptr) continue;
        for (const auto& each : share->shares) units += each.amount.units();
      }
      return units;
    };
    const auto may_have = [&](std::uint64_t job, const Request& request) {
      for (const char* name : {"CPU", "GPU"}) {
        const auto requested = request.resources.get(name).units();
        const auto total = amount(name[0] == 'C' ? 12 : 6).units();
        if (held(0, name) + requested > total) return false;
        const auto quota = jobs[job].quota.find(name);
        if (requested > 0 && quota != jobs[job].quota.end() &&
            held(job, name) + requested > quota->second.units()) {
          return false;
        }
      }
      return true;
    };
    const auto waits = [&](const auto& who) {
      return wanted[who] > std::ranges::count_if(live, [&](const auto& each) {
               return each.second.lessee == ProcessId::of(who.second);
             });
    };
    for (int step = 0; step < 120; ++step) {
      if (live.empty() || random.chance(500)) {
        auto at = requests.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.below(requests.size())));
        wanted[at->first] = static_cast<std::int64_t>(random.below(5));
        world.want(at->first.first, at->first.second, at->second, wanted[at->first]);
      } else {
        auto at = live.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.below(live.size())));
        world.scheduler.release(at->first);
        live.erase(at);
      }
      world.now = world.now + 1us;
      for (int again = 0; again < 5; ++again) {
        for (const auto& grant : world.plan().grants) {
          const auto job = grant.job.bits().low;
          for (const auto& [who, request] : requests) {
            if (!waits(who) || !may_have(who.first, request)) continue;
            EXPECT_GE(jobs[job].priority, jobs[who.first].priority) << "job " << who.first;
          }
          live.emplace(grant.id, grant);
        }
      }
      for (const auto& [job, of] : jobs) {
        for (const auto& [name, most] : of.quota) EXPECT_LE(held(job, name.c_str()), most.units());
      }
      for (const auto& [who, request] : requests) {
        EXPECT_FALSE(waits(who) && may_have(who.first, request))
            << "job " << who.first << " waits for " << request.resources.to_string();
      }
      ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
    }
  }
}

// A parent that waits for its child must not wait forever for a request that waits for the parent.
TEST_F(Fairness, ReservedQuota_OpensWhenNothingReturns) {
  bench.add_node(1, node_with(8, 4));
  terms(1, with_quota("GPU", 2));
  bench.want(1, 1, gpus(0.25), 1);
  const auto parent = bench.plan().grants.at(0).id;
  bench.want(1, 1, gpus(2), 1);
  bench.plan_after(2500ms);
  bench.want(1, 3, gpus(0.5), 1);
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  const auto why = explain(1, gpus(0.5)).held_back;
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->code, ReasonCode::reserved_for_older);
  EXPECT_EQ(why->detail, "the job's quota is kept for one for GPU 2");
  bench.scheduler.release_cpu(parent);
  std::vector<Slot> child;
  Time opened = bench.now;
  for (int i = 0; i < 40 && child.empty(); ++i) child = bench.plan_after(100ms).grants;
  ASSERT_THAT(child, SizeIs(1));
  EXPECT_EQ(child[0].lessee, ProcessId::of(3));
  EXPECT_GE(bench.now - opened, 1900ms);
  bench.plan_after(200ms);
  bench.want(1, 4, gpus(0.5), 1);
  for (int i = 0; i < 10; ++i)
    EXPECT_THAT(bench.plan_after(100ms).grants, IsEmpty()) << "withheld again";
}

// More of them than one round examines, and nothing is ever recalled for them.
TEST_F(Fairness, UnplaceableRequests_BlockNoOthers) {
  bench.add_node(1, node_with(4, 0));
  for (const auto job : {1u, 2u}) terms(job, of_priority(5));
  bench.want(1, 1, cpus(1), 8);
  bench.plan();
  for (int i = 1; i <= 1'000; ++i) {
    Request request;
    request.resources.set("CPU", Quantity::from_units(1'000 + i));
    bench.want(3, 3, request, 1);
  }
  for (int i = 0; i < 30; ++i) EXPECT_THAT(bench.plan_after(100ms).recalls, IsEmpty());
  bench.want(2, 2, cpus(1), 1);
  std::size_t recalls = 0;
  for (int i = 0; i < 40; ++i) recalls += bench.plan_after(100ms).recalls.size();
  EXPECT_GE(recalls, 1u);
}

}  // namespace
}  // namespace mobula::internal::scheduler
