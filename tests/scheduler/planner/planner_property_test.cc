// The promises of planner.h on random clusters, checked by a scheduler that has the planned nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sanitizers.h"
#include "scheduler/planner/draw.h"

namespace mobula::internal::planner {
namespace {

constexpr std::uint64_t cases = histories(600);
// A number that is exceeded in all cases. A tenth of it is exceeded in a quarter of them.
constexpr int at_least(int number) { return sanitized ? number / 10 : number; }

// A cluster with its state and its requests.
class Cluster {
 public:
  void add(const ClusterNode& node) {
    scheduler_.add_node(node.id, node.shape,
                        node.phase == NodePhase::leaving ? scheduler::NodeState::draining
                                                         : scheduler::NodeState::alive);
    for (std::int64_t i = 0; i < node.actor_slots; ++i) {
      scheduler::Slot slot;
      slot.id = SlotId::of(++slots_);
      slot.node = node.id;
      slot.job = JobId::of(1);
      slot.actor = ActorId::of(slots_);
      slot.allocation = node.held;
      EXPECT_TRUE(scheduler_.restore(slot));
    }
  }
  NodeId add_fresh(const NodeType& type) {
    const auto id = NodeId::of(1'000'000 + ++fresh_);
    scheduler_.add_node(id, type.shape);
    return id;
  }
  void request_all(const ClusterState& state) {
    for (const auto& group : state.groups) scheduler_.add_group(group.spec, group.locations);
    for (const auto& each : state.slots) {
      auto demand = each.demand;
      demand.job = JobId::of(2);
      scheduler_.set_demand({ProcessId::of(9), demand, each.count, now_, {}});
    }
    settle();
  }
  void settle() {
    while (scheduler_.next_deadline() && *scheduler_.next_deadline() <= now_) {
      for (const auto& grant : scheduler_.plan(now_, [&] { return SlotId::of(++slots_); }).grants) {
        ++granted_[grant.class_id];
      }
    }
  }
  bool placed(GroupId group) const { return scheduler_.groups().find(group)->complete(); }
  std::int64_t granted(ClassId id) const {
    const auto at = granted_.find(id);
    return at == granted_.end() ? 0 : at->second;
  }
  bool all_served(const ClusterState& state) const {
    return std::ranges::all_of(state.groups,
                               [&](const auto& each) { return placed(each.spec.id); }) &&
           std::ranges::all_of(state.slots, [&](const auto& each) {
             return granted(each.demand.id) == each.count;
           });
  }
  const scheduler::Scheduler& scheduler() const { return scheduler_; }
  // Stores the present allocations of the node.
  void state(ClusterNode& node) const {
    node.held = {};
    node.task_slots = node.actor_slots = 0;
    for (const auto id : scheduler_.slots_on(node.id)) {
      const auto& slot = *scheduler_.find_slot(id);
      if (slot.bundle_of.empty()) ++(slot.actor.empty() ? node.task_slots : node.actor_slots);
      for (const auto& share : slot.allocation.resources) node.held.resources.push_back(share);
      node.idle.reset();
    }
  }

