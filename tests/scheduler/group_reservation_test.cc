// Reservations for placement groups: a long wait gets capacity against any stream of small tasks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class GroupReservations : public testing::Test {
 protected:
  static GroupSpec spec(std::uint64_t number, std::uint64_t job, GroupStrategy strategy,
                        std::vector<Request> bundles) {
    GroupSpec spec;
    spec.id = GroupId::of(number);
    spec.job = JobId::of(job);
    spec.strategy = strategy;
    spec.program = ProgramId::of(1);
    spec.bundles = std::move(bundles);
    return spec;
  }
  GroupSpec add(std::uint64_t number, std::uint64_t job, GroupStrategy strategy,
                std::vector<Request> bundles) {
    auto made = spec(number, job, strategy, std::move(bundles));
    bench.scheduler.add_group(made, {});
    return made;
  }
  bool is_placed(const GroupSpec& group) {
    const auto* row = bench.scheduler.groups().find(group.id);
    return row != nullptr && row->complete();
  }
  std::set<NodeId> reserved_for(const GroupSpec& group) {
    return bench.scheduler.explain(group).reserved;
  }
  ReasonCode why_not(std::uint64_t node, const Request& request) {
    for (const auto& each : bench.scheduler.explain(request, ProgramId::of(1)).nodes) {
      if (each.node == Bench::node(node)) return each.reason.code;
    }
    return ReasonCode::node_dead;
  }
  // One small task ends every 100 ms, and another one of its kind waits.
  bool placed_beside_a_stream(const GroupSpec& group, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      bench.scheduler.release(bench.granted.at(back_++).id);
      bench.plan_after(100ms);
      if (is_placed(group)) return true;
    }
    return false;
  }
  void priority(std::uint64_t job, std::int32_t priority) {
    JobTerms terms;
    terms.priority = priority;
    bench.scheduler.set_job_terms(JobId::of(job), terms);
  }

  Bench bench;
  std::size_t back_ = 0;
};

TEST_F(GroupReservations, SmallTasks_DoNotStarveStrictPack) {
  bench.add_node(1, node_with(4, 0));
  bench.add_node(2, node_with(4, 0));
  bench.want(1, 1, cpus(1), 1000);
  bench.plan();
  const auto group = add(1, 2, GroupStrategy::strict_pack, {cpus(2), cpus(2)});
  EXPECT_TRUE(placed_beside_a_stream(group, 100));
}

TEST_F(GroupReservations, SmallTasks_DoNotStarveStrictSpread) {
  for (std::uint64_t node = 1; node <= 3; ++node) bench.add_node(node, node_with(2, 0));
  bench.want(1, 1, cpus(1), 1000);
  bench.plan();
  const auto group = add(1, 2, GroupStrategy::strict_spread, {cpus(2), cpus(2), cpus(2)});
  EXPECT_TRUE(placed_beside_a_stream(group, 100));
}

TEST_F(GroupReservations, RecallsSlotsAndReservesFreedCapacity) {
  bench.add_node(1, node_with(4, 0));
  bench.want(1, 1, cpus(1), 10);
  bench.plan();
  const auto group = add(1, 2, GroupStrategy::strict_pack, {cpus(1), cpus(2)});
  bench.plan();
  EXPECT_THAT(bench.plan_after(1900ms).recalls, IsEmpty());
  const auto plan = bench.plan_after(200ms);
  ASSERT_THAT(plan.recalls, SizeIs(3)) << "as many as it lacks";
  EXPECT_EQ(plan.recalls.front().cause, RecallCause::reservation);
  EXPECT_EQ(plan.recalls.front().for_job, JobId::of(2));
  EXPECT_THAT(reserved_for(group), ElementsAre(Bench::node(1)));
  EXPECT_EQ(bench.scheduler.explain(group).slots_to_return, 3u);

  bench.scheduler.release(plan.recalls.front().slot);
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  EXPECT_EQ(why_not(1, cpus(1)), ReasonCode::reserved_for_older);
  const auto why = bench.scheduler.explain(cpus(1), ProgramId::of(1)).nodes.front().reason;
  EXPECT_THAT(to_string(why), HasSubstr("placement group " + group.id.hex()));
  bench.scheduler.release(plan.recalls[1].slot);
  bench.scheduler.release(plan.recalls[2].slot);
  bench.plan();
  EXPECT_TRUE(is_placed(group));
  bench.scheduler.release(bench.granted.back().id);
  bench.plan();
  EXPECT_THAT(bench.plan_after(100ms).grants, IsEmpty());
  EXPECT_NE(why_not(1, cpus(1)), ReasonCode::reserved_for_older) << "it ends with its group's wait";
}

