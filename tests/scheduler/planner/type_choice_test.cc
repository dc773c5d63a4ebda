// Choice of the type: the examples of Ray's score, and its order of criteria.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/planner/draw.h"
#include "scheduler/planner/type_choice.h"

namespace mobula::internal::planner {
namespace {

using scheduler::cpus;
using scheduler::node_shape;
using scheduler::node_with;
using scheduler::request;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Unit unit(const Request& requested, std::int64_t count) {
  return {{scheduler::RequestShape(requested, ProgramId::of(1), scheduler::Tenant::task)}, count};
}

std::vector<std::string> order(const std::vector<NodeType>& types, std::vector<Unit> units) {
  sort_largest_first(units);
  std::vector<std::string> names;
  for (const auto* each : best_types(types, units, {})) names.push_back(each->name);
  return names;
}

const std::vector<NodeType> cpu_and_gpu{node_type("cpu", node_with(16, 0), 10),
                                        node_type("gpu", node_with(8, 4), 10)};

TEST(TypeChoice, CpuWork_PrefersTypeWithoutDevices) {
  EXPECT_THAT(order(cpu_and_gpu, {unit(cpus(1), 20)}), ElementsAre("cpu", "gpu"));
  // Even if it is used less.
  const std::vector<NodeType> types{node_type("huge", node_with(1000, 0), 1),
                                    node_type("gpu", node_with(1, 1), 1)};
  EXPECT_THAT(order(types, {unit(cpus(1), 1)}), ElementsAre("huge", "gpu"));
}

TEST(TypeChoice, PrefersMoreMatchedResources) {
  EXPECT_THAT(order(cpu_and_gpu, {unit(request({{"CPU", 1}, {"GPU", 0.5}}), 4), unit(cpus(1), 4)}),
              ElementsAre("gpu", "cpu"));
}

TEST(TypeChoice, PrefersLeastThenMeanUse) {
  const std::vector<NodeType> types{node_type("b4", node_with(4, 0), 1),
                                    node_type("a8", node_with(8, 0), 1),
                                    node_type("c16", node_with(16, 0), 1)};
  EXPECT_THAT(order(types, {unit(cpus(1), 8)}), ElementsAre("a8", "b4", "c16"));
  EXPECT_THAT(order(types, {unit(cpus(1), 4)}), ElementsAre("b4", "a8", "c16"));
  EXPECT_THAT(order(types, {unit(cpus(1), 100)}), ElementsAre("c16", "a8", "b4"));
}

TEST(TypeChoice, EqualTypes_PrefersLastByName) {
  const std::vector<NodeType> types{node_type("b", node_with(4, 0), 1),
                                    node_type("a", node_with(4, 0), 1)};
  EXPECT_THAT(order(types, {unit(cpus(1), 1)}), ElementsAre("b", "a"));
}

TEST(TypeChoice, OmitsTypesThatServeNothing) {
  auto zone = node_with(4, 0);
  zone.labels["zone"] = "a";
  auto there = cpus(1);
  there.label_selector["zone"] = "b";
  EXPECT_THAT(order({node_type("a", zone, 1)}, {unit(there, 1)}), IsEmpty());
  auto pinned = cpus(1);
  pinned.strategy = NodeAffinityStrategy{NodeId::of(7), false};
  EXPECT_THAT(order({node_type("a", zone, 1)}, {unit(pinned, 1)}), IsEmpty());
  pinned.strategy = NodeAffinityStrategy{NodeId::of(7), true};
  EXPECT_THAT(order({node_type("a", zone, 1)}, {unit(pinned, 1)}), ElementsAre("a"));
}

TEST(TypeChoice, MatchesAcceleratorByDevicesOrType) {
  auto requested = request({{"GPU", 1}});
  requested.accelerator_type = "H100";
  auto declared = node_shape(8, {{}, {}});
  declared.accelerator_types = {"A100"};
  const std::vector<NodeType> types{node_type("h100", node_shape(8, {{1, 0, {"H100"}}}), 1),
                                    node_type("a100", declared, 1)};
  EXPECT_THAT(order(types, {unit(requested, 1)}), ElementsAre("h100"));
}

// By their sums, both would fit one node with two devices.
TEST(TypeChoice, SplitsNoDevicesWhenPacking) {
  const auto type = node_type("gpu", node_with(8, 2), 5);
  std::vector<Unit> units{unit(request({{"GPU", 0.6}}), 3)};
  subtract(type, units);
  ASSERT_EQ(units.size(), 1u);
  EXPECT_EQ(units.front().count, 1);
}

TEST(TypeChoice, SortsLargestFirst) {
  std::vector<Unit> units{unit(cpus(4), 1), unit(request({{"CPU", 1}, {"GPU", 1}}), 1),
                          unit(cpus(8), 1)};
  sort_largest_first(units);
  EXPECT_TRUE(units[0].shapes.front().need.has_devices);
  EXPECT_EQ(units[1].shapes.front().need.amounts.front().amount, Quantity::whole(8));
}

}  // namespace
}  // namespace mobula::internal::planner