 private:
  scheduler::Scheduler scheduler_{scheduler::SchedulerSettings{}};
  Time now_ = Time::from_ns(1'000'000'000);
  std::map<ClassId, std::int64_t> granted_;
  std::uint64_t slots_ = 0, fresh_ = 0;
};

const NodeType& type_named(const Case& drawn, const std::string& name) {
  return *std::ranges::find(drawn.types, name, &NodeType::name);
}

std::int64_t nodes_of(const Case& drawn, const std::string& type) {
  return std::ranges::count(drawn.state.nodes, type, &ClusterNode::type);
}

std::set<NodeId> terminated(const Plan& plan) {
  std::set<NodeId> nodes;
  for (const auto& each : plan.terminate) nodes.insert(each.node);
  return nodes;
}

struct Short {
  std::set<GroupId> groups;
  std::map<ClassId, std::int64_t> slots;
};

Short unserved_by(const Plan& plan) {
  Short all;
  for (const auto& list : {plan.infeasible, plan.waiting}) {
    for (const auto& each : list) {
      EXPECT_NE(each.why, "");
      if (!each.group.empty()) all.groups.insert(each.group);
      if (!each.class_id.empty()) all.slots[each.class_id] += each.count;
    }
  }
  return all;
}

TEST(PlannerProperty, KeepsMaximaAndReachesMinima) {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    SCOPED_TRACE(seed);
    const auto drawn = draw_case(seed);
    const auto made = plan(drawn.state, drawn.types, drawn.limits);
    std::map<std::string, std::int64_t> after;
    std::int64_t workers = 0;
    for (const auto& type : drawn.types) workers += after[type.name] = nodes_of(drawn, type.name);
    for (const auto& launch : made.launch) {
      EXPECT_GT(launch.count() + launch.later, 0);
      after[launch.type] += launch.count();
      workers += launch.count();
      EXPECT_LE(after[launch.type], type_named(drawn, launch.type).max_workers) << launch.type;
      const auto running = std::ranges::count_if(drawn.state.nodes, [&](const auto& node) {
        return node.type == launch.type && node.phase == NodePhase::running;
      });
      const auto unbounded = launch.count() - launch.for_slots;
      EXPECT_LE(launch.count(), std::max({drawn.limits.launch_at_least, running, unbounded}));
    }
    if (!made.launch.empty()) {
      EXPECT_LE(workers, drawn.limits.max_workers);
    }
    for (const auto& each : made.terminate) --after[each.type];
    for (const auto& type : drawn.types) {
      if (workers >= drawn.limits.max_workers) break;
      EXPECT_GE(after[type.name], type.min_workers) << type.name;
    }
  }
}

TEST(PlannerProperty, LaunchesNothingForWhatFits) {
  int fitting = 0;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    SCOPED_TRACE(seed);
    const auto drawn = draw_case(seed);
    Cluster cluster;
    for (const auto& node : drawn.state.nodes) cluster.add(node);
    cluster.request_all(drawn.state);
    if (!cluster.all_served(drawn.state)) continue;
    ++fitting;
    for (const auto& launch : plan(drawn.state, drawn.types, drawn.limits).launch) {
      EXPECT_EQ(launch.for_groups + launch.for_slots + launch.later, 0) << launch.type;
    }
  }
  EXPECT_GT(fitting, at_least(30));
}

TEST(PlannerProperty, ServedGroups_AreNearlyAlwaysPlaced) {
  int groups = 0, strict = 0, for_groups = 0, missed = 0;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    SCOPED_TRACE(seed);
    const auto drawn = draw_case(seed);
    const auto made = plan(drawn.state, drawn.types, drawn.limits);
    const auto gone = terminated(made);
    Cluster cluster;
    for (const auto& node : drawn.state.nodes) {
      if (!gone.contains(node.id)) cluster.add(node);
    }
    for (const auto& launch : made.launch) {
      for_groups += launch.for_groups > 0;
      for (auto left = launch.count(); left > 0; --left) {
        cluster.add_fresh(type_named(drawn, launch.type));
      }
    }
    cluster.request_all(drawn.state);
    const auto unserved = unserved_by(made);
    for (const auto& group : drawn.state.groups) {
      if (unserved.groups.contains(group.spec.id)) continue;
      ++groups;
      strict += group.spec.strategy >= GroupStrategy::strict_pack;
      missed += !cluster.placed(group.spec.id);
    }
  }
  // The scheduler also sees nodes that are launched for other work, and may spread an earlier group
  // over the nodes of a later one. The next plan then launches more, as the next test shows.
  EXPECT_LE(missed, 2);
  EXPECT_GT(groups, at_least(200));
  EXPECT_GT(strict, at_least(80));
  EXPECT_GT(for_groups, at_least(50));
}

