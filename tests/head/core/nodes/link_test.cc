// Tests links between nodes that the head both reaches.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class LinkTableTest : public ::testing::Test {
 protected:
  // The driver is on node 1, which runs no work.
  LinkTableTest()
      : home(cluster.node_joins(1, {}, Role::driver_agent)),
        second(cluster.node_joins(2, SmallCluster::shape(2))),
        third(cluster.node_joins(3, SmallCluster::shape(2))) {
    cluster.driver_starts_job(home, 1);
  }
  void report(TestAgent& from, std::vector<NodeId> silent) {
    from.silent_peers = std::move(silent);
    cluster.pass(600ms);
  }
  std::vector<std::string> events(const std::string& kind) {
    std::vector<std::string> texts;
    const Json list =
        Json::parse(cluster.tool("list", "events", R"({"kind":")" + kind + R"("})").json);
    for (const auto& each : list["items"]) texts.push_back(each["text"].get<std::string>());
    return texts;
  }
  std::string warnings() { return Json::parse(cluster.tool("status").json)["warnings"].dump(); }
  DemandClass cpu(int cpus = 1) {
    return cluster.demand_class(1, cpus, {{"CPU", Quantity::whole(cpus)}});
  }
  Json explained(const std::string& argument) {
    return Json::parse(cluster.tool("explain", "", argument).json);
  }
  template <class M>
  std::vector<M> received(TestAgent& at) {
    return cluster.received<M>(at, SmallCluster::driver(1));
  }
  WatchActor unreachable(const ActorSpec& spec, ProcessId executor, NodeId node) {
    return {spec.actor, true, "executor could not be reached from node", executor, node};
  }

  SmallCluster cluster;
  TestAgent& home;
  TestAgent& second;
  TestAgent& third;
};

TEST_F(LinkTableTest, AgentReport_IsShownOncePerLink) {
  report(second, {third.node});
  ASSERT_EQ(events("LINK_LOST").size(), 1u);
  EXPECT_NE(events("LINK_LOST")[0].find(second.node.brief()), std::string::npos);
  EXPECT_NE(events("LINK_LOST")[0].find(third.node.brief()), std::string::npos);
  EXPECT_NE(warnings().find("no contact with node"), std::string::npos) << warnings();
  report(third, {second.node});
  cluster.pass(400s);
  EXPECT_EQ(events("LINK_LOST").size(), 1u) << "once per link";
  EXPECT_NE(warnings().find("no contact with node"), std::string::npos) << "state, not news";
}

TEST_F(LinkTableTest, ContactReturns_FactIsRemoved) {
  report(second, {third.node});
  report(third, {second.node});
  report(second, {});
  EXPECT_TRUE(events("LINK_RESTORED").empty()) << "the other agent still reports it";
  report(third, {});
  EXPECT_EQ(events("LINK_RESTORED").size(), 1u);
  EXPECT_EQ(warnings(), "[]");
}

TEST_F(LinkTableTest, UnreachedNode_IsNotALink) {
  third.silent = true;
  cluster.pass(4s);
  report(second, {third.node});
  EXPECT_TRUE(events("LINK_LOST").empty());
  cluster.pass(20s);
  EXPECT_TRUE(events("LINK_LOST").empty()) << "it died";
  EXPECT_EQ(warnings(), "[]");
}

TEST_F(LinkTableTest, SuspectNodeReachedAgain_WarningEnds) {
  report(second, {third.node});
  third.silent = true;
  cluster.pass(4s);
  report(second, {third.node});
  report(second, {});
  EXPECT_EQ(warnings(), "[]");
  third.silent = false;
  cluster.pass(2s);
  EXPECT_EQ(warnings(), "[]");
}

TEST_F(LinkTableTest, NodeDies_FactIsRemoved) {
  report(second, {third.node});
  ASSERT_NE(warnings(), "[]");
  third.silent = true;
  cluster.pass(20s);
  EXPECT_EQ(warnings(), "[]");
}

TEST_F(LinkTableTest, CutPair_GetsNoNewSlots) {
  report(home, {second.node});
  cluster.wants(home, cpu(), 2);
  const auto starts = cluster.take<StartSlot>(third);
  ASSERT_EQ(starts.size(), 2u);
  cluster.wants(home, cpu(), 1, {starts[0].slot, starts[1].slot});
  cluster.expect_no_start_slot(second);
  const auto json = explained(cpu().id.hex());
  EXPECT_EQ(json["feasible"], true);
  EXPECT_EQ(json["fits_now"], false);
  std::string code, reason;
  for (const auto& each : json["items"]) {
    if (each["node_id"] != second.node.hex()) continue;
    code = each["code"].get<std::string>();
    reason = each["reason"].get<std::string>();
  }
  EXPECT_EQ(code, "LinkCut");
  EXPECT_NE(reason.find(home.node.hex()), std::string::npos) << reason;
  report(home, {});
  EXPECT_EQ(cluster.take<StartSlot>(second).size(), 1u);
}

