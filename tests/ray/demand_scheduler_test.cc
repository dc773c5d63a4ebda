// Launches in Ray's python/ray/tests/test_resource_demand_scheduler.py and
// test_autoscaler_fake_multinode.py, test by test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ray/scenario.h"
#include "scheduler/planner/planner.h"
#include "scheduler/planner/type_choice.h"

namespace mobula::internal::ray {
namespace {

using planner::ClusterNode;
using planner::ClusterState;
using planner::NodePhase;
using planner::NodeType;
using planner::Unit;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

NodeShape shape(const Amounts& totals) {
  Json json = Json::object();
  for (const auto& [name, total] : totals) json[name] = total;
  return shape_of(json);
}

NodeType type(const std::string& name, const Amounts& totals, std::int64_t most,
              std::int64_t least = 0) {
  return {name, shape(totals), least, most};
}

// The types of Ray's own tests.
std::vector<NodeType> types_a() {
  return {type("m4.large", {{"CPU", 2}}, 10), type("m4.4xlarge", {{"CPU", 16}}, 8),
          type("m4.16xlarge", {{"CPU", 64}}, 4), type("p2.xlarge", {{"CPU", 16}, {"GPU", 1}}, 10),
          type("p2.8xlarge", {{"CPU", 32}, {"GPU", 8}}, 4)};
}

Unit unit(const Amounts& amounts, std::int64_t count = 1) {
  return {{scheduler::RequestShape(request(amounts), ProgramId::of(1), scheduler::Tenant::bundle)},
          count};
}

class DemandScheduler : public ::testing::Test {
 protected:
  void want(const Amounts& amounts, std::int64_t count) {
    planner::WantedSlots slots;
    slots.demand.id = ClassId::of(++number_);
    slots.demand.request = request(amounts);
    slots.demand.program = ProgramId::of(1);
    slots.tenant = scheduler::Tenant::actor;
    slots.count = count;
    state_.slots.push_back(slots);
  }
  void want_group(GroupStrategy strategy, const Amounts& bundle, std::size_t count) {
    planner::WantedGroup group;
    group.spec.id = GroupId::of(++number_);
    group.spec.job = JobId::of(1);
    group.spec.program = ProgramId::of(1);
    group.spec.strategy = strategy;
    group.spec.bundles.assign(count, request(bundle));
    state_.groups.push_back(group);
  }
  void stand(const Amounts& amounts, std::int64_t count) {
    state_.standing = {{request(amounts), count}};
  }
  void add(const std::string& type, std::size_t count, NodePhase phase = NodePhase::running,
           const Amounts& used = {}) {
    for (std::size_t i = 0; i < count; ++i) {
      ClusterNode node;
      node.id = NodeId::of(++number_);
      node.type = type;
      node.shape = std::ranges::find(types_, type, &NodeType::name)->shape;
      node.phase = phase;
      if (!used.empty()) {
        scheduler::InstanceLedger books(node.shape, 1000);
        const scheduler::Need need(request(used), scheduler::Tenant::actor);
        node.held = books.book(need).value();
        node.actor_slots = 1;
      }
      state_.nodes.push_back(node);
    }
  }
  // By type, without the limit on concurrent launches.
  std::map<std::string, std::int64_t> launched() {
    plan_ = planner::plan(state_, types_, limits_);
    std::map<std::string, std::int64_t> all;
    for (const auto& each : plan_.launch) {
      if (each.count() > 0) all[each.type] = each.count();
    }
    return all;
  }
  std::map<std::string, std::int64_t> launched_for(const Amounts& amounts, std::int64_t count) {
    state_.slots.clear();
    want(amounts, count);
    return launched();
  }
  std::int64_t unserved() const {
    std::int64_t count = 0;
    for (const auto& each : plan_.waiting) count += each.count;
    for (const auto& each : plan_.infeasible) count += each.count;
    return count;
  }
  static planner::Limits at_once() {
    planner::Limits limits;
    limits.launch_at_least = 1'000'000;
    return limits;
  }

