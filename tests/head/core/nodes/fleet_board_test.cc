// Reports of the autoscaler in the head, and long polls for changes.
#include <nlohmann/json.hpp>

#include "head/core/nodes/fleet_board.h"
#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class Fleet : public testing::Test {
 protected:
  Fleet() { cluster.driver_starts_job(agent, 1); }

  static Json report() {
    return {{"line", "1 of gpu starting (oldest 4 s)"},
            {"types",
             {{{"type", "gpu"},
               {"instances", {{"starting", 1}}},
               {"closed", ""},
               {"failures", {{"capacity", 2}}}}}},
            {"waits", Json::array()},
            {"events", Json::array()}};
  }
  ToolReply send(const Json& json) { return cluster.tool("fleet_report", "", json.dump()); }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2, 1));
};

TEST_F(Fleet, StoresReportFor60Seconds) {
  EXPECT_FALSE(cluster.tool("fleet").ok);
  EXPECT_TRUE(send(report()).ok);
  EXPECT_EQ(Json::parse(cluster.tool("fleet").json)["line"], report()["line"]);
  const auto status = Json::parse(cluster.tool("status").json);
  EXPECT_EQ(status["autoscaler"], report()["line"]);
  cluster.now = cluster.now + 61s;
  EXPECT_FALSE(cluster.tool("fleet").ok);
  EXPECT_FALSE(Json::parse(cluster.tool("status").json).contains("autoscaler"));
}

TEST_F(Fleet, RejectsReportWithoutOperatorKey) {
  EXPECT_FALSE(cluster.tool("fleet_report", "", report().dump(), Role::observer).ok);
  EXPECT_FALSE(cluster.tool("fleet_order", "", "{}", Role::driver).ok);
  EXPECT_FALSE(send(Json::array()).ok);
  send({{"types", 7}, {"waits", {1, "x", Json::object()}}, {"events", {{{"kind", 3}}}}});
  EXPECT_TRUE(cluster.tool("fleet").ok);  // malformed members are ignored
}

TEST_F(Fleet, ShowsMetricsWithReport) {
  EXPECT_EQ(cluster.tool("metrics").json.find("mobula_autoscaler"), std::string::npos);
  send(report());
  const auto text = cluster.tool("metrics").json;
  EXPECT_NE(text.find("mobula_autoscaler_instances{type=\"gpu\",state=\"starting\"} 1"),
            std::string::npos);
  EXPECT_NE(text.find("mobula_autoscaler_failures_total{type=\"gpu\",kind=\"capacity\"} 2"),
            std::string::npos);
  auto many = report();
  for (int i = 0; i < 5000; ++i) {
    many["types"].push_back({{"type", "t" + std::to_string(i)}, {"instances", {{"joined", 1}}}});
  }
  send(many);
  std::size_t lines = 0;
  const auto bounded = cluster.tool("metrics").json;
  for (std::size_t at = 0; (at = bounded.find("autoscaler_instances{", at)) != std::string::npos;
       ++at) {
    ++lines;
  }
  EXPECT_LE(lines, FleetBoard::max_types);
}

TEST_F(Fleet, NotesKnownEventsAlone) {
  auto json = report();
  json["events"] = {{{"kind", "NODE_LAUNCHED"}, {"text", "instance a"}},
                    {{"kind", "NODE_DIED"}, {"text", "forged"}}};
  send(json);
  std::string kinds;
  const auto listed = Json::parse(cluster.tool("list", "events", "{}").json);
  for (const auto& each : listed["items"]) {
    kinds += each["kind"].get<std::string>() + " ";
  }
  EXPECT_NE(kinds.find("NODE_LAUNCHED"), std::string::npos);
  EXPECT_EQ(kinds.find("NODE_DIED"), std::string::npos);
}