TEST_F(LinkTableTest, OnlyNodeIsCutOff_ReasonNamesLink) {
  report(home, {second.node, third.node});
  cluster.wants(home, cpu(), 1);
  cluster.expect_no_start_slot(second);
  cluster.expect_no_start_slot(third);
  const auto json = explained(cpu().id.hex());
  EXPECT_NE(json["reason"].get<std::string>().find("link between node " + home.node.hex()),
            std::string::npos)
      << json["reason"];
  EXPECT_TRUE(received<DemandInfeasible>(home).empty()) << "it can run when the link works";
}

TEST_F(LinkTableTest, CallerReport_AvoidsThePair) {
  cluster.wants(home, cpu(2), 1);
  const auto start = cluster.expect_start_slot(second);
  cluster.executor_ready(second, start);
  cluster.from_driver(home, 1,
                      ReturnSlot{start.slot, "executor 14 could not be reached", second.node});
  cluster.slot_gone(second, start.slot);
  cluster.wants(home, cpu(2), 1);
  const auto elsewhere = cluster.take<StartSlot>(third);
  ASSERT_EQ(elsewhere.size(), 1u) << "not the node that was given up";
  cluster.pass(301s);
  cluster.wants(home, cpu(2), 1, {elsewhere[0].slot});
  EXPECT_EQ(cluster.take<StartSlot>(second).size(), 1u);
}

TEST_F(LinkTableTest, ContactReturns_EndsCallerReport) {
  cluster.wants(home, cpu(2), 1);
  const auto start = cluster.expect_start_slot(second);
  cluster.executor_ready(second, start);
  cluster.from_driver(home, 1,
                      ReturnSlot{start.slot, "executor 14 could not be reached", second.node});
  report(home, {second.node});
  report(home, {});
  EXPECT_EQ(warnings(), "[]");
}

TEST_F(LinkTableTest, UnreachableActor_RestartsElsewhere) {
  ActorSpec spec = cluster.actor(1, 1);
  spec.max_restarts = 1;
  cluster.creates(home, spec);
  const auto start = cluster.actor_comes_alive(second);
  const ProcessId executor = received<ActorChanged>(home).back().endpoint.process;
  cluster.from_driver(home, 1, unreachable(spec, ProcessId::of(4711), second.node));
  EXPECT_TRUE(cluster.take<StopSlot>(second).empty()) << "another incarnation";
  cluster.from_driver(home, 1, unreachable(spec, executor, second.node));
  const auto stops = cluster.take<StopSlot>(second);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_FALSE(stops[0].graceful);
  EXPECT_EQ(events("LINK_LOST").size(), 1u);
  cluster.from_driver(home, 1, unreachable(spec, executor, second.node));
  EXPECT_TRUE(cluster.take<StopSlot>(second).empty()) << "it ends already";
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = stops[0].why;
  cluster.actor_executor_dies(second, start, cause);
  cluster.slot_gone(second, start.slot);
  cluster.actor_comes_alive(third);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
  EXPECT_EQ(cluster.state_of(spec.actor).node, third.node);
}

TEST_F(LinkTableTest, UnreachableActorDies_CauseNamesBothNodes) {
  const ActorSpec spec = cluster.actor(1, 1);
  cluster.creates(home, spec);
  const auto start = cluster.actor_comes_alive(second);
  const ProcessId executor = received<ActorChanged>(home).back().endpoint.process;
  cluster.from_driver(home, 1, unreachable(spec, executor, second.node));
  const auto stops = cluster.take<StopSlot>(second);
  ASSERT_EQ(stops.size(), 1u);
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = stops[0].why;
  cluster.actor_executor_dies(second, start, cause);
  const auto& state = cluster.state_of(spec.actor);
  EXPECT_EQ(state.state, ActorState::dead);
  EXPECT_NE(state.cause.text.find("node " + second.node.brief()), std::string::npos)
      << state.cause.text;
  EXPECT_NE(state.cause.text.find("node " + home.node.brief()), std::string::npos)
      << state.cause.text;
}

TEST_F(LinkTableTest, CallerOfAnotherJob_LosesOnlyItsHandle) {
  ActorSpec spec = cluster.actor(1, 1);
  spec.name = "service";
  spec.max_restarts = -1;
  cluster.creates(home, spec);
  cluster.actor_comes_alive(second);
  const ProcessId executor = received<ActorChanged>(home).back().endpoint.process;
  cluster.driver_starts_job(third, 2);
  cluster.from_driver(third, 2, WatchActor{spec.actor, true});
  cluster.received<ActorChanged>(third, SmallCluster::driver(2));
  cluster.from_driver(third, 2, unreachable(spec, executor, second.node));
  EXPECT_TRUE(cluster.take<StopSlot>(second).empty());
  const auto changes = cluster.received<ActorChanged>(third, SmallCluster::driver(2));
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes[0].state, ActorState::dead);
  EXPECT_NE(changes[0].cause.text.find("could not be reached from node"), std::string::npos);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::alive);
}

}  // namespace
}  // namespace mobula::internal::head