  std::vector<NodeType> types_ = types_a();
  planner::Limits limits_ = at_once();
  ClusterState state_;
  planner::Plan plan_;
  std::uint64_t number_ = 0;
};

using test_resource_demand_scheduler = DemandScheduler;
using Launches = std::map<std::string, std::int64_t>;

// (kinds, least, mean) of a type with these resources for these requests.
std::optional<std::tuple<std::int64_t, double, double>> score_of(const Amounts& totals,
                                                                 std::vector<Unit> units) {
  const auto score = planner::score(type("a", totals, 1), units);
  if (!score) return std::nullopt;
  return std::tuple(score->kinds, score->least.to_double(), score->mean.to_double());
}

TEST_F(test_resource_demand_scheduler, test_util_score) {
  EXPECT_EQ(score_of({{"CPU", 64}}, {unit({{"TPU", 16}})}), std::nullopt);
  EXPECT_THAT(score_of({{"GPU", 4}}, {unit({{"GPU", 2}})}), Optional(std::tuple(1, 0.5, 0.5)));
  EXPECT_THAT(score_of({{"GPU", 4}}, {unit({{"GPU", 1}}, 2)}), Optional(std::tuple(1, 0.5, 0.5)));
  EXPECT_THAT(score_of({{"GPU", 2}}, {unit({{"GPU", 2}})}), Optional(std::tuple(1, 2, 2)));
  EXPECT_THAT(score_of({{"GPU", 1}}, {unit({{"GPU", 1}, {"CPU", 1}}), unit({{"GPU", 1}})}),
              Optional(std::tuple(1, 1, 1)));
  EXPECT_THAT(
      score_of({{"GPU", 1}, {"CPU", 1}}, {unit({{"GPU", 1}, {"CPU", 1}}), unit({{"GPU", 1}})}),
      Optional(std::tuple(2, 1, 1)));
  EXPECT_THAT(score_of({{"GPU", 2}, {"TPU", 1}}, {unit({{"GPU", 2}})}),
              Optional(std::tuple(1, 0, 1)));
  EXPECT_THAT(score_of({{"CPU", 64}}, {unit({{"CPU", 64}})}), Optional(std::tuple(1, 64, 64)));
  EXPECT_THAT(score_of({{"CPU", 64}}, {unit({{"CPU", 32}})}), Optional(std::tuple(1, 8, 8)));
  EXPECT_THAT(score_of({{"CPU", 64}}, {unit({{"CPU", 16}}, 2)}), Optional(std::tuple(1, 8, 8)));
}

// In the older form of the test, CPU work on a GPU node has no score; now it has the lowest.
TEST_F(test_resource_demand_scheduler, test_gpu_node_util_score) {
  const auto cpu_work =
      planner::score(type("a", {{"GPU", 1}, {"CPU", 1}}, 1), {unit({{"CPU", 1}})});
  ASSERT_TRUE(cpu_work);
  EXPECT_FALSE(cpu_work->devices_wanted);
  EXPECT_THAT(score_of({{"GPU", 1}, {"CPU", 1}}, {unit({{"GPU", 1}, {"CPU", 1}})}),
              Optional(std::tuple(2, 1, 1)));
  EXPECT_THAT(score_of({{"GPU", 1}, {"CPU", 1}}, {unit({{"GPU", 1}})}),
              Optional(std::tuple(1, 0, 0.5)));
}

TEST_F(test_resource_demand_scheduler, test_zero_resource) {
  EXPECT_EQ(score_of({{"CPU", 0}, {"custom", 0}}, {unit({{"custom", 1}})}), std::nullopt);
  EXPECT_TRUE(score_of({{"CPU", 0}, {"custom", 1}}, {unit({{"custom", 1}})}));
}

TEST_F(test_resource_demand_scheduler, test_bin_pack) {
  const auto rest = [](const Amounts& totals, std::vector<Unit> units) {
    planner::subtract(type("a", totals, 1), units);
    std::int64_t count = 0;
    for (const auto& each : units) count += each.count;
    return count;
  };
  EXPECT_EQ(rest({{"GPU", 2}}, {unit({{"GPU", 2}}, 2)}), 1);
  EXPECT_EQ(rest({{"GPU", 4}}, {unit({{"GPU", 2}}, 2)}), 0);
  EXPECT_EQ(rest({{"CPU", 2}}, {unit({{"GPU", 2}}, 2)}), 2);
}

TEST_F(test_resource_demand_scheduler, test_get_nodes_packing_heuristic) {
  EXPECT_EQ(launched_for({{"GPU", 8}}, 1), (Launches{{"p2.8xlarge", 1}}));
  EXPECT_EQ(launched_for({{"GPU", 1}}, 6), (Launches{{"p2.8xlarge", 1}}));
  EXPECT_EQ(launched_for({{"GPU", 1}}, 4), (Launches{{"p2.xlarge", 4}}));
  EXPECT_EQ(launched_for({{"CPU", 32}, {"GPU", 1}}, 3), (Launches{{"p2.8xlarge", 3}}));
  EXPECT_EQ(launched_for({{"CPU", 64}, {"GPU", 1}}, 3), Launches());
  EXPECT_EQ(launched_for({{"CPU", 64}}, 3), (Launches{{"m4.16xlarge", 3}}));
  EXPECT_EQ(launched_for({{"CPU", 16}}, 5), (Launches{{"m4.16xlarge", 1}, {"m4.4xlarge", 1}}));
  EXPECT_EQ(launched_for({{"CPU", 8}}, 10), (Launches{{"m4.16xlarge", 1}, {"m4.4xlarge", 1}}));
  EXPECT_EQ(launched_for({{"CPU", 1}}, 100),
            (Launches{{"m4.16xlarge", 1}, {"m4.4xlarge", 2}, {"m4.large", 2}}));
  launched_for({{"CPU", 64}}, 1);
  want({{"CPU", 1}}, 1);
  EXPECT_EQ(launched(), (Launches{{"m4.16xlarge", 1}, {"m4.large", 1}}));
  launched_for({{"CPU", 64}}, 1);
  want({{"CPU", 9}}, 2);
  EXPECT_EQ(launched(), (Launches{{"m4.16xlarge", 1}, {"m4.4xlarge", 2}}));
  launched_for({{"GPU", 1}}, 1);
  want({{"CPU", 1}}, 64);
  EXPECT_EQ(launched(), (Launches{{"m4.16xlarge", 1}, {"p2.xlarge", 1}}));
  launched_for({{"GPU", 1}}, 8);
  want({{"CPU", 1}}, 64);
  EXPECT_EQ(launched(), (Launches{{"m4.4xlarge", 2}, {"p2.8xlarge", 1}}));
  EXPECT_EQ(launched_for({{"GPU", 1}}, 8), (Launches{{"p2.8xlarge", 1}}));
  state_.slots.clear();
  want_group(GroupStrategy::strict_spread, {{"GPU", 1}}, 8);
  EXPECT_EQ(launched(), (Launches{{"p2.xlarge", 8}}));
}

TEST_F(test_resource_demand_scheduler, test_node_packing_gpu_cpu_bundles) {
  types_ = {type("cpu", {{"CPU", 16}}, 10), type("gpu", {{"CPU", 16}, {"GPU", 1}}, 10)};
  want({{"CPU", 1}}, 30);
  want({{"GPU", 1}, {"CPU", 1}}, 1);
  EXPECT_EQ(launched(), (Launches{{"gpu", 1}, {"cpu", 1}}));
  std::ranges::reverse(state_.slots);
  EXPECT_EQ(launched(), (Launches{{"gpu", 1}, {"cpu", 1}}));
  state_.slots.back().count = 15;
  EXPECT_EQ(launched(), (Launches{{"gpu", 1}}));
}

// In Ray, CPU work never gets a GPU node, even if no other type is left. Here it does as the last
// choice, by its score.
TEST_F(test_resource_demand_scheduler, test_gpu_node_avoid_cpu_task) {
  types_ = {type("cpu", {{"CPU", 1}}, 10), type("gpu", {{"GPU", 1}, {"CPU", 100}}, 10)};
  want({{"CPU", 1}}, 100);
  EXPECT_EQ(launched(), (Launches{{"cpu", 10}, {"gpu", 1}})) << "intended difference";
  state_.slots.clear();
  want({{"GPU", 1}}, 1);
  want({{"CPU", 1}}, 100);
  EXPECT_EQ(launched(), (Launches{{"gpu", 1}}));
  state_.slots.clear();
  want({{"GPU", 1}}, 4);
  want({{"CPU", 1}}, 404);
  EXPECT_EQ(launched(), (Launches{{"gpu", 4}, {"cpu", 4}}));
}

TEST_F(test_resource_demand_scheduler, test_get_nodes_respects_max_limit) {
  types_ = {type("m4.large", {{"CPU", 2}}, 10), type("gpu", {{"GPU", 1}}, 99'999)};
  limits_.max_workers = 2;
  want({{"CPU", 1}}, 10);
  EXPECT_EQ(launched(), (Launches{{"m4.large", 2}}));
  EXPECT_EQ(unserved(), 6);
  limits_.max_workers = 9999;
  EXPECT_EQ(launched(), (Launches{{"m4.large", 5}}));
  add("m4.large", 7, NodePhase::running, {{"CPU", 2}});
  EXPECT_EQ(launched(), (Launches{{"m4.large", 3}}));
}

TEST_F(test_resource_demand_scheduler, test_add_min_workers_nodes) {
  types_ = {type("m2.large", {{"CPU", 2}}, 100, 50), type("m4.large", {{"CPU", 2}}, 10),
            type("gpu", {{"GPU", 1}}, 150, 150), type("gpubla", {{"GPU", 1}}, 0, 10)};
  EXPECT_EQ(launched(), (Launches{{"m2.large", 50}, {"gpu", 150}})) << "a maximum is above all";
  add("m2.large", 5);
  EXPECT_EQ(launched(), (Launches{{"m2.large", 45}, {"gpu", 150}}));
  add("m2.large", 55);
  EXPECT_EQ(launched(), (Launches{{"gpu", 150}}));
  add("gpu", 150);
  EXPECT_EQ(launched(), Launches());
}

// Ray counts the head as a node of its type and as capacity; here it does not count.
TEST_F(test_resource_demand_scheduler, test_get_nodes_to_launch_with_min_workers) {
  types_[4].min_workers = 2;
  limits_.max_workers = 3;
  add("p2.8xlarge", 1);
  state_.nodes.back().beside_head = true;
  want({{"GPU", 8}}, 1);
  EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 2}}));
  state_.slots.back().count = 6;
  EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 3}}));
  EXPECT_EQ(unserved(), 2);
}