// Plans, launches, and places until nothing is launched: then a plan has reported each unplaced
// request. No plan terminates nodes that the previous one launched for work.
TEST(PlannerProperty, RepeatedPlans_ServeAllFeasibleWork) {
  constexpr int most_rounds = 30;
  int served = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    SCOPED_TRACE(seed);
    auto drawn = draw_case(seed);
    const auto requested = drawn.state;
    Cluster cluster;
    for (const auto& node : drawn.state.nodes) cluster.add(node);
    cluster.request_all(requested);
    Plan made;
    int rounds = 0;
    do {
      for (auto& node : drawn.state.nodes) {
        if (node.phase == NodePhase::leaving) continue;
        node.phase = NodePhase::running;
        cluster.state(node);
      }
      std::erase_if(drawn.state.groups,
                    [&](const auto& each) { return cluster.placed(each.spec.id); });
      for (std::size_t i = 0; i < requested.slots.size(); ++i) {
        auto& slots = drawn.state.slots[i];
        slots.count = requested.slots[i].count - cluster.granted(slots.demand.id);
      }
      made = plan(drawn.state, drawn.types, drawn.limits);
      for (const auto& launch : made.launch) {
        for (auto left = launch.count(); left > 0; --left) {
          const auto& type = type_named(drawn, launch.type);
          auto node = cluster_node(0, type);
          node.id = cluster.add_fresh(type);
          drawn.state.nodes.push_back(std::move(node));
          cluster.settle();
        }
      }
    } while (!made.launch.empty() && ++rounds < most_rounds);
    EXPECT_LT(rounds, most_rounds);
    const auto unserved = unserved_by(made);
    for (const auto& slots : drawn.state.slots) {
      const auto at = unserved.slots.find(slots.demand.id);
      EXPECT_EQ(at == unserved.slots.end() ? 0 : at->second, slots.count);
      refused += slots.count > 0;
      served += slots.count == 0;
    }
    for (const auto& group : drawn.state.groups) {
      EXPECT_TRUE(unserved.groups.contains(group.spec.id));
    }
  }
  EXPECT_GT(served, at_least(300));
  EXPECT_GT(refused, at_least(100));
}

TEST(PlannerProperty, TerminatesOnlyIdleNodesWithoutObjects) {
  int ended = 0;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    SCOPED_TRACE(seed);
    const auto drawn = draw_case(seed);
    for (const auto& each : plan(drawn.state, drawn.types, drawn.limits).terminate) {
      ++ended;
      const auto node = *std::ranges::find(drawn.state.nodes, each.node, &ClusterNode::id);
      EXPECT_EQ(node.phase, NodePhase::running);
      EXPECT_FALSE(node.has_objects);
      EXPECT_TRUE(node.idle && *node.idle >= drawn.limits.idle_timeout);
      EXPECT_TRUE(node.held.resources.empty());
      EXPECT_NE(node.type, "");
    }
  }
  EXPECT_GT(ended, at_least(20));
}

TEST(PlannerProperty, Infeasible_FitsNoTypeAndNoNode) {
  int infeasible = 0;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    SCOPED_TRACE(seed);
    const auto drawn = draw_case(seed);
    const auto made = plan(drawn.state, drawn.types, drawn.limits);
    Cluster cluster;
    for (auto node : drawn.state.nodes) {
      if (node.phase != NodePhase::leaving) cluster.add(node);
    }
    for (const auto& type : drawn.types) cluster.add_fresh(type);
    const auto able = [&](const Request& request) {
      return cluster.scheduler()
          .explain(request, ProgramId::of(1), scheduler::Tenant::task)
          .feasible;
    };
    std::set<ClassId> never;
    for (const auto& each : made.infeasible) {
      never.insert(each.class_id);
      if (each.group.empty()) {
        EXPECT_FALSE(able(each.request)) << each.why;
      }
    }
    for (const auto& each : drawn.state.slots) {
      if (able(each.demand.request)) continue;
      ++infeasible;
      EXPECT_TRUE(never.contains(each.demand.id));
    }
  }
  EXPECT_GT(infeasible, at_least(50));
}

TEST(PlannerProperty, SameState_GivesSamePlan) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto drawn = draw_case(seed);
    const auto first = plan(drawn.state, drawn.types, drawn.limits);
    const auto second = plan(drawn.state, drawn.types, drawn.limits);
    EXPECT_EQ(first.launch, second.launch);
    EXPECT_EQ(first.terminate, second.terminate);
    EXPECT_EQ(first.waiting.size(), second.waiting.size());
  }
}

}  // namespace
}  // namespace mobula::internal::planner
