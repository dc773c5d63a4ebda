// Progress of Tune experiments in the head, as their drivers report it.
#include <nlohmann/json.hpp>

#include "head/core/jobs/experiment_board.h"
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class Experiments : public testing::Test {
 protected:
  Experiments() { cluster.driver_starts_job(agent, 1); }

  static Json report(const std::string& name) {
    return {{"name", name},
            {"state", "RUNNING"},
            {"metric", "loss"},
            {"mode", "min"},
            {"samples", 20},
            {"counts", {{"running", 2}, {"terminated", 5}}},
            {"best", {{"trial", 3}, {"value", 0.25}, {"config", "lr=0.1"}}},
            {"curve", {{0, 0.5}, {3, 0.25}}},
            {"points", {{0, 0.5}, {1, 0.7}, {3, 0.25}}},
            {"trials", {{{"trial", 3}, {"state", "TERMINATED"}, {"value", 0.25}}}}};
  }
  ReadStateReply send(const std::string& text) {
    cluster.from_driver(agent, 1, ReadState{++requests, "experiment_report", text});
    const auto replies = cluster.received<ReadStateReply>(agent, SmallCluster::driver(1));
    return replies.empty() ? ReadStateReply{} : replies.back();
  }
  Json list() { return Json::parse(cluster.tool("list", "experiments").json)["items"]; }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2, 1));
  std::uint64_t requests = 0;
};

TEST_F(Experiments, ListsLatestReportWithoutTrials) {
  EXPECT_FALSE(Json::parse(cluster.tool("status").json).contains("experiments"));
  send(report("first").dump());
  send(report("second").dump());
  auto changed = report("first");
  changed["counts"]["terminated"] = 6;
  EXPECT_TRUE(send(changed.dump()).error.empty());
  const Json items = list();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0]["name"], "first");
  EXPECT_EQ(items[0]["counts"]["terminated"], 6);
  EXPECT_EQ(items[0]["state"], "RUNNING");
  EXPECT_EQ(items[0]["best"]["config"], "lr=0.1");
  EXPECT_FALSE(items[0].contains("trials"));
  EXPECT_EQ(Json::parse(cluster.tool("status").json)["experiments"], 2);
}

TEST_F(Experiments, ReturnsTrialsOfOne) {
  send(report("first").dump());
  const Json one = Json::parse(cluster.tool("get", "experiments", "first").json);
  EXPECT_EQ(one["trials"][0]["value"], 0.25);
  EXPECT_EQ(one["points"].size(), 3u);
  EXPECT_EQ(cluster.tool("get", "experiments", "third").code, ErrorCode::not_found);
}

TEST_F(Experiments, DriverSilent_ExperimentInterrupted) {
  send(report("first").dump());
  auto ended = report("second");
  ended["state"] = "FINISHED";
  send(ended.dump());
  cluster.now = cluster.now + ExperimentBoard::silence_limit;
  const Json items = list();
  EXPECT_EQ(items[0]["state"], "FINISHED");
  EXPECT_EQ(items[1]["state"], "INTERRUPTED");
}

TEST_F(Experiments, RejectsMalformedReports) {
  for (const char* text : {"", "[]", "{}", "{\"name\":7}", "{\"name\":\"\"}", "{\"name\":\"a"})
    EXPECT_FALSE(send(text).error.empty()) << text;
  EXPECT_FALSE(send(std::string(ExperimentBoard::max_report_bytes + 1, '[')).error.empty());
  EXPECT_FALSE(send(std::string(ExperimentBoard::max_report_bytes, '[')).error.empty());
  EXPECT_TRUE(list().empty());
}

TEST_F(Experiments, IgnoresMalformedMembers) {
  send(R"({"name": "a", "state": 3, "metric": {}, "counts": [], "best": 7, "curve": [1, [2]],
           "points": {"x": 1}, "trials": [5, {"trial": "x"}, {"trial": 1, "config": []}]})");
  const Json one = Json::parse(cluster.tool("get", "experiments", "a").json);
  EXPECT_EQ(one["state"], "RUNNING");
  EXPECT_FALSE(one.contains("metric"));
  EXPECT_TRUE(one["curve"].empty());
  ASSERT_EQ(one["trials"].size(), 1u);
  EXPECT_FALSE(one["trials"][0].contains("config"));
}

TEST_F(Experiments, DropsOldestAboveLimit) {
  for (std::size_t i = 0; i < ExperimentBoard::max_experiments + 5; ++i)
    send(report("e" + std::to_string(i)).dump());
  const Json items = list();
  EXPECT_EQ(items.size(), ExperimentBoard::max_experiments);
  EXPECT_EQ(items[0]["name"], "e54");
}

}  // namespace
}  // namespace mobula::internal::head
