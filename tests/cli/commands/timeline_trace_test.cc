// The trace for Perfetto: required fields of each kind of event, and rows without overlap.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/model/task.h"
#include "cli/commands/timeline/timeline_trace.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

class TimelineTrace : public testing::Test {
 protected:
  static constexpr std::int64_t wall_us = 1'700'000'000'000'000;

  static Json process(int number, const char* role, int node) {
    return {{"process_id", ProcessId::of(static_cast<unsigned>(number)).hex()},
            {"role", role},
            {"pid", 100 + number},
            {"job_id", JobId::of(1).hex()},
            {"node_id", NodeId::of(static_cast<unsigned>(node)).hex()},
            {"host", "h"}};
  }
  // A driver with two calls that ran in an executor on another node, and a tensor that the driver
  // received.
  TimelineTrace() {
    timeline = {{"processes", {process(1, "driver", 1), process(2, "executor", 2)}}};
    ProcessSpans driver;
    driver.process = ProcessId::of(1);
    driver.spans.wall_us = wall_us;
    driver.spans.names = {"f", "g"};
    driver.spans.owned = {
        {TaskId::of(1), 0, 10ms, 9ms, 4ms, ProcessId::of(2), false, 3ms, NodeId::of(2), 102},
        {TaskId::of(2), 1, 8ms, 7ms, 1ms, ProcessId::of(2), true, 4ms, NodeId::of(2), 102}};
    TransferFact transfer;
    transfer.object = ObjectId::of(1);
    transfer.size_bytes = 4096;
    transfer.moved = 2ms;
    transfer.ago = 1ms;
    driver.spans.transfers = {transfer};
    ProcessSpans executor;
    executor.process = ProcessId::of(2);
    executor.spans.wall_us = wall_us;
    executor.spans.names = {"f", "g"};
    // Concurrent calls: an actor may run several.
    executor.spans.ran = {{TaskId::of(1), 0, 8ms, 5ms, false}, {TaskId::of(2), 1, 6ms, 2ms, true}};
    executor.spans.ran_forgotten = 7;
    spans = {driver, executor};
  }

  Json events() { return Json::parse(trace_of(timeline, spans).json)["traceEvents"]; }

  Json timeline;
  std::vector<ProcessSpans> spans;
};

TEST_F(TimelineTrace, LinksTransferredObjectToItsResult) {
  timeline["processes"].push_back({{"process_id", ProcessId::of(9).hex()},
                                   {"role", "agent"},
                                   {"pid", 0},
                                   {"job_id", nullptr},
                                   {"node_id", NodeId::of(1).hex()},
                                   {"host", "h"}});
  ProcessSpans agent;
  agent.process = ProcessId::of(9);
  agent.spans.wall_us = wall_us;
  TransferFact fact;
  fact.object = result_id(TaskId::of(1), 0);
  fact.size_bytes = 1 << 20;
  fact.holder_node = NodeId::of(2);
  fact.moved = 1ms;
  fact.ago = 2ms;  // after the result
  TransferFact early = fact;
  early.ago = 5ms;
  TransferFact stranger = fact;
  stranger.object = ObjectId::of(99);
  agent.spans.transfers = {fact, early, stranger};
  spans.push_back(agent);
  EXPECT_EQ(trace_of(timeline, spans).counts.transfers, 4u);
  std::map<std::string, std::vector<Json>> flows;
  std::vector<Json> slices;
  bool named = false;
  for (const auto& event : events()) {
    if (event.value("cat", "") == "flow" && event["name"] == "transfer")
      flows[event["id"]].push_back(event);
    if (event.value("cat", "") == "transfer" && event["args"]["from"] == NodeId::of(2).hex())
      slices.push_back(event);
    if (event["name"] == "thread_name")
      named = named || event["args"]["name"] == "agent: transfers";
  }
  EXPECT_TRUE(named) << "the row of an agent without a pid has a name";
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0]["name"], "store 1048576 bytes");
  ASSERT_EQ(flows.size(), 2u) << "the task of the third object is unknown";
  std::set<std::pair<double, double>> times;
  for (const auto& [id, ends] : flows) {
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_EQ(ends[0]["ph"], "s");
    EXPECT_EQ(ends[1]["ph"], "f");
    times.emplace(ends[0]["ts"].get<double>(), ends[1]["ts"].get<double>());
  }
  // From the submission, 10 ms before the reply, and from the result, 4 ms before it.
  EXPECT_EQ(times, (std::set<std::pair<double, double>>{{0, 4000}, {6000, 7000}}));
}