TEST_F(test_resource_demand_scheduler, test_get_nodes_to_launch_with_min_workers_and_bin_packing) {
  types_[4].min_workers = 2;
  limits_.max_workers = 10;
  add("p2.8xlarge", 1);
  state_.nodes.back().beside_head = true;
  add("p2.8xlarge", 1);
  add("p2.8xlarge", 1, NodePhase::launching);
  want({{"GPU", 8}}, 3);
  want({{"GPU", 1}}, 1);
  EXPECT_EQ(launched(), (Launches{{"p2.xlarge", 1}}));
  types_[4].min_workers = 3;
  EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 1}}));
  EXPECT_EQ(unserved(), 0);
}

TEST_F(test_resource_demand_scheduler, test_get_nodes_to_launch_limits) {
  limits_.max_workers = 4;  // Ray's head is one of them
  add("p2.8xlarge", 2);
  add("p2.8xlarge", 1, NodePhase::launching);
  want({{"GPU", 8}}, 2);
  EXPECT_EQ(launched(), Launches());
  state_.slots.back().count = 20;
  EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 1}}));
  EXPECT_EQ(unserved(), 16);
}

TEST_F(test_resource_demand_scheduler, test_calculate_node_resources) {
  limits_.max_workers = 10;
  add("p2.8xlarge", 2);
  add("p2.8xlarge", 1, NodePhase::launching);
  want({{"GPU", 8}}, 4);
  EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 1}}));
}

