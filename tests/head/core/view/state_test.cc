// Tests state queries of tools and processes, and the orders of tools.
#include <nlohmann/json.hpp>

#include "head/core/labelled_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

using State = LabelledCluster;

TEST_F(State, ListsNodesWithTotalsAndAvailable) {
  cluster.wants(agent, cluster.demand_class(1, 1, {{"CPU", Quantity::from_units(5000)}}), 1);
  const Json json = list("nodes");
  EXPECT_EQ(json["apiVersion"], "mobula/v1");
  EXPECT_EQ(json["kind"], "NodeList");
  EXPECT_TRUE(json["warnings"].empty());
  ASSERT_EQ(json["items"].size(), 1u);
  const Json& node = json["items"][0];
  EXPECT_EQ(node["node_id"], agent.node.hex());
  EXPECT_EQ(node["state"], "ALIVE");
  EXPECT_EQ(node["address"], agent.address);
  EXPECT_EQ(node["resources"]["CPU"]["total"], 2);
  EXPECT_EQ(node["resources"]["CPU"]["available"], 1.5);
  EXPECT_EQ(node["labels"]["zone"], "a");
}

TEST_F(State, ReportsIsolationOfDeviceHolders) {
  auto shape = SmallCluster::shape(4, 2);
  auto& devices = shape.resources.back().instances;
  devices[0].isolation.prevents = Prevents::mig;
  devices[0].visible_id = "MIG-1";
  cluster.node_joins(2, shape);
  const Json node = list("nodes")["items"][1];
  EXPECT_EQ(
      node["devices"]["GPU"][0]["isolation"],
      Json::parse(R"({"prevents": "MIG", "detects": "none", "reacts": "none", "summary": "MIG"})"));
  EXPECT_EQ(node["devices"]["GPU"][1]["isolation"]["summary"], "promise only");
  EXPECT_EQ(node["isolation"], "promise only; MIG");
  const Json gpus = Json::parse(cluster.tool("status").json)["gpus"];
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0]["prevents"], "nothing");
  EXPECT_EQ(gpus[0]["devices"], 2) << "of both nodes";
  EXPECT_EQ(gpus[0]["memory_bytes"], 2 * (80LL << 30));
  EXPECT_EQ(gpus[1]["summary"], "MIG");

  cluster.wants(agent, cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}}), 3);
  std::map<std::string, Json> leases;
  const Json listed = list("leases");
  for (const Json& lease : listed["items"]) leases[lease["isolation"]] = lease["devices"];
  ASSERT_EQ(leases.size(), 2u);
  const Json& slice = leases["MIG"]["GPU"][0];
  EXPECT_EQ(slice["id"], "MIG-1");
  EXPECT_EQ(slice["amount"], 1);
  EXPECT_EQ(slice["memory_bytes"], 80LL << 30);
  EXPECT_EQ(slice["isolation"]["prevents"], "MIG");
  EXPECT_EQ(leases["promise only"]["GPU"][0]["isolation"]["prevents"], "nothing");
}

TEST_F(State, PartOfSlice_IsAdvisory) {
  auto shape = SmallCluster::shape(4, 1);
  shape.resources.back().instances[0].isolation.prevents = Prevents::mig;
  cluster.node_joins(2, shape);
  cluster.wants(agent, cluster.demand_class(1, 1, {{"GPU", Quantity::from_units(2500)}}), 8);
  const Json leases = list("leases")["items"];
  ASSERT_EQ(leases.size(), 8u) << "both devices are full";
  for (const Json& lease : leases) {
    EXPECT_EQ(lease["isolation"], "promise only");
    EXPECT_EQ(lease["devices"]["GPU"][0]["memory_bytes"], 20LL << 30);
  }
}