TEST_F(TimelineTrace, GivesEachEventItsRequiredFields) {
  const Json trace = Json::parse(trace_of(timeline, spans).json);
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  ASSERT_TRUE(trace["traceEvents"].is_array());
  for (const auto& event : trace["traceEvents"]) {
    const std::string phase = event.at("ph");
    ASSERT_TRUE(event.at("pid").is_number_integer()) << event;
    ASSERT_TRUE(event.at("tid").is_number_integer()) << event;
    ASSERT_TRUE(event.at("name").is_string()) << event;
    if (phase == "M") {
      ASSERT_TRUE(event.at("args").contains("name") || event.at("args").contains("sort_index"))
          << event;
      continue;
    }
    ASSERT_TRUE(event.at("ts").is_number()) << event;
    ASSERT_GE(event["ts"].get<double>(), 0) << event;
    ASSERT_TRUE(event.at("cat").is_string()) << event;
    if (phase == "X") {
      ASSERT_GE(event.at("dur").get<double>(), 0) << event;
    } else {
      ASSERT_TRUE((std::set<std::string>{"s", "t", "f", "b", "e"}.contains(phase))) << event;
      ASSERT_TRUE(event.at("id").is_string()) << event;
    }
    if (phase == "f") EXPECT_EQ(event.at("bp"), "e") << "else it binds to the next slice";
  }
}

TEST_F(TimelineTrace, LinksSubmissionRunAndResult) {
  std::map<std::string, std::map<std::string, Json>> flows;
  std::vector<Json> slices;
  const Json all = events();
  for (const auto& event : all) {
    if (event.value("cat", "") == "flow") flows[event["id"]][event["ph"]] = event;
    if (event["ph"] == "X") slices.push_back(event);
  }
  ASSERT_EQ(flows.size(), 2u);
  for (auto& [task, steps] : flows) {
    ASSERT_EQ(steps.size(), 3u) << task;
    EXPECT_LT(steps["s"]["ts"], steps["t"]["ts"]);
    EXPECT_LT(steps["t"]["ts"], steps["f"]["ts"]);
    for (const auto& [phase, step] : steps) {
      int under = 0;
      for (const auto& slice : slices) {
        const bool here =
            slice["pid"] == step["pid"] && slice["tid"] == step["tid"] &&
            slice["ts"].get<double>() <= step["ts"].get<double>() &&
            step["ts"].get<double>() <= slice["ts"].get<double>() + slice["dur"].get<double>();
        under += here && slice["args"]["task_id"] == task ? 1 : 0;
      }
      EXPECT_EQ(under, 1) << "a flow is drawn from slice to slice: " << phase;
    }
  }
}

TEST_F(TimelineTrace, ConcurrentCalls_HaveSeparateRows) {
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> rows;
  std::set<int> nodes;
  std::set<std::pair<int, int>> named;
  const Json all = events();
  for (const auto& event : all) {
    nodes.insert(event["pid"].get<int>());
    if (event["name"] == "thread_name")
      named.insert({event["pid"].get<int>(), event["tid"].get<int>()});
    if (event.value("cat", "") != "run") continue;
    const double begin = event["ts"];
    rows[{event["pid"].get<int>(), event["tid"].get<int>()}].emplace_back(
        begin, begin + event["dur"].get<double>());
  }
  EXPECT_EQ(nodes.size(), 2u);
  EXPECT_EQ(rows.size(), 2u);
  for (auto& [row, times] : rows) {
    EXPECT_TRUE(named.contains(row));
    std::sort(times.begin(), times.end());
    for (std::size_t i = 1; i < times.size(); ++i) EXPECT_LE(times[i - 1].second, times[i].first);
  }
}

TEST_F(TimelineTrace, ExecutorEnded_ShowsRunsKnownToOwner) {
  timeline["processes"].erase(1);
  spans.pop_back();
  const Json all = events();
  std::vector<Json> ran;
  std::set<std::string> flows;
  for (const auto& event : all) {
    if (event.value("cat", "") == "run") ran.push_back(event);
    if (event.value("cat", "") == "flow") flows.insert(event["ph"].get<std::string>());
  }
  ASSERT_EQ(ran.size(), 2u);
  EXPECT_EQ(ran[0]["pid"], ran[1]["pid"]);
  EXPECT_NE(ran[0]["pid"], 1) << "another node";
  EXPECT_EQ(ran[0]["dur"].get<double>() + ran[1]["dur"].get<double>(), 7000) << "us";
  EXPECT_EQ(flows.size(), 3u);
}

TEST_F(TimelineTrace, CountsContentsAndForgottenEvents) {
  const auto counts = trace_of(timeline, spans).counts;
  EXPECT_EQ(counts.ran, 2u);
  EXPECT_EQ(counts.submitted, 2u);
  EXPECT_EQ(counts.transfers, 1u);
  EXPECT_EQ(counts.forgotten, 7u);
  EXPECT_EQ(Json::parse(trace_of({}, {}).json)["traceEvents"].size(), 0u)
      << "nothing is a trace, too";
}

TEST_F(TimelineTrace, UsesWallClockTimes) {
  const std::string before = trace_of(timeline, spans).json;
  spans[1].spans.wall_us += 5000;  // it replied 5 ms later
  for (auto& span : spans[1].spans.ran) {
    span.began += 5ms;
    span.ended += 5ms;
  }
  EXPECT_EQ(trace_of(timeline, spans).json, before);
}

}  // namespace
}  // namespace mobula::internal::cli