TEST_F(test_resource_demand_scheduler, test_request_resources_existing_usage) {
  types_ = {type("p2.8xlarge", {{"CPU", 32}, {"GPU", 8}}, 40)};
  // the limit on concurrent launches does not apply to standing requests
  limits_ = planner::Limits();
  limits_.max_workers = 100;
  for (const auto& used : {Amounts{{"CPU", 32}, {"GPU", 8}}, Amounts{{"GPU", 4}}}) {
    state_ = {};
    add("p2.8xlarge", 2, NodePhase::running, used);
    EXPECT_EQ(launched(), Launches());
    stand({{"GPU", 4}}, 4);
    EXPECT_EQ(launched(), Launches());
    stand({{"GPU", 4}}, 7);
    EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 2}}));
    stand({{"GPU", 4}}, 70);
    EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 33}}));
  }
}

// A benchmark measures the time; this test checks the launches. Ray cuts the demand to 1,000
// requests first.
TEST_F(test_resource_demand_scheduler, test_backlog_queue_impact_on_binpacking_time) {
  types_[4].max_workers = types_[2].max_workers = 1000;
  limits_ = planner::Limits();
  want({{"GPU", 1}}, 1000);
  want({{"CPU", 1}}, 1000);
  auto made = launched();
  EXPECT_EQ(made["p2.8xlarge"], 5);
  EXPECT_EQ(std::ranges::find(plan_.launch, "p2.8xlarge", &planner::Launch::type)->later, 120);
  state_ = {};
  add("m4.16xlarge", 50);
  add("p2.8xlarge", 50);
  want({{"GPU", 1}}, 1000);
  want({{"CPU", 2}}, 1000);
  EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 50}}));
  state_ = {};
  add("m4.16xlarge", 125);
  add("p2.8xlarge", 125);
  want({{"GPU", 1}}, 1000);
  want({{"CPU", 1}}, 1000);
  EXPECT_EQ(launched(), Launches());
}