TEST_F(State, ListsJobsLeasesExecutorsAndDemandClasses) {
  cluster.wants(agent, cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}}), 2);
  const auto start = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, start);
  EXPECT_EQ(list("jobs")["items"][0]["state"], "RUNNING");
  const Json lease = list("leases")["items"][0];
  EXPECT_EQ(lease["slot_id"], start.slot.hex());
  EXPECT_EQ(lease["instances"]["GPU"], Json::array({0}));
  EXPECT_EQ(list("executors")["items"].size(), 1u);
  const Json demands = list("demands");
  EXPECT_EQ(demands["kind"], "DemandList");
  EXPECT_EQ(demands["items"][0]["name"], "square");
}

TEST_F(State, ReportsLanguagesOfRunningJobs) {
  StartJob start = cluster.job_of(2);
  start.language = "python 3.12 cp312";
  cluster.from_driver(agent, 2, start);
  const Json languages = Json::parse(cluster.tool("status").json)["languages"];
  EXPECT_EQ(languages["c++"], 1);
  EXPECT_EQ(languages["python 3.12 cp312"], 1);
  EXPECT_EQ(list("jobs")["items"][0]["language"], "c++");
  EXPECT_EQ(list("jobs")["items"][1]["language"], "python 3.12 cp312");
}

TEST_F(State, FindsOneByIdOrPrefix) {
  const auto reply = cluster.tool("get", "node", agent.node.hex());
  ASSERT_TRUE(reply.ok) << reply.text;
  const Json json = Json::parse(reply.json);
  EXPECT_EQ(json["kind"], "Node");
  EXPECT_EQ(json["node_id"], agent.node.hex());
  EXPECT_TRUE(cluster.tool("get", "nodes", agent.node.hex().substr(0, 6)).ok);
  EXPECT_FALSE(cluster.tool("get", "nodes", agent.node.hex().substr(24)).ok) << "its last digits";
  const auto none = cluster.tool("get", "nodes", "ffff");
  EXPECT_FALSE(none.ok);
  EXPECT_EQ(none.code, ErrorCode::not_found);
  EXPECT_NE(none.text.find("`mobula list nodes`"), std::string::npos) << none.text;
}

TEST_F(State, ReportsHttpAddress) {
  HeadOptions options;
  options.http_url = "http://127.0.0.1:1";
  options.settings.cluster_name = "test";
  SmallCluster other(options);
  const Json json = Json::parse(other.tool("status").json);
  EXPECT_EQ(json["http"]["url"], "http://127.0.0.1:1");
  EXPECT_EQ(json["cluster_name"], "test");
  EXPECT_EQ(json["state"], "RUNNING");
}

TEST_F(State, SummarizesPendingWorkWithReasons) {
  const ResourceSet one{{"GPU", Quantity::whole(1)}};
  cluster.wants(agent, cluster.demand_class(1, 1, one), 3);
  cluster.driver_starts_job(agent, 2);
  cluster.wants(agent, cluster.demand_class(2, 2, one), 2);
  cluster.wants(agent, cluster.demand_class(1, 3, {{"GPU", Quantity::whole(5)}}), 1);
  auto spec = cluster.actor(1, 7);
  spec.demand.request.resources = one;
  cluster.creates(agent, spec);
  GroupSpec group;
  group.id = GroupId::of(4);
  group.job = JobId::of(1);
  group.creator = driver;
  group.bundles.resize(2);
  for (auto& bundle : group.bundles) bundle.resources = one;
  cluster.from_driver(agent, 1, CreateGroup{group});
  const Json waiting = Json::parse(cluster.tool("status").json)["waiting"];
  const auto row = [&](const std::string& kind, const std::string& requested) {
    for (const Json& each : waiting) {
      if (each["kind"] == kind && each["asks"] == requested) return each;
    }
    return Json();
  };
  const Json tasks = row("tasks", "GPU 1");
  ASSERT_TRUE(tasks.is_object()) << waiting;
  EXPECT_EQ(tasks["count"], 5) << "as their lessees have stated it";
  EXPECT_EQ(tasks["jobs"], 2);
  EXPECT_EQ(tasks["reason"], "(Resources)");
  EXPECT_EQ(tasks["text"], "1 node: GPU: needs 1 whole, free 0");
  const Json large = row("tasks", "GPU 5");
  ASSERT_TRUE(large.is_object()) << waiting;
  EXPECT_EQ(large["reason"], "(Infeasible)");
  EXPECT_EQ(large["text"], "1 node: GPU: needs 5, the node has 1 in all");
  EXPECT_EQ(row("actors", "GPU 1")["count"], 1) << waiting;
  const Json groups = row("placement groups", "PACK 2 x {GPU 1}");
  ASSERT_TRUE(groups.is_object()) << waiting;
  EXPECT_EQ(groups["reason"], "(Infeasible)");
  EXPECT_NE(groups["text"].get<std::string>().find("cannot hold all 2 bundles"), std::string::npos)
      << groups;
}