TEST_F(GroupReservations, GrantsCapacityNextToBundles) {
  bench.add_node(1, node_with(4, 0));
  bench.add_node(2, node_with(4, 0));
  bench.want(1, 1, cpus(1), 100);
  bench.plan();
  const auto group = add(1, 2, GroupStrategy::strict_spread, {cpus(2), cpus(2)});
  bench.plan();
  bench.plan_after(2100ms);
  EXPECT_THAT(reserved_for(group), SizeIs(2));
  std::vector<std::size_t> grants;
  for (const auto slot : bench.scheduler.slots_on(Bench::node(1))) {
    bench.scheduler.release(slot);
    grants.push_back(bench.plan().grants.size());
    if (grants.size() == 4) break;
  }
  EXPECT_THAT(grants, ElementsAre(0, 0, 1, 1)) << "all but two CPUs";
  EXPECT_FALSE(is_placed(group)) << "the other node is not free yet";
}

TEST_F(GroupReservations, RecallsNoActorsOrBundles) {
  bench.add_node(1, node_with(1, 0));
  bench.add_node(2, node_with(1, 0));
  bench.scheduler.add_actor_demand(ActorId::of(5), bench.demand_class(1, cpus(1)), bench.now);
  bench.plan();
  bench.want(1, 1, cpus(1), 1);
  bench.plan();
  const auto group = add(1, 2, GroupStrategy::strict_spread, {cpus(1), cpus(1)});
  for (int i = 0; i < 60; ++i) EXPECT_THAT(bench.plan_after(100ms).recalls, IsEmpty());
  EXPECT_THAT(reserved_for(group), IsEmpty());
}

TEST_F(GroupReservations, EndsWithItsGroup) {
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 10);
  bench.plan();
  const auto group = add(1, 2, GroupStrategy::strict_pack, {cpus(2)});
  bench.plan();
  bench.plan_after(2100ms);
  EXPECT_THAT(reserved_for(group), SizeIs(1));
  bench.scheduler.release(SlotId::of(1));
  EXPECT_THAT(bench.plan().grants, IsEmpty());
  bench.scheduler.remove_group(group.id);
  bench.scheduler.forget_group(group.id);
  EXPECT_THAT(bench.plan().grants, SizeIs(1));
}

TEST_F(GroupReservations, NodeDrainsOrLeaves_ReservationMoves) {
  bench.add_node(1, node_with(2, 0));
  bench.add_node(2, node_with(2, 0));
  bench.want(1, 1, cpus(1), 10);
  bench.plan();
  const auto group = add(1, 2, GroupStrategy::strict_pack, {cpus(2)});
  bench.plan();
  bench.plan_after(2100ms);
  ASSERT_THAT(reserved_for(group), SizeIs(1));
  const auto first = *reserved_for(group).begin();
  bench.scheduler.set_node_state(first, NodeState::draining);
  bench.plan_after(100ms);
  bench.plan_after(100ms);
  ASSERT_THAT(reserved_for(group), SizeIs(1));
  const auto second = *reserved_for(group).begin();
  EXPECT_NE(second, first);
  bench.add_node(3, node_with(2, 0));
  bench.scheduler.remove_node(second);
  bench.plan_after(100ms);
  EXPECT_TRUE(is_placed(group) || reserved_for(group).contains(Bench::node(3)));
}