TEST_F(Fleet, PassesOrdersOnUntilExecuted) {
  const auto done = [&] { return Json::parse(cluster.tool("fleet").json)["orders_done"]; };
  const auto order = [&](const char* what) {
    return Json::parse(cluster.tool("fleet_order", "", what).json)["number"];
  };
  auto json = report();
  json["orders_done"] = 0;
  send(json);
  EXPECT_EQ(order(R"({"order": "pause", "type": "gpu"})"), 1);
  EXPECT_TRUE(Json::parse(cluster.tool("changes").json)["autoscaler_orders"].get<bool>());
  EXPECT_EQ(Json::parse(send(json).json)["orders"].size(), 1u);
  EXPECT_EQ(done(), 0);
  EXPECT_EQ(order(R"({"order": "resume", "type": "gpu"})"), 2);
  // The autoscaler restarts before it has executed the first order.
  EXPECT_EQ(Json::parse(send(json).json)["orders"].size(), 2u);
  json["orders_done"] = 1;
  EXPECT_EQ(Json::parse(send(json).json)["orders"][0]["number"], 2);
  EXPECT_EQ(done(), 1);
  json["orders_done"] = 2;
  EXPECT_TRUE(Json::parse(send(json).json)["orders"].empty());
  EXPECT_EQ(done(), 2);
  EXPECT_FALSE(Json::parse(cluster.tool("changes").json)["autoscaler_orders"].get<bool>());
  json["orders_done"] = 99;  // of another head
  send(json);
  EXPECT_EQ(done(), 2);
}

TEST_F(Fleet, OlderAutoscaler_GetsOrdersOnce) {
  EXPECT_FALSE(cluster.tool("fleet_order", "", R"({"order": "pause", "type": "gpu"})").ok);
  send(report());
  EXPECT_FALSE(cluster.tool("fleet_order", "", R"({"order": "pause", "type": "tpu"})").ok);
  EXPECT_FALSE(cluster.tool("fleet_order", "", R"({"order": "end", "type": "gpu"})").ok);
  EXPECT_TRUE(cluster.tool("fleet_order", "", R"({"order": "pause", "type": "gpu"})").ok);
  const auto orders = Json::parse(send(report()).json)["orders"];
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0]["order"], "pause");
  EXPECT_EQ(Json::parse(cluster.tool("fleet").json)["orders_done"], 0);
  EXPECT_TRUE(Json::parse(send(report()).json)["orders"].empty());
  EXPECT_EQ(Json::parse(cluster.tool("fleet").json)["orders_done"], 1);
}

TEST_F(Fleet, FailsRequestThatNothingServes) {
  const auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(8)}});
  cluster.wants(agent, demand, 1);
  (void)cluster.received<DemandInfeasible>(agent, SmallCluster::driver(1));
  auto json = report();
  json["waits"] = {{{"id", demand.id.hex()}, {"reason", "no node type holds it"}, {"never", true}}};
  send(json);
  const auto explained = Json::parse(cluster.tool("explain", "", demand.id.hex()).json);
  EXPECT_EQ(explained["autoscaler"], "no node type holds it");
  bool fatal = false;
  for (const auto& message : cluster.received<DemandInfeasible>(agent, SmallCluster::driver(1))) {
    fatal = fatal || (message.fatal && message.summary == "no node type holds it");
  }
  EXPECT_TRUE(fatal);
}

TEST_F(Fleet, KeepsRequestThatPresentNodeServes) {
  const auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}});
  cluster.wants(agent, demand, 2);
  auto json = report();
  json["waits"] = {{{"id", demand.id.hex()}, {"reason", "stale"}, {"never", true}}};
  send(json);
  EXPECT_TRUE((cluster.received<DemandInfeasible>(agent, SmallCluster::driver(1)).empty()));
}

TEST_F(Fleet, HoldsPollUntilChange) {
  const auto seen = [&] {
    const auto json = Json::parse(cluster.tool("changes").json);
    return std::to_string(json["epoch"].get<std::uint64_t>()) + ":" +
           std::to_string(json["number"].get<std::uint64_t>());
  };
  const auto send_query = [&](const std::string& kind) {
    ToolRequest request;
    request.request = 7;
    request.verb = "changes";
    request.kind = kind;
    request.argument = "8000";
    cluster.replies.clear();
    cluster.step(ReceivedFromTool{99, Principal{Role::operator_, "tool", {}}, request});
  };
  const auto first = seen();
  send_query(first);
  EXPECT_TRUE(cluster.replies.empty());
  cluster.node_joins(2, SmallCluster::shape(2, 1));
  EXPECT_EQ(cluster.replies.size(), 1u);
  send_query(first);
  EXPECT_EQ(cluster.replies.size(), 1u);
  send_query(seen());
  EXPECT_TRUE(cluster.replies.empty());
  cluster.now = cluster.now + 9s;
  cluster.step(Tick{});
  EXPECT_EQ(cluster.replies.size(), 1u);
}

}  // namespace
}  // namespace mobula::internal::head
