#include "cli/commands/nodes/plan_command.h"

#include <gtest/gtest.h>

#include "scheduler/planner/planner.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

const std::string node_1 = "00000000000000000000000000000001";
const std::string node_2 = "00000000000000000000000000000002";

Json state_document() {
  const auto shape = Json::parse(R"({
      "resources": [{"name": "CPU", "unit": false,
                     "instances": [{"total": 4, "types": [], "memory_bytes": 0, "context_bytes": 0, "island": -1}]},
                    {"name": "GPU", "unit": false,
                     "instances": [{"total": 1, "types": ["H100"], "memory_bytes": 9, "context_bytes": 2, "island": 0},
                                   {"total": 0.5, "types": [], "memory_bytes": 0, "context_bytes": 0, "island": 0}]}],
      "accelerator_types": ["H100"], "labels": {"mobula.io/node-group": "gpu", "zone": "a"},
      "task_executors": 16, "actor_executors": 10000})");
  Json document = {{"kind", "PlannerState"}, {"warnings", {"a note"}}};
  document["nodes"].push_back({{"node_id", node_1},
                               {"usable", true},
                               {"shape", shape},
                               {"held", {{"CPU", 0, 1.5, 0}, {"GPU", 1, 0.25, 0}}},
                               {"task_slots", 2},
                               {"blocked_task_slots", 1},
                               {"actor_slots", 0},
                               {"idle_ms", nullptr},
                               {"cannot_start", {node_2}}});
  document["nodes"].push_back({{"node_id", node_2},
                               {"usable", true},
                               {"shape", shape},
                               {"held", Json::array()},
                               {"task_slots", 0},
                               {"blocked_task_slots", 0},
                               {"actor_slots", 0},
                               {"idle_ms", 700'000},
                               {"cannot_start", Json::array()}});
  document["slots"] = Json::parse(R"([{"class_id": "000000000000000000000000000000c1",
      "name": "train", "program": "000000000000000000000000000000f1", "actor": false, "count": 3,
      "held": 2, "allowed": 1, "mean_run_us": 250000, "stalled_ms": 40,
      "request": {"resources": {"CPU": 1, "GPU": 8}, "label_selector": {"zone": "a"},
                  "accelerator_type": "H100", "spread": true, "gpu_memory": 5}}])");
  document["groups"] = Json::parse(R"([{"placement_group_id": "000000000000000000000000000000e1",
      "name": "pair", "strategy": "STRICT_SPREAD", "program": "000000000000000000000000000000f1",
      "bundles": [{"request": {"resources": {"CPU": 1}}},
                  {"request": {"resources": {"CPU": 2}},
                   "node_id": "00000000000000000000000000000001", "held": [["CPU", 0, 2, 0]]}]}])");
  return document;
}

TEST(PlanCommand, ReadsStateInFull) {
  const auto state = fleet::planner_state_of(state_document());
  ASSERT_TRUE(state) << state.error().text;
  ASSERT_EQ(state->cluster.nodes.size(), 2u);
  const auto& node = state->cluster.nodes[0];
  EXPECT_EQ(node.type, "gpu");
  EXPECT_EQ(node.held.find("CPU")->shares[0].amount, Quantity::from_units(15'000));
  EXPECT_EQ(node.held.find("GPU")->shares[0].index, 1u);
  EXPECT_EQ(node.shape.find("GPU")->instances[1].total, Quantity::from_units(5'000));
  EXPECT_EQ(node.blocked_task_slots, 1);
  EXPECT_EQ(node.cannot_start.size(), 1u);
  EXPECT_FALSE(node.idle.has_value());
  EXPECT_EQ(state->cluster.nodes[1].idle, Duration(700s));
  const auto& slots = state->cluster.slots[0];
  EXPECT_EQ(slots.held, 2);
  EXPECT_EQ(slots.allowed, 1);
  EXPECT_EQ(slots.mean_run, Duration(250ms));
  EXPECT_EQ(slots.stalled, Duration(40ms));
  const auto& request = state->cluster.slots[0].demand.request;
  EXPECT_EQ(request.accelerator_type, "H100");
  EXPECT_EQ(request.gpu_memory, 5);
  EXPECT_TRUE(std::holds_alternative<SpreadStrategy>(request.strategy));
  const auto& group = state->cluster.groups[0];
  EXPECT_EQ(group.spec.strategy, GroupStrategy::strict_spread);
  EXPECT_TRUE(group.locations[0].node.empty());
  EXPECT_EQ(group.locations[1].allocation.find("CPU")->shares[0].amount, Quantity::whole(2));
  EXPECT_EQ(state->warnings, std::vector<std::string>{"a note"});
}

TEST(PlanCommand, RejectsInvalidState) {
  auto broken = state_document();
  broken["nodes"][0].erase("shape");
  EXPECT_FALSE(fleet::planner_state_of(broken));
  broken = state_document();
  broken["slots"][0]["class_id"] = "x";
  EXPECT_FALSE(fleet::planner_state_of(broken));
  EXPECT_FALSE(fleet::planner_state_of(Json::object()));
}

TEST(PlanCommand, KeepsNodesThatMayHoldObjects) {
  auto state = *fleet::planner_state_of(state_document());
  fleet::add_objects(state, {{"items", {{{"node_id", node_2}}}}, {"warnings", Json::array()}});
  EXPECT_FALSE(state.cluster.nodes[0].has_objects);
  EXPECT_TRUE(state.cluster.nodes[1].has_objects);
  fleet::add_objects(state, {{"items", Json::array()}, {"warnings", {"3 objects are left out"}}});
  EXPECT_TRUE(state.cluster.nodes[0].has_objects);
  EXPECT_EQ(state.warnings.size(), 2u);
}

TEST(PlanCommand, PrintsPlanAsTextAndDocument) {
  const auto state = *fleet::planner_state_of(state_document());
  planner::Plan plan;
  plan.launch.push_back({"gpu", 1, 0, 2, 3, 4});
  plan.terminate.push_back({NodeId::of(2), "gpu", 700s});
  planner::Unserved never;
  never.class_id = state.cluster.slots[0].demand.id;
  never.request = state.cluster.slots[0].demand.request;
  never.count = 3;
  never.why = "no node type holds it";
  plan.infeasible.push_back(never);
  planner::Unserved group;
  group.group = state.cluster.groups[0].spec.id;
  group.why = "gpu has its maximum of 4";
  plan.waiting.push_back(group);
  const auto document = plan_document(plan, state);
  EXPECT_EQ(document["kind"], "Plan");
  EXPECT_EQ(document["items"][0]["count"], 6);
  EXPECT_EQ(document["infeasible"][0]["name"], "train");
  EXPECT_EQ(
      format_plan(document),
      "launch 6 of gpu: 1 for the minimum, 2 for placement groups, 3 for waiting slots, 4 more "
      "after these\n"
      "remove 00000000000000000000000000000002 of gpu: idle for 700 s\n"
      "never served: 3 x {\"CPU\":1,\"GPU\":8} (train): no node type holds it\n"
      "waits: placement group 000000000000000000000000000000e1 (pair): gpu has its maximum of "
      "4\n"
      "note: a note\n");
  EXPECT_EQ(format_plan(plan_document({}, {})), "no node to launch or remove\n");
}

}  // namespace
}  // namespace mobula::internal::cli
