// Metrics of the head in the text format of Prometheus.
#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "head/core/query/node_samples.h"
#include "head/core/small_cluster.h"
#include "head/core/use_table.h"

namespace mobula::internal::head {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Metrics : public testing::Test {
 protected:
  Metrics() { cluster.driver_starts_job(home, 1); }
  std::string text() { return cluster.tool("metrics", "", "", Role::metrics).json; }
  static std::vector<std::string> lines_of(const std::string& text, const std::string& name) {
    std::vector<std::string> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(name + "{") || line.starts_with(name + " ")) found.push_back(line);
    }
    return found;
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(4, 2));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
};

TEST_F(Metrics, StatesNodesJobsAndResources) {
  const auto now = text();
  EXPECT_THAT(now, HasSubstr("\nmobula_nodes{state=\"ALIVE\"} 1\n"));
  EXPECT_THAT(now, HasSubstr("\nmobula_nodes{state=\"DEAD\"} 0\n"));
  EXPECT_THAT(now, HasSubstr("\nmobula_jobs{state=\"RUNNING\"} 1\n"));
  EXPECT_THAT(now, HasSubstr("\nmobula_resource_total{resource=\"CPU\"} 4\n"));
  EXPECT_THAT(now, HasSubstr("# TYPE mobula_task_run_seconds histogram\n"));
  EXPECT_EQ(lines_of(now, "mobula_gpu_booked_ratio").size(), 2u);
}

TEST_F(Metrics, StatesPendingTasksWithReasonAndAge) {
  cluster.wants(home, cluster.demand_class(1, 1, {{"GPU", Quantity::whole(3)}}), 5);
  cluster.wants(home, cluster.demand_class(1, 2, {{"GPU", Quantity::from_units(5000)}}), 3);
  cluster.pass(7s);
  const auto now = text();
  EXPECT_THAT(now, HasSubstr("\nmobula_pending{kind=\"task\",reason=\"Infeasible\"} 5\n"));
  const auto oldest = lines_of(now, "mobula_pending_oldest_seconds");
  ASSERT_EQ(oldest.size(), 1u);
  EXPECT_GE(std::stod(oldest[0].substr(oldest[0].find(' '))), 7);
  const auto booked = lines_of(now, "mobula_gpu_booked_ratio");
  EXPECT_TRUE(booked[0].ends_with(" 1") && booked[1].ends_with(" 0.5")) << booked[0] << booked[1];
  EXPECT_TRUE(lines_of(now, "mobula_slot_grant_seconds_count")[0].ends_with(" 3"));
}

TEST_F(Metrics, CountsCallsByNameWithinBound) {
  for (int i = 0; i < 1000; ++i) {
    ClassUseRow row;
    row.name = i == 0 ? "a \"name\"\nof a user\\" : "f" + std::to_string(i);
    row.submitted = row.finished = 1;
    row.run_us = 3'000'000;
    row.runs = {{12, 1}};
    cluster.from_driver(home, 1, ClassUse{{row}});
  }
  const auto now = text();
  EXPECT_THAT(
      now, HasSubstr("mobula_tasks_finished_total{name=\"a \\\"name\\\"\\nof a user\\\\\"} 1\n"));
  EXPECT_THAT(now, HasSubstr("mobula_tasks_finished_total{name=\"other\"} 800\n"));
  EXPECT_EQ(lines_of(now, "mobula_tasks_finished_total").size(), UseTable::max_names + 1);
  EXPECT_THAT(now, HasSubstr("mobula_task_run_seconds_bucket{name=\"f1\",le=\"2.048\"} 0\n"));
  EXPECT_THAT(now, HasSubstr("mobula_task_run_seconds_bucket{name=\"f1\",le=\"4.096\"} 1\n"));
  EXPECT_THAT(now, HasSubstr("mobula_task_run_seconds_bucket{name=\"f1\",le=\"+Inf\"} 1\n"));
  EXPECT_THAT(now, HasSubstr("mobula_task_run_seconds_sum{name=\"f1\"} 3\n"));
}

TEST_F(Metrics, SamplesNodesWhileWatchedOnly) {
  cluster.pass(120s);
  EXPECT_TRUE(cluster.take<UsageRequest>(agent).empty());
  EXPECT_TRUE(lines_of(text(), "mobula_node_memory_bytes").empty());
  cluster.pass(1s);
  const auto query = cluster.take<UsageRequest>(agent);
  ASSERT_EQ(query.size(), 1u);
  EXPECT_EQ(query[0], (UsageRequest{NodeSamples::request_number, true}));
  UsageReply reply;
  reply.memory_bytes = 1000;
  reply.devices = {{1, 77, 40}};
  cluster.from_agent(agent, reply);
  const auto now = text();
  ASSERT_EQ(lines_of(now, "mobula_node_memory_bytes").size(), 1u);
  EXPECT_TRUE(lines_of(now, "mobula_node_memory_bytes")[0].ends_with(" 1000"));
  const auto used = lines_of(now, "mobula_gpu_memory_used_bytes");
  ASSERT_EQ(used.size(), 1u);
  EXPECT_THAT(used[0], HasSubstr("gpu=\"1\""));
  const auto busy = lines_of(now, "mobula_gpu_utilization_ratio");
  ASSERT_EQ(busy.size(), 1u) << "only the sampled GPU";
  EXPECT_TRUE(busy[0].ends_with(" 0.4")) << busy[0];
  cluster.pass(50s);
  EXPECT_EQ(cluster.take<UsageRequest>(agent).size(), 5u);
  cluster.pass(60s);
  cluster.take<UsageRequest>(agent);
  cluster.pass(300s);
  EXPECT_TRUE(cluster.take<UsageRequest>(agent).empty()) << "no reader requests metrics any more";
}

TEST_F(Metrics, KeyOfScraper_ReadsNothingElse) {
  EXPECT_TRUE(cluster.tool("metrics", "", "", Role::metrics).ok);
  EXPECT_TRUE(cluster.tool("metrics", "", "", Role::observer).ok);
  EXPECT_EQ(cluster.tool("status", "", "", Role::metrics).code, ErrorCode::permission_denied);
  EXPECT_EQ(cluster.tool("list", "tasks", "", Role::metrics).code, ErrorCode::permission_denied);
}

TEST_F(Metrics, EachFamily_IsContiguousAndTyped) {
  std::set<std::string> families;
  std::string last;
  std::istringstream lines(text());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      last = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(last).second) << last;
    } else if (!line.starts_with("# TYPE ")) {
      EXPECT_TRUE(line.starts_with(last)) << line;
    }
  }
  EXPECT_GT(families.size(), 25u);
}

}  // namespace
}  // namespace mobula::internal::head
