// Tests the state that the head provides to planners of nodes.
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class PlannerState : public testing::Test {
 protected:
  PlannerState() { cluster.driver_starts_job(home, 1); }
  Json state() { return Json::parse(cluster.tool("planner_state").json); }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(4, 2));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
};

TEST_F(PlannerState, StatesPendingDemandWithAllConstraints) {
  auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(3)}});
  demand.request.accelerator_type = "H100";
  demand.request.label_selector["zone"] = "a";
  demand.request.gpu_memory = 7;
  cluster.wants(home, demand, 5);
  auto inside = cluster.demand_class(1, 2, {{"CPU", Quantity::whole(1)}});
  inside.request.placement.group = GroupId::of(9);
  cluster.wants(home, inside, 5);
  const auto slots = state()["slots"];
  ASSERT_EQ(slots.size(), 1u) << "slots in a group are no demand for nodes";
  EXPECT_EQ(slots[0]["count"], 5);
  EXPECT_EQ(slots[0]["actor"], false);
  EXPECT_EQ(slots[0]["request"]["resources"]["GPU"], 3);
  EXPECT_EQ(slots[0]["request"]["accelerator_type"], "H100");
  EXPECT_EQ(slots[0]["request"]["label_selector"]["zone"], "a");
  EXPECT_EQ(slots[0]["request"]["gpu_memory"], 7);
}

TEST_F(PlannerState, StatesHeldInstancesAndOmitsThemFromDemand) {
  const auto demand = cluster.demand_class(
      1, 1, {{"CPU", Quantity::whole(1)}, {"GPU", Quantity::from_units(5000)}});
  cluster.wants(home, demand, 6);  // four are granted
  const auto start = cluster.take<StartSlot>(agent);
  ASSERT_EQ(start.size(), 4u);
  auto json = state();
  const auto& node = json["nodes"][0];
  EXPECT_EQ(json["nodes"].size(), 1u) << "a driver's own node offers nothing";
  EXPECT_EQ(node["held"],
            Json::parse(R"([["CPU",0,4,0],["GPU",0,1,85899345920],["GPU",1,1,85899345920]])"))
      << "resource, instance, amount, bytes of device memory";
  EXPECT_EQ(node["task_slots"], 4);
  EXPECT_TRUE(node["idle_ms"].is_null());
  EXPECT_EQ(json["slots"][0]["count"], 2);
  cluster.from_agent(agent, SlotCpuReleased{start[0].slot, true});
  json = state();
  EXPECT_EQ(json["nodes"][0]["blocked_task_slots"], 1);
}

TEST_F(PlannerState, MergesDemandOfOneClass) {
  const auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(3)}});
  cluster.wants(home, demand, 5);
  Demand of_other;
  of_other.demand_class = demand;
  of_other.version = 1;
  of_other.wanted_slots = 2;
  cluster.from_process(agent, ProcessId::of(77), Role::executor, 1, of_other);
  const auto slots = state()["slots"];
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots[0]["count"], 7);
}

TEST_F(PlannerState, LimitsDemandByQuotaOfJob) {
  StartJob start = cluster.job_of(2);
  start.terms.quota["CPU"] = Quantity::whole(3);
  cluster.from_driver(home, 2, start);
  cluster.wants(home, cluster.demand_class(2, 1, {{"CPU", Quantity::whole(1)}}), 1);
  auto later =
      cluster.demand_class(2, 3, {{"CPU", Quantity::whole(1)}, {"GPU", Quantity::whole(9)}});
  auto first =
      cluster.demand_class(2, 2, {{"CPU", Quantity::whole(1)}, {"GPU", Quantity::whole(8)}});
  first.request.priority = 1;
  cluster.wants(home, later, 40);
  cluster.wants(home, first, 1);
  std::map<std::int64_t, std::int64_t> allowed;  // by the number of GPUs
  auto json = state();
  for (const auto& row : json["slots"])
    allowed[row["request"]["resources"]["GPU"]] = row["allowed"];
  EXPECT_EQ(allowed, (std::map<std::int64_t, std::int64_t>{{8, 1}, {9, 1}}))
      << "one CPU is in use, and the class of higher priority gets the second";
  const auto unlimited = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(3)}});
  cluster.wants(home, unlimited, 5);
  json = state();
  for (const auto& row : json["slots"]) {
    EXPECT_EQ(row.contains("allowed"), row["request"]["resources"]["GPU"] != 3);
  }
}

