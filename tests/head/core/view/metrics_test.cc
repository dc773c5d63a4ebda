// Metrics of the head in the text format of Prometheus.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "head/core/jobs/use_table.h"
#include "head/core/nodes/label_values.h"
#include "head/core/query/node_samples.h"
#include "head/core/small_cluster.h"
#include "head/core/view/metrics_text.h"

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
  EXPECT_EQ(lines_of(now, "mobula_leases").size(), 2u) << "tenants are no names of users";
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

scheduler::Use use_of(const std::vector<std::string>& names) {
  scheduler::Use use;
  for (const auto& name : names) use[name] = {Quantity::whole(3), Quantity::whole(1)};
  return use;
}

std::string resource_lines(const scheduler::Use& use, Time now, LabelValues& values) {
  MetricsWriter out;
  add_resources(use, now, values, out);
  return std::move(out).take();
}

TEST_F(Metrics, BoundsResourceNamesAndSumsOthers) {
  std::vector<std::string> names = {"CPU", "GPU", "memory", "neuron_cores"};
  for (int i = 0; i < 100'000; ++i) names.push_back("A" + std::to_string(i));
  LabelValues values;
  const auto now = resource_lines(use_of(names), cluster.now, values);
  EXPECT_EQ(std::ranges::count(now, '\n'), 2 * (2 + 4 + 100 + 1));
  EXPECT_THAT(now, HasSubstr("\nmobula_resource_total{resource=\"other\"} 299700\n"));
  EXPECT_THAT(now, HasSubstr("\nmobula_resource_used{resource=\"other\"} 199800\n"));
  for (const char* name : {"CPU", "GPU", "memory", "neuron_cores"})
    EXPECT_THAT(now, HasSubstr(fmt::format("_total{{resource=\"{}\"}} 3\n", name)));
}

TEST_F(Metrics, KnownResourcesKeepTheirRows) {
  LabelValues values;
  (void)resource_lines(use_of({"license"}), cluster.now, values);
  std::vector<std::string> names = {"license"};
  for (int i = 0; i < 1000; ++i) names.push_back("A" + std::to_string(i));
  const auto license = HasSubstr("\nmobula_resource_total{resource=\"license\"} 3\n");
  const auto later = HasSubstr("\nmobula_resource_total{resource=\"seat\"} 3\n");
  EXPECT_THAT(resource_lines(use_of(names), cluster.now, values), license);
  names.push_back("seat");
  const Time soon = cluster.now + std::chrono::hours(1);
  EXPECT_THAT(resource_lines(use_of(names), soon, values), testing::AllOf(license, Not(later)));
  const auto now =
      resource_lines(use_of({"seat", "license"}), soon + std::chrono::hours(2), values);
  EXPECT_THAT(now, testing::AllOf(license, later)) << "absent names give way";
}

TEST_F(Metrics, HostileResourceNames_AreValidText) {
  LabelValues values;
  const std::string cut(LabelValues::max_bytes, 'x');
  const auto now = resource_lines(
      use_of({"other", "a\"b\\c\nd", "\xff", "\xfe", cut + "1", cut + "2"}), cluster.now, values);
  EXPECT_THAT(now, HasSubstr("\nmobula_resource_total{resource=\"other\"} 3\n"));
  EXPECT_THAT(now, HasSubstr("{resource=\"a\\\"b\\\\c\\nd\"} 3\n"));
  EXPECT_THAT(now, HasSubstr("{resource=\"\xef\xbf\xbd\"} 6\n"));
  EXPECT_THAT(now, HasSubstr("{resource=\"" + cut + "\"} 6\n"));
}

TEST_F(Metrics, ScrapeBoundsNamesOfNodes) {
  for (int node = 3; node < 7; ++node) {
    auto shape = SmallCluster::shape(1);
    for (int i = 0; i < 50; ++i) {
      const auto name = fmt::format("z{}-{:02}", node, i);
      shape.resources.push_back({name, {InstanceShape{Quantity::whole(1), "", {}, 0}}});
    }
    shape.resources.push_back({"node:10.0.0.1", {InstanceShape{Quantity::whole(1), "", {}, 0}}});
    std::ranges::sort(shape.resources, {}, &ResourceShape::name);
    cluster.node_joins(node, shape);
  }
  const auto now = text();
  EXPECT_THAT(now, HasSubstr("\nmobula_resource_total{resource=\"CPU\"} 8\n"));
  // One value is the accelerator type.
  EXPECT_THAT(now, HasSubstr("\nmobula_resource_total{resource=\"other\"} 101\n"));
  EXPECT_THAT(now, Not(HasSubstr("node:")));
}

TEST_F(Metrics, NodesWithEqualFirstDigits_HaveDifferentLabels) {
  const TestAgent& same = cluster.node_joins(3, SmallCluster::shape(1, 1));
  ASSERT_EQ(same.node.hex().substr(0, 8), agent.node.hex().substr(0, 8));
  const auto booked = lines_of(text(), "mobula_gpu_booked_ratio");
  ASSERT_EQ(booked.size(), 3u);
  EXPECT_EQ(std::set<std::string>(booked.begin(), booked.end()).size(), 3u);
  EXPECT_THAT(booked[2], HasSubstr("node=\"" + same.node.hex() + "\""));
}

TEST_F(Metrics, StatesTypeOfGpuOnceAndOverShareWhileItLasts) {
  cluster.wants(home, cluster.demand_class(1, 1, {{"GPU", Quantity::from_units(5000)}}), 1);
  const auto slot = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, slot);
  EXPECT_TRUE(lines_of(text(), "mobula_gpu_over_share").empty());
  cluster.from_agent(agent, SlotShareExceeded{slot.slot, 0, true, "uses 9 GiB of 8 GiB"});
  const auto now = text();
  const auto over = lines_of(now, "mobula_gpu_over_share");
  ASSERT_EQ(over.size(), 1u);
  EXPECT_TRUE(over[0].ends_with(" 1")) << over[0];
  EXPECT_THAT(lines_of(now, "mobula_gpu_memory_bytes")[0], HasSubstr(",type=\""));
  EXPECT_THAT(over[0], Not(HasSubstr("type=")));
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