TEST_F(GroupReservations, SlotsNotReturned_ReservationMoves) {
  bench.add_node(1, node_with(2, 0));
  bench.add_node(2, node_with(2, 0));
  bench.want(1, 1, cpus(1), 100);
  bench.plan();
  const auto group = add(1, 2, GroupStrategy::strict_pack, {cpus(2)});
  bench.plan();
  bench.plan_after(2100ms);
  ASSERT_THAT(reserved_for(group), SizeIs(1));
  const auto stuck = *reserved_for(group).begin();
  bool placed = false;
  for (int i = 0; i < 100 && !placed; ++i) {
    // Tasks end only on the other node.
    for (const auto slot :
         bench.scheduler.slots_on(stuck == Bench::node(1) ? Bench::node(2) : Bench::node(1))) {
      bench.scheduler.release(slot);
      break;
    }
    bench.plan_after(100ms);
    placed = is_placed(group);
  }
  EXPECT_TRUE(placed);
}

// The first group in the queue exceeds the quota of its job while small tasks of that job run, and
// is within it whenever one of them ends.
TEST_F(GroupReservations, FirstGroupAtQuota_ReservationStays) {
  bench.add_node(1, node_with(3, 0));
  JobTerms terms;
  terms.quota["CPU"] = amount(4);
  bench.scheduler.set_job_terms(JobId::of(1), terms);
  bench.want(1, 1, cpus(1), 1000);
  bench.plan();
  const auto of_quota = add(1, 1, GroupStrategy::strict_pack, {cpus(2)});
  bench.plan();
  const auto other = add(2, 2, GroupStrategy::strict_pack, {cpus(2)});
  bench.plan();
  bench.plan_after(2100ms);
  ASSERT_THAT(reserved_for(other), SizeIs(1)) << "the first in turn is over its quota";
  bench.scheduler.release(bench.granted.at(0).id);
  EXPECT_THAT(bench.plan_after(1ms).grants, IsEmpty()) << "it is withheld, for one of the two";
  bench.scheduler.release(bench.granted.at(1).id);
  bench.plan_after(1ms);
  EXPECT_TRUE(is_placed(of_quota) || is_placed(other));
}

// The first group in the queue takes over the reservation.
TEST_F(GroupReservations, QuotaFreed_FirstGroupTakesReservation) {
  bench.add_node(1, node_with(3, 0));
  bench.add_node(2, node_with(2, 0));
  JobTerms terms;
  terms.quota["CPU"] = amount(4);
  bench.scheduler.set_job_terms(JobId::of(1), terms);
  bench.want(1, 1, cpus(2), 1);
  bench.plan();
  bench.want(3, 3, cpus(1), 1000);
  bench.plan();
  const auto of_quota = add(1, 1, GroupStrategy::strict_pack, {cpus(3)});
  bench.plan();
  const auto other = add(2, 2, GroupStrategy::strict_pack, {cpus(3)});
  bench.plan();
  bench.plan_after(2100ms);
  ASSERT_THAT(reserved_for(other), SizeIs(1));
  bench.scheduler.release(bench.slots_of_job(1).front());
  bench.plan_after(1ms);
  bench.plan_after(2100ms);
  EXPECT_THAT(reserved_for(other), IsEmpty());
  EXPECT_THAT(reserved_for(of_quota), SizeIs(1));
}

TEST_F(GroupReservations, YieldsToHigherPriority) {
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 10);
  bench.plan();
  const auto group = add(1, 2, GroupStrategy::strict_pack, {cpus(2)});
  bench.plan();
  bench.plan_after(2100ms);
  ASSERT_THAT(reserved_for(group), SizeIs(1));
  bench.scheduler.release(SlotId::of(1));
  bench.plan();
  priority(3, 1);
  bench.want(3, 3, cpus(1), 1);
  bench.plan();
  EXPECT_THAT(bench.slots_of_job(3), SizeIs(1));
}

TEST_F(GroupReservations, HigherPriority_TakesNodeOfLargeRequest) {
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 10);
  bench.plan();
  bench.want(2, 2, cpus(2), 1);
  bench.plan_after(200ms);
  bench.plan_after(2100ms);
  EXPECT_EQ(why_not(1, cpus(1)), ReasonCode::resource_busy);
  priority(3, 1);
  const auto group = add(1, 3, GroupStrategy::strict_pack, {cpus(2)});
  bench.plan();
  bench.plan_after(2100ms);
  EXPECT_THAT(reserved_for(group), SizeIs(1));
}