TEST_F(PlannerState, StatesRunTimeAndStall) {
  const auto demand = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(4)}});
  Demand message;
  message.demand_class = demand;
  message.version = 1;
  message.wanted_slots = message.waiting_tasks = 9;
  message.mean_run = 250ms;
  cluster.from_driver(home, 1, message);
  cluster.expect_start_slot(agent);
  cluster.pass(5s);
  auto row = state()["slots"][0];
  EXPECT_EQ(row["count"], 8);
  EXPECT_EQ(row["held"], 1);
  EXPECT_EQ(row["mean_run_us"], 250'000);
  EXPECT_GE(row["stalled_ms"], 5000);
  message.version = 2;
  message.wanted_slots = message.waiting_tasks = 10;
  message.oldest_wait = 5s;
  cluster.from_driver(home, 1, message);
  EXPECT_GE(state()["slots"][0]["stalled_ms"], 5000) << "a longer queue is no progress";
  message.version = 3;
  message.wanted_slots = message.waiting_tasks = 9;
  cluster.from_driver(home, 1, message);
  EXPECT_LT(state()["slots"][0]["stalled_ms"], 1000);
}

TEST_F(PlannerState, RejectsOversizedStateAndNamesExcess) {
  HeadOptions options;
  options.max_planner_bytes = 10'000;
  SmallCluster small(options);
  auto& first = small.node_joins(1, SmallCluster::shape(4));
  small.driver_starts_job(first, 1);
  EXPECT_TRUE(small.tool("planner_state").ok);
  for (int i = 1; i <= 100; ++i) {
    small.wants(first, small.demand_class(1, i, {{"CPU", Quantity::from_units(50'000 + i)}}), 1);
  }
  const auto refused = small.tool("planner_state");
  EXPECT_FALSE(refused.ok);
  EXPECT_EQ(refused.code, ErrorCode::resource_exhausted);
  EXPECT_NE(refused.text.find(" slots, the limit of one reply"), std::string::npos) << refused.text;
}

TEST_F(PlannerState, MeasuresIdleTimeSinceLastSlot) {
  cluster.pass(5s);
  EXPECT_GE(state()["nodes"][0]["idle_ms"], 5000) << "since it came";
  const auto demand = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
  cluster.wants(home, demand, 1);
  const auto start = cluster.expect_start_slot(agent);
  EXPECT_TRUE(state()["nodes"][0]["idle_ms"].is_null());
  cluster.wants(home, demand, 0);
  cluster.slot_gone(agent, start.slot);
  EXPECT_LT(state()["nodes"][0]["idle_ms"], 1000);
  cluster.pass(3s);
  EXPECT_GE(state()["nodes"][0]["idle_ms"], 3000);
}

TEST_F(PlannerState, NamesInstancesWhoseAgentDied) {
  auto shape = SmallCluster::shape(4);
  shape.labels["mobula.io/instance"] = "mobula-c-1";
  auto& instance = cluster.node_joins(7, shape);
  EXPECT_TRUE(state()["dead_instances"].empty());
  instance.silent = true;
  cluster.pass(60s);
  EXPECT_EQ(state()["dead_instances"], Json::array({"mobula-c-1"}));
  EXPECT_EQ(state()["nodes"].size(), 1u) << "the other node answers";
}

TEST_F(PlannerState, StatesPendingGroupAndHoldingNode) {
  GroupSpec spec;
  spec.id = GroupId::of(5);
  spec.job = JobId::of(1);
  spec.creator = SmallCluster::driver(1);
  spec.strategy = GroupStrategy::strict_spread;
  Request bundle;
  bundle.resources.set("CPU", Quantity::whole(3));
  spec.bundles = {bundle, bundle};
  cluster.from_driver(home, 1, CreateGroup{spec});
  auto json = state();
  ASSERT_EQ(json["groups"].size(), 1u);
  EXPECT_EQ(json["groups"][0]["strategy"], "STRICT_SPREAD");
  EXPECT_EQ(json["groups"][0]["bundles"][1]["request"]["resources"]["CPU"], 3);
  EXPECT_FALSE(json["groups"][0]["bundles"][1].contains("node_id"));

  auto& other = cluster.node_joins(3, SmallCluster::shape(4));
  json = state();
  EXPECT_TRUE(json["groups"].empty());
  for (const auto& node : json["nodes"]) {
    EXPECT_EQ(node["held"], Json::parse(R"([["CPU",0,3,0]])"));
    EXPECT_TRUE(node["idle_ms"].is_null());
  }
  cluster.pass(10s);
  cluster.from_driver(home, 1, RemoveGroup{spec.id});
  for (const auto& node : state()["nodes"]) EXPECT_LT(node["idle_ms"], 1000);
  static_cast<void>(other);
}

}  // namespace
}  // namespace mobula::internal::head