TEST_F(State, MarksInfeasibleDemandsLikeStatus) {
  auto poor = cluster.job_of(2);
  poor.terms.quota["CPU"] = Quantity::whole(1);
  cluster.from_driver(agent, 2, poor);
  cluster.wants(agent, cluster.demand_class(1, 1, {{"GPU", Quantity::whole(2)}}), 1);
  cluster.wants(agent, cluster.demand_class(1, 2, {{"CPU", Quantity::whole(2)}}), 2);
  cluster.wants(agent, cluster.demand_class(2, 3, {{"CPU", Quantity::whole(2)}}), 1);
  std::map<std::string, std::string> reasons;
  const Json listed = list("demands");
  for (const Json& each : listed["items"]) reasons[each["class_id"]] = each["reason"];
  EXPECT_EQ(reasons.at(ClassId::of(1).hex()), "(Infeasible)");
  EXPECT_EQ(reasons.at(ClassId::of(2).hex()), "(Resources)");
  EXPECT_EQ(reasons.at(ClassId::of(3).hex()), "(Infeasible)") << "more than the quota of its job";
  const Json status = Json::parse(cluster.tool("status").json);
  for (const Json& each : status["waiting"])
    EXPECT_EQ(reasons.at(each["id"]), each["reason"]) << each;
  EXPECT_EQ(status["waiting"].size(), 3u);
}

TEST_F(State, AllowsProcessesToReadNodesAndNames) {
  auto spec = cluster.actor(1, 7);
  spec.name = "mine";
  cluster.creates(agent, spec);
  auto theirs = cluster.actor(1, 8);
  theirs.name = "theirs";
  theirs.name_space = "elsewhere";
  cluster.creates(agent, theirs);
  cluster.from_driver(agent, 1, ReadState{5, "named_actors", ""});
  cluster.from_driver(agent, 1, ReadState{6, "nodes", ""});
  cluster.from_driver(agent, 1, ReadState{7, "dragons", ""});
  const auto reads = cluster.received<ReadStateReply>(agent, driver);
  ASSERT_EQ(reads.size(), 3u);
  const Json names = Json::parse(reads[0].json);
  ASSERT_EQ(names["items"].size(), 1u);
  EXPECT_EQ(names["items"][0]["name"], "mine");
  EXPECT_EQ(Json::parse(reads[1].json)["items"].size(), 1u);
  EXPECT_EQ(reads[1].request, 6u);
  EXPECT_FALSE(reads[2].error.empty());
}

TEST_F(State, AllowsOnlyOperatorsToOrder) {
  EXPECT_TRUE(cluster.tool("list", "nodes", "", Role::observer).ok);
  auto reply = cluster.tool("drain", "", agent.node.hex(), Role::observer);
  EXPECT_EQ(reply.code, ErrorCode::permission_denied);
  EXPECT_NE(reply.text.find("with no MOBULA_TOKEN"), std::string::npos) << reply.text;
  reply = cluster.tool("list", "nodes", "", Role::unproven);
  EXPECT_EQ(reply.code, ErrorCode::permission_denied);
}

