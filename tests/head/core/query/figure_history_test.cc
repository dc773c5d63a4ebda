// History of figures for the charts of the page.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "head/core/query/figure_history.h"
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

HeadOptions with_pages() {
  HeadOptions options;
  options.http_url = "http://127.0.0.1:1";
  return options;
}

Json history_of(SmallCluster& cluster, const std::string& range = {}) {
  return Json::parse(cluster.tool("history", range, "", Role::observer).json);
}

std::vector<double> values_of(const Json& history, const std::string& name) {
  std::vector<double> values;
  for (const auto& series : history["series"]) {
    if (series["name"] != name) continue;
    for (const auto& value : series["values"])
      values.push_back(value.is_null() ? -1 : value.get<double>());
  }
  return values;
}

TEST(FigureHistoryTest, RecordsOneSamplePerSecond) {
  SmallCluster cluster(with_pages());
  TestAgent& home = cluster.node_joins(1, SmallCluster::shape(4));
  cluster.driver_starts_job(home, 1);
  cluster.pass(10s);
  cluster.wants(home, cluster.demand_class(1, 1, {{"CPU", Quantity::whole(3)}}), 2);
  cluster.pass(10s);
  const Json history = history_of(cluster);
  EXPECT_EQ(history["interval_ms"], 1000);
  EXPECT_LE(history["age_ms"], 1000);
  const auto nodes = values_of(history, "nodes");
  EXPECT_GE(nodes.size(), 20u);
  EXPECT_EQ(nodes.back(), 1);
  EXPECT_EQ(values_of(history, "jobs").back(), 1);
  const auto booked = values_of(history, "booked CPU");
  EXPECT_EQ(booked.size(), nodes.size());
  EXPECT_EQ(booked[booked.size() - 15], 0);
  EXPECT_EQ(booked.back(), 3);
  EXPECT_EQ(values_of(history, "waiting").back(), 2);  // as its owner reported
}

TEST(FigureHistoryTest, LongRange_HasEachTenthSample) {
  SmallCluster cluster(with_pages());
  cluster.node_joins(1, SmallCluster::shape(4));
  cluster.pass(700s);
  EXPECT_EQ(values_of(history_of(cluster), "nodes").size(), 600u);
  const Json history = history_of(cluster, "6h");
  EXPECT_EQ(history["interval_ms"], 10'000);
  EXPECT_LT(history["age_ms"], 11'000);
  const auto samples = values_of(history, "nodes").size();
  EXPECT_GE(samples, 69u);
  EXPECT_LE(samples, 72u);
  EXPECT_FALSE(cluster.tool("history", "1y", "", Role::observer).ok);
}

TEST(FigureHistoryTest, BoundsSeries) {
  SmallCluster cluster(with_pages());
  NodeShape shape = SmallCluster::shape(4);
  for (int i = 0; i < 62; ++i) {
    ResourceShape unit;
    unit.name = fmt::format("unit{:03}", i);
    unit.instances.push_back(InstanceShape{Quantity::whole(1), "", {}, 0});
    shape.resources.push_back(unit);
  }
  cluster.node_joins(1, shape);
  cluster.pass(3s);
  EXPECT_EQ(history_of(cluster)["series"].size(), FigureHistory::max_series);
}

TEST(FigureHistoryTest, MarksOfNodesTakeNoSeries) {
  SmallCluster cluster(with_pages());
  NodeShape shape = SmallCluster::shape(4);
  for (std::size_t i = 0; i < 62; ++i) {
    const auto name = fmt::format("node:10.0.0.{}", 100 + i);
    shape.resources.push_back({name, {InstanceShape{Quantity::whole(1), "", {}, 0}}});
  }
  TestAgent& agent = cluster.node_joins(1, shape);
  cluster.pass(3s);
  ASSERT_FALSE(cluster.take<UsageRequest>(agent).empty());
  UsageReply usage;
  usage.memory_used_bytes = 1000;
  cluster.from_agent(agent, usage);
  cluster.pass(2s);
  const Json history = history_of(cluster);
  EXPECT_FALSE(values_of(history, "memory").empty());
  EXPECT_TRUE(values_of(history, "booked node:10.0.0.100").empty());
}

TEST(FigureHistoryTest, WithoutPages_TakesNoSamples) {
  SmallCluster cluster;
  cluster.node_joins(1, SmallCluster::shape(4));
  cluster.pass(5s);
  EXPECT_TRUE(history_of(cluster)["series"].empty());
}

}  // namespace
}  // namespace mobula::internal::head