// The longer wait is served first, and both are served.
TEST_F(GroupReservations, LargeRequestsAndGroups_AlternateByAge) {
  for (const bool group_first : {true, false}) {
    Bench each;
    each.add_node(1, node_with(2, 0));
    each.want(1, 1, cpus(1), 1000);
    each.plan();
    const auto group = spec(1, 2, GroupStrategy::strict_pack, {cpus(2)});
    const auto add_group = [&] {
      each.scheduler.add_group(group, {});
      each.plan_after(500ms);
    };
    const auto add_request = [&] {
      each.want(3, 3, cpus(2), 1);
      each.plan_after(500ms);
    };
    if (group_first) add_group();
    add_request();
    if (!group_first) add_group();
    std::vector<std::string> served;
    std::size_t back = 0;
    for (int i = 0; i < 200 && served.size() < 2; ++i) {
      if (back < each.granted.size()) {
        const auto& oldest = each.granted.at(back++);
        if (oldest.job == JobId::of(3)) each.want(3, 3, cpus(2), 0);
        each.scheduler.release(oldest.id);
      }
      for (const auto& grant : each.plan_after(100ms).grants) {
        if (grant.job == JobId::of(3)) served.push_back("request");
      }
      const auto* row = each.scheduler.groups().find(group.id);
      if (row != nullptr && row->complete()) {
        served.push_back("group");
        each.scheduler.remove_group(group.id);
        each.scheduler.forget_group(group.id);
      }
    }
    const std::vector<std::string> order = group_first
                                               ? std::vector<std::string>{"group", "request"}
                                               : std::vector<std::string>{"request", "group"};
    EXPECT_EQ(served, order);
  }
}

TEST_F(GroupReservations, InfeasibleGroup_BlocksNoOther) {
  bench.add_node(1, node_with(2, 0));
  bench.want(1, 1, cpus(1), 1000);
  bench.plan();
  add(1, 2, GroupStrategy::strict_pack, {cpus(3)});
  const auto group = add(2, 2, GroupStrategy::strict_pack, {cpus(2)});
  EXPECT_TRUE(placed_beside_a_stream(group, 100));
}

// Random clusters under a stream of small tasks: every feasible group is placed, one after another,
// within a number of rounds that depends on the lengths of the tasks.
TEST_F(GroupReservations, RandomStreams_StarveNoGroup) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    Bench each;
    const auto nodes = random.between(2, 5);
    for (std::int64_t node = 1; node <= nodes; ++node) {
      each.add_node(static_cast<std::uint64_t>(node), node_with(4, 2));
    }
    each.want(1, 1, cpus(1), 100'000);
    each.want(2, 2, gpus(0.5), 100'000);
    each.want(2, 3, gpus(1), 100'000);
    each.plan();
    std::vector<GroupSpec> groups;
    for (std::uint64_t number = 1; number <= 4; ++number) {
      const bool spread = random.chance(500);
      const auto count = spread ? random.between(1, nodes) : random.between(1, 2);
      const auto bundle = random.chance(500) ? cpus(2) : gpus(1);
      groups.push_back(spec(number, 3,
                            spread ? GroupStrategy::strict_spread : GroupStrategy::strict_pack,
                            std::vector<Request>(static_cast<std::size_t>(count), bundle)));
      each.scheduler.add_group(groups.back(), {});
    }
    std::map<SlotId, int> ends_in;
    std::size_t seen = 0;
    std::size_t left = groups.size();
    for (int round = 0; round < 400 && left > 0; ++round) {
      for (; seen < each.granted.size(); ++seen) {
        ends_in[each.granted[seen].id] = round + static_cast<int>(random.between(1, 10));
      }
      for (auto at = ends_in.begin(); at != ends_in.end();) {
        if (at->second > round) {
          ++at;
          continue;
        }
        each.scheduler.release(at->first);
        at = ends_in.erase(at);
      }
      each.plan_after(100ms);
      for (const auto& group : groups) {
        const auto* row = each.scheduler.groups().find(group.id);
        if (row == nullptr || !row->complete()) continue;
        each.scheduler.remove_group(group.id);
        each.scheduler.forget_group(group.id);
        --left;
      }
    }
    EXPECT_EQ(left, 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mobula::internal::scheduler