TEST_F(State, ExplainsPurposeOfJoinToken) {
  ToolRequest request;
  request.verb = "status";
  cluster.step(
      ReceivedFromTool{1, Principal{Role::unproven, "ticket:0123456789abcdef", {}}, request});
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_EQ(cluster.replies[0].code, ErrorCode::permission_denied);
  EXPECT_EQ(cluster.replies[0].text.find("unproven"), std::string::npos) << cluster.replies[0].text;
  EXPECT_NE(cluster.replies[0].text.find("ticket 0123456789abcdef"), std::string::npos)
      << cluster.replies[0].text;
  EXPECT_NE(cluster.replies[0].text.find("`mobula start --join`"), std::string::npos)
      << cluster.replies[0].text;
}

TEST_F(State, NamesBothVersionsToOtherVersionTool) {
  ToolRequest request;
  request.version = request.oldest = 99;
  request.verb = "status";
  cluster.step(ReceivedFromTool{1, Principal{Role::operator_, "tool", {}}, request});
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_NE(cluster.replies[0].text.find("99"), std::string::npos);
}

// On a full disk small writes still succeed. The warning stays until a write of the failed size
// succeeds.
TEST_F(State, JournalWriteFailed_WarnsUntilWritten) {
  const auto warned = [&] {
    return cluster.tool("status").json.find("the journal cannot be written") != std::string::npos;
  };
  EXPECT_FALSE(warned());
  cluster.persist_at_once = false;
  const Json large = {{"job_id", JobId::of(77).hex()},
                      {"argv", {"/bin/true"}},
                      {"env", {{"X", std::string(20'000, 'x')}}}};
  cluster.tool("submit", "", large.dump());
  cluster.fail_to_persist("the disk is full");
  ASSERT_FALSE(cluster.replies.empty());
  EXPECT_FALSE(cluster.replies.back().ok);
  EXPECT_EQ(cluster.replies.back().code, ErrorCode::resource_exhausted) << "a retry cannot succeed";
  EXPECT_NE(cluster.replies.back().text.find("the disk is full"), std::string::npos);
  EXPECT_TRUE(warned());
  // Small writes succeed in every round, and writes of the failed size fail. The test row fails
  // alone, so no other request is rejected.
  const auto tried = [&] { return cluster.journal().count({"room", "tried"}) != 0; };
  for (int round = 0; round < 3; ++round) {
    cluster.persist_at_once = true;
    cluster.tool("job_stop", "", JobId::of(1).hex());
    EXPECT_TRUE(warned());
    cluster.persist_at_once = false;
    cluster.pass(2s);
    cluster.fail_to_persist("the disk is full");
    EXPECT_TRUE(warned());
    EXPECT_FALSE(tried());
  }
  // After space is free, the next test detects it and leaves no row behind.
  cluster.persist_at_once = true;
  cluster.pass(2s);
  EXPECT_FALSE(warned());
  EXPECT_FALSE(tried());
}

TEST_F(State, RepliesToJobStopWhenDurable) {
  cluster.persist_at_once = false;
  cluster.tool("job_stop", "", JobId::of(1).hex());
  EXPECT_TRUE(cluster.replies.empty());
  cluster.persist();
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_TRUE(cluster.replies[0].ok);
  EXPECT_EQ(list("jobs")["items"][0]["state"], "STOPPED");
  EXPECT_EQ(cluster.tool("job_stop", "", JobId::of(9).hex()).code, ErrorCode::not_found);
}

TEST_F(State, Stop_EndsDetachedActors) {
  auto spec = cluster.actor(1, 7);
  spec.detached = true;
  cluster.creates(agent, spec);
  cluster.actor_comes_alive(agent);
  EXPECT_TRUE(cluster.tool("stop").ok);
  EXPECT_EQ(cluster.state_of(spec.actor).state, ActorState::dead);
  EXPECT_EQ(cluster.journal().count({"actors", spec.actor.hex()}), 0u);
}

TEST_F(State, RecordsEventsAndCommands) {
  const Event event =
      ReceivedFromAgent{3, Principal{Role::agent, "key", {}}, AgentStopped{ProcessId::of(1)}};
  const auto decoded = decode<Event>(encode(event));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, event);
  const Command command = Persist{4, {{"jobs", "a", {}, true}}};
  const auto again = decode<Command>(encode(command));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, command);
}

TEST_F(State, ListsObjectsOfAgentsAndReportsMissingReply) {
  auto& other = cluster.node_joins(2, SmallCluster::shape(1));
  const auto query = [&] {
    ToolRequest request;
    request.request = 9;
    request.verb = "list";
    request.kind = "objects";
    cluster.step(ReceivedFromTool{77, Principal{Role::observer, "tool", {}}, request});
  };
  query();
  EXPECT_TRUE(cluster.replies.empty());
  const auto here = cluster.take<ObjectsRequest>(agent);
  const auto there = cluster.take<ObjectsRequest>(other);
  ASSERT_EQ(here.size(), 1u);
  ASSERT_EQ(there.size(), 1u);
  ObjectFact object;
  object.object = ObjectId::of(0xab);
  object.job = JobId::of(1);
  object.size_bytes = 1234;
  object.sealed = true;
  object.processes = 2;
  cluster.from_agent(agent, ObjectsReply{here[0].request, {object}, 0});
  EXPECT_TRUE(cluster.replies.empty());
  cluster.from_agent(other, ObjectsReply{there[0].request, {}, 3});
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_EQ(cluster.replies[0].request, 9u);
  const std::string json = cluster.replies[0].json;
  EXPECT_NE(json.find(object.object.hex()), std::string::npos) << json;
  EXPECT_NE(json.find("\"size_bytes\":1234"), std::string::npos) << json;
  EXPECT_NE(json.find("3 objects are left out"), std::string::npos) << json;

  cluster.replies.clear();
  query();
  cluster.from_agent(agent,
                     ObjectsReply{cluster.take<ObjectsRequest>(agent).at(0).request, {object}, 0});
  cluster.pass(3s);
  ASSERT_EQ(cluster.replies.size(), 1u);
  EXPECT_NE(cluster.replies[0].json.find("has not replied in time"), std::string::npos);

  cluster.replies.clear();
  query();
  cluster.from_agent(agent, ObjectsReply{cluster.take<ObjectsRequest>(agent).at(0).request, {}, 0});
  cluster.raw(other, AgentStopped{other.incarnation});
  ASSERT_EQ(cluster.replies.size(), 1u) << "a node that has left is not waited for";
}

TEST_F(State, ListsMemoryByStoreAndHolderLargestFirst) {
  ToolRequest request;
  request.request = 9;
  request.verb = "list";
  request.kind = "memory";
  cluster.step(ReceivedFromTool{77, Principal{Role::observer, "tool", {}}, request});
  const auto query = cluster.take<ObjectsRequest>(agent);
  ASSERT_EQ(query.size(), 1u);
  EXPECT_TRUE(query[0].largest_first);
  ObjectFact small;
  small.object = ObjectId::of(11);  // differs from the number of the node
  small.size_bytes = 10;
  small.sealed = true;
  ObjectFact large = small;
  large.object = ObjectId::of(0xab2);
  large.size_bytes = 1000;
  large.spilled = true;
  large.processes = 1;
  large.holders = {{ProcessId::of(4), Role::driver, 4711, true}};
  ObjectsReply listed;
  listed.request = query[0].request;
  listed.objects = {small, large};
  listed.store.capacity_bytes = 5000;
  listed.store.spilled_bytes = 1000;
  cluster.from_agent(agent, listed);
  ASSERT_EQ(cluster.replies.size(), 1u);
  const std::string json = cluster.replies[0].json;
  EXPECT_NE(json.find("\"capacity_bytes\":5000"), std::string::npos) << json;
  EXPECT_NE(json.find("\"pid\":4711"), std::string::npos) << json;
  EXPECT_NE(json.find("\"readers\":1"), std::string::npos) << json;
  EXPECT_LT(json.find(large.object.hex()), json.find(small.object.hex())) << json;
  EXPECT_NE(json.find("SPILLED"), std::string::npos) << json;
}

}  // namespace
}  // namespace mobula::internal::head