TEST_F(test_resource_demand_scheduler, TestPlacementGroupScaling_test_strategies) {
  limits_.max_workers = 10;
  add("p2.8xlarge", 2);
  want({{"GPU", 4}}, 2);
  want_group(GroupStrategy::strict_spread, {{"GPU", 2}}, 3);
  want_group(GroupStrategy::strict_pack, {{"GPU", 2}}, 4);
  want_group(GroupStrategy::pack, {{"GPU", 2}}, 2);
  want_group(GroupStrategy::spread, {{"GPU", 2}}, 2);
  EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 2}}));
  EXPECT_EQ(unserved(), 0);
}

TEST_F(test_resource_demand_scheduler, test_many_strict_spreads) {
  limits_.max_workers = 10;
  add("p2.8xlarge", 2);
  want({{"GPU", 1}}, 6);
  for (int i = 0; i < 3; ++i) want_group(GroupStrategy::strict_spread, {{"GPU", 2}}, 3);
  EXPECT_EQ(launched(), (Launches{{"p2.8xlarge", 1}}));
  EXPECT_EQ(unserved(), 0);
}

TEST_F(test_resource_demand_scheduler, TestPlacementGroupScaling_test_packing) {
  limits_.max_workers = 10;
  add("p2.8xlarge", 1);
  want({{"GPU", 1}}, 2);
  want_group(GroupStrategy::strict_pack, {{"GPU", 2}}, 3);
  EXPECT_EQ(launched(), Launches());
  EXPECT_EQ(unserved(), 0);
}

TEST_F(test_resource_demand_scheduler, test_get_concurrent_resource_demand_to_launch) {
  types_ = {type("m4.large", {{"CPU", 2}}, 100), type("p2.8xlarge", {{"CPU", 32}, {"GPU", 8}}, 10)};
  limits_ = planner::Limits();
  limits_.max_workers = 200;
  // Two of one type and three of the other are launching, and none runs: up to five may be in
  // progress.
  add("p2.8xlarge", 2, NodePhase::launching);
  add("m4.large", 3, NodePhase::launching);
  want({{"GPU", 8}}, 6);
  want({{"CPU", 2}}, 3 + 40 + 6 * 16);
  auto made = launched();
  EXPECT_EQ(made["p2.8xlarge"], 3);
  EXPECT_EQ(made["m4.large"], 2);
  types_[0].min_workers = 43;
  EXPECT_EQ(launched()["m4.large"], 40);
  types_[0].min_workers = 0;
  want_group(GroupStrategy::strict_spread, {{"CPU", 2}}, 45);
  EXPECT_EQ(launched()["m4.large"], 40);
}

using test_autoscaler_fake_multinode = DemandScheduler;

TEST_F(test_autoscaler_fake_multinode, test_fake_autoscaler_basic_e2e) {
  types_ = {type("cpu_node", {{"CPU", 4}}, 2), type("gpu_node", {{"CPU", 2}, {"GPU", 1}}, 2)};
  ClusterNode head;
  head.id = NodeId::of(1);
  head.beside_head = true;
  head.shape = shape({{"CPU", 2}});
  state_.nodes.push_back(head);
  want({{"CPU", 1}, {"GPU", 1}}, 1);
  EXPECT_EQ(launched(), (Launches{{"gpu_node", 1}}));
  state_.slots.clear();
  want({{"CPU", 3}}, 1);
  EXPECT_EQ(launched(), (Launches{{"cpu_node", 1}}));
}

}  // namespace
}  // namespace mobula::internal::ray
