// Tests explanations for tools: the reason for waiting, the target node, and preceding requests.
#include <nlohmann/json.hpp>

#include "head/core/labelled_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class Explaining : public LabelledCluster {
 protected:
  Json explained(const std::string& text) {
    const auto reply = cluster.tool("explain", "", text);
    EXPECT_TRUE(reply.ok) << reply.text;
    return Json::parse(reply.json);
  }
};

TEST_F(Explaining, ShowsDefaultsOfRequest) {
  EXPECT_NE(explained("{}")["asks"].get<std::string>().find("CPU 1; a task without num_cpus"),
            std::string::npos);
  EXPECT_EQ(explained(R"({"num_cpus": 2})")["asks"], "CPU 2");
  EXPECT_NE(explained(R"({"num_cpus": 0})")["asks"].get<std::string>().find("no resources at all"),
            std::string::npos);
}

TEST_F(Explaining, ExplainsRequest) {
  auto json = explained(R"({"num_gpus": 1})");
  EXPECT_EQ(json["feasible"], true);
  EXPECT_EQ(json["fits_now"], true);
  json = explained(R"({"num_gpus": 2})");
  EXPECT_EQ(json["feasible"], false);
  EXPECT_EQ(json["items"][0]["code"], "ResourceTooSmall");
  EXPECT_NE(json["reason"].get<std::string>().find("GPU"), std::string::npos);
  json = explained(R"({"accelerator_type": "H100", "num_gpus": 0.5,
      "gpu_memory": 1000, "label_selector": {"zone": "a"}})");
  EXPECT_EQ(json["fits_now"], true);
}

TEST_F(Explaining, NamesLeasesThatMustEndFirst) {
  const auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}});
  cluster.wants(agent, demand, 1);
  const auto json = explained(R"({"num_gpus": 1})");
  EXPECT_EQ(json["feasible"], true);
  EXPECT_EQ(json["reason"],
            "it fits on node " + agent.node.hex() + " when 1 of its leases has ended");
  ASSERT_EQ(json["holders"].size(), 1u);
  const auto& holder = json["holders"][0];
  EXPECT_EQ(holder["held_by"], "task");
  EXPECT_EQ(holder["name"], "square");
  EXPECT_EQ(holder["id"], demand.id.hex());
  EXPECT_EQ(holder["job_id"], demand.job.hex());
  EXPECT_EQ(holder["resources"]["GPU"], 1);
  EXPECT_EQ(holder["recalled"], false);
  EXPECT_FALSE(json.contains("node_needed"));
}

TEST_F(Explaining, NamesHolderWhenItsClassHasNoDemand) {
  const auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}});
  cluster.wants(agent, demand, 1);
  Demand none;
  none.demand_class = demand;
  none.version = 100;  // as its lessee sends it after its queue has become empty
  cluster.from_driver(agent, 1, none);
  ASSERT_TRUE(list("demands")["items"].empty());
  const auto json = explained(R"({"num_gpus": 1})");
  ASSERT_EQ(json["holders"].size(), 1u);
  EXPECT_EQ(json["holders"][0]["name"], "square");
}

TEST_F(Explaining, IncludesTotalsOfAllNodes) {
  cluster.node_joins(2, SmallCluster::shape(2, 3));
  cluster.wants(agent, cluster.demand_class(1, 1, {{"GPU", Quantity::from_units(5000)}}), 1);
  auto json = explained(R"({"num_gpus": 4})");
  EXPECT_EQ(json["all_nodes"]["GPU"],
            Json::parse(R"({"needed": 4, "available": 3.5, "total": 4})"));
  EXPECT_EQ(json["all_nodes"]["CPU"]["total"], 4);
  json = explained(R"({"resources": {"moon": 1}})");
  EXPECT_EQ(json["all_nodes"]["moon"], Json::parse(R"({"needed": 1, "available": 0, "total": 0})"));
  json = explained(R"({"bundles": [{"num_gpus": 1}, {"num_gpus": 4}]})");
  EXPECT_EQ(json["all_nodes"]["GPU"]["needed"], 5);
}

TEST_F(Explaining, ExplainsHypotheticalGroup) {
  cluster.node_joins(2, SmallCluster::shape(2, 1));
  auto json =
      explained(R"({"bundles": [{"num_gpus": 1}, {"num_gpus": 1}], "strategy": "STRICT_SPREAD"})");
  EXPECT_EQ(json["feasible"], true);
  EXPECT_EQ(json["fits_now"], true);
  EXPECT_EQ(json["reason"], "it fits now");
  EXPECT_EQ(json["resources"]["GPU"], 2);
  ASSERT_EQ(json["items"].size(), 2u);  // for two nodes; the bundles are equal
  EXPECT_EQ(json["items"][0]["alike"], 1);
  EXPECT_FALSE(json.contains("holders"));
  EXPECT_FALSE(json.contains("nodes_needed"));

  json = explained(R"({"bundles": [{"num_gpus": 1}, {"num_gpus": 1}], "strategy": "STRICT_PACK"})");
  EXPECT_EQ(json["feasible"], false);
  EXPECT_EQ(json["fits_now"], false);
  EXPECT_EQ(json["reason"],
            "no single node can ever hold all 2 bundles together, as STRICT_PACK asks");
  ASSERT_EQ(json["nodes_needed"].size(), 1u);
  EXPECT_EQ(json["nodes_needed"][0]["count"], 1);
  EXPECT_EQ(json["nodes_needed"][0]["resources"]["GPU"], 2);

  json = explained(
      R"({"bundles": [{"num_gpus": 1}, {"num_gpus": 1}, {"num_gpus": 1}, {"num_gpus": 1}], "strategy": "STRICT_SPREAD"})");
  ASSERT_EQ(json["nodes_needed"].size(), 1u);
  EXPECT_EQ(json["nodes_needed"][0]["count"], 2) << "two of the four have nodes";
  EXPECT_EQ(json["nodes_needed"][0]["resources"]["GPU"], 1);

  json = explained(R"({"bundles": [{"num_cpus": 1}, {"num_gpus": 2}]})");
  EXPECT_EQ(json["feasible"], false);
  EXPECT_EQ(json["items"].back()["bundle"], 1);
  EXPECT_EQ(json["items"].back()["code"], "ResourceTooSmall");
  EXPECT_EQ(json["items"].back()["needed"], 2);
  EXPECT_EQ(json["items"].back()["available"], 1);
  ASSERT_EQ(json["nodes_needed"].size(), 1u);
  EXPECT_EQ(json["nodes_needed"][0]["resources"]["GPU"], 2);
}

TEST_F(Explaining, RequiresLabelsOfAllPackedBundles) {
  const auto of_racks = [&](const std::string& first, const std::string& second) {
    const auto reply =
        cluster.tool("explain", "",
                     R"({"bundles": [{"num_cpus": 1, "label_selector": {"rack": ")" + first +
                         R"("}}, {"num_cpus": 1, "label_selector": {"rack": ")" + second +
                         R"(", "zone": "a"}}], "strategy": "STRICT_PACK"})");
    EXPECT_TRUE(reply.ok) << reply.text;
    return Json::parse(reply.json);
  };
  auto json = of_racks("in(1,2)", "!1");
  ASSERT_EQ(json["nodes_needed"].size(), 1u);
  EXPECT_EQ(json["nodes_needed"][0]["labels"],
            Json::parse(R"json({"rack": ["in(1,2)", "!1"], "zone": "a"})json"));
  json = of_racks("2", "2");
  EXPECT_EQ(json["nodes_needed"][0]["labels"], Json::parse(R"({"rack": "2", "zone": "a"})"));
  json = of_racks("1", "2");
  EXPECT_FALSE(json.contains("nodes_needed")) << "no node can be both";
  EXPECT_EQ(json["feasible"], false);
  EXPECT_EQ(json["reason"],
            "no node can have rack=1 and rack=2, which bundles ask for that STRICT_PACK puts on "
            "one node");
}

TEST_F(Explaining, NamesLeasesThatMustEndForGroup) {
  cluster.wants(agent, cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}}), 1);
  const auto held = list("leases")["items"];
  ASSERT_EQ(held.size(), 1u);
  cluster.node_joins(2, SmallCluster::shape(2, 1));
  const auto text = R"({"bundles": [{"num_gpus": 1}, {"num_gpus": 1}]})";
  const auto json = explained(text);
  EXPECT_EQ(json["feasible"], true);
  EXPECT_EQ(json["fits_now"], false);
  ASSERT_EQ(json["holders"].size(), 1u);
  EXPECT_EQ(json["holders"][0]["slot_id"], held[0]["slot_id"]);
  EXPECT_EQ(json["holders"][0]["held_by"], "task");
  EXPECT_NE(json["reason"].get<std::string>().find("when 1 of their leases has ended"),
            std::string::npos)
      << json["reason"];
}

TEST_F(Explaining, DescribesNodeNeededForInfeasibleRequest) {
  const auto json = explained(R"({"num_gpus": 2, "label_selector": {"zone": "b"}})");
  EXPECT_EQ(json["feasible"], false);
  EXPECT_EQ(json["node_needed"]["resources"]["GPU"], 2);
  EXPECT_EQ(json["node_needed"]["labels"]["zone"], "b");
  EXPECT_FALSE(json.contains("holders"));
}

TEST_F(Explaining, NamesStartNodeByStrategy) {
  auto& other = cluster.node_joins(2, SmallCluster::shape(4, 1));
  auto spread = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
  spread.request.strategy = SpreadStrategy{};
  cluster.wants(agent, spread, 1);
  const auto node = list("leases")["items"][0]["node_id"].get<std::string>();
  const auto free_node = node == agent.node.hex() ? other.node.hex() : agent.node.hex();
  EXPECT_EQ(explained(R"({"scheduling": "Spread"})")["would_start_on"], free_node);
  const auto on = [&](const std::string& id, bool soft) {
    return explained(R"({"num_cpus": 2, "scheduling": {"node_id": ")" + id +
                     (soft ? R"(", "soft": true}})" : R"("}})"));
  };
  EXPECT_EQ(on(other.node.hex(), false)["would_start_on"], other.node.hex());
  auto json = on(NodeId::of(99).hex(), true);
  EXPECT_EQ(json["fits_now"], true) << "a node that is not there is not insisted on";
  json = on(NodeId::of(99).hex(), false);
  EXPECT_EQ(json["feasible"], false);
  EXPECT_FALSE(json.contains("would_start_on"));
  EXPECT_FALSE(json.contains("node_needed")) << "it is that node or none";
  EXPECT_EQ(json["items"][0]["code"], "OtherNodeDemanded");
}

TEST_F(Explaining, ReportsRequestsAhead) {
  const ResourceSet gpu{{"GPU", Quantity::whole(1)}};
  cluster.wants(agent, cluster.demand_class(1, 1, gpu), 4);  // one of them is granted
  auto urgent = cluster.job_of(2);
  urgent.terms.priority = 1;
  cluster.from_driver(agent, 2, urgent);
  const auto theirs = cluster.demand_class(2, 2, gpu);
  cluster.wants(agent, theirs, 2);
  GroupSpec group;
  group.id = GroupId::of(4);
  group.job = JobId::of(1);
  group.creator = driver;
  group.bundles.resize(1);
  group.bundles[0].resources = gpu;
  cluster.from_driver(agent, 1, CreateGroup{group});
  const auto queue = [&](const std::string& text) { return explained(text)["queue"]; };
  auto json = queue(R"({"num_gpus": 1})");
  EXPECT_EQ(json["higher_priority"], 2);
  EXPECT_EQ(json["smaller_share"], 0) << "a job without slots precedes a job with slots";
  EXPECT_EQ(json["placement_groups"], 1);
  EXPECT_EQ(json["before"], 3);
  EXPECT_EQ(json["text"], "2 requests of jobs of a higher priority, 1 placement group");
  json = queue(R"({"num_gpus": 1, "job_id": ")" + JobId::of(1).hex() + R"("})");
  EXPECT_EQ(json["own_job"], 0) << "a class without slots precedes a class with a slot";
  json = queue(R"({"num_gpus": 1, "priority": -1, "job_id": ")" + JobId::of(1).hex() + R"("})");
  EXPECT_EQ(json["own_job"], 3);
  json = queue(R"({"num_gpus": 1, "priority": 1, "job_id": ")" + JobId::of(1).hex() + R"("})");
  EXPECT_EQ(json["own_job"], 0);
  EXPECT_EQ(json["higher_priority"], 2) << "a priority is within the job";
  json = queue(theirs.id.hex());
  EXPECT_EQ(json["text"], "nothing");
  json = queue(group.id.hex());
  EXPECT_EQ(json["higher_priority"], 2);
  EXPECT_EQ(json["before"], 2) << "groups come before tasks of their job's priority";
  json = queue(R"({"bundles": [{"num_gpus": 1}], "priority": -1})");
  EXPECT_EQ(json["placement_groups"], 1);
  json = queue(R"({"bundles": [{"num_gpus": 1}], "priority": 1})");
  EXPECT_EQ(json["placement_groups"], 0);
  const auto nobody = cluster.tool("explain", "", R"({"job_id": ")" + JobId::of(9).hex() + R"("})");
  EXPECT_EQ(nobody.code, ErrorCode::not_found) << nobody.text;
}

TEST_F(Explaining, RunningActor_WaitsForNothing) {
  auto spec = cluster.actor(1, 7);
  spec.demand.request.resources = {{"GPU", Quantity::whole(1)}};
  cluster.creates(agent, spec);
  auto json = explained(spec.actor.hex());
  EXPECT_EQ(json["reason"], "it starts on node " + agent.node.hex());
  const auto slot = cluster.actor_comes_alive(agent);
  json = explained(spec.actor.hex());
  EXPECT_EQ(json["reason"], "it runs on node " + agent.node.hex());
  EXPECT_FALSE(json.contains("queue"));
  EXPECT_TRUE(json["items"].empty());
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = "a broken pipe";
  cluster.actor_executor_dies(agent, slot, cause);
  json = explained(spec.actor.hex());
  EXPECT_EQ(json["reason"].get<std::string>().find("it is dead: "), 0u) << json["reason"];
  EXPECT_NE(json["reason"].get<std::string>().find("a broken pipe"), std::string::npos)
      << json["reason"];
}

TEST_F(Explaining, InfeasibleRequest_PrecedesNoRequest) {
  cluster.wants(agent, cluster.demand_class(1, 1, {{"GPU", Quantity::whole(5)}}), 4);
  const auto reply = cluster.tool("explain", "", R"({"num_gpus": 1})");
  EXPECT_EQ(Json::parse(reply.json)["queue"]["before"], 0) << reply.json;
}

TEST_F(Explaining, ExplainsFallbackSelectors) {
  auto json = explained(R"({"num_gpus": 1, "label_selector": {"zone": "z"},
      "fallback_selectors": [{"zone": "y"}, {"zone": "a"}]})");
  EXPECT_EQ(json["fits_now"], true);
  json = explained(R"({"num_gpus": 1, "label_selector": {"zone": "z"},
      "fallback_selectors": [{"zone": "y"}]})");
  EXPECT_EQ(json["feasible"], false);
  EXPECT_FALSE(cluster.tool("explain", "", R"({"fallback_selectors": {"zone": "y"}})").ok);
}

TEST_F(Explaining, RejectsUnreadableRequests) {
  for (const char* text :
       {"{", "[]", R"({"num_gpu": 1})", R"({"num_cpus": -1})", R"({"num_cpus": "1"})",
        R"({"gpu_memory": 1e300})", R"({"resources": {"TPU": 0.5}})"}) {
    const auto reply = cluster.tool("explain", "", text);
    EXPECT_FALSE(reply.ok) << text;
    EXPECT_EQ(reply.code, ErrorCode::invalid_argument) << text;
  }
}

TEST_F(Explaining, ExplainsPendingClassAndActor) {
  const auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}});
  cluster.wants(agent, demand, 2);
  auto json = explained(demand.id.hex());
  EXPECT_EQ(json["items"][0]["code"], "ResourceBusy");
  EXPECT_EQ(json["subject"]["name"], "square");
  auto spec = cluster.actor(1, 7);
  spec.demand.request.resources = {{"GPU", Quantity::whole(5)}};
  spec.demand.request.required_totals = {{"CPU", Quantity::whole(1)}};
  spec.demand.request.accelerator_type = "H100";
  cluster.creates(agent, spec);
  const Json actor = list("actors")["items"][0];
  EXPECT_EQ(actor["to_place"], Json::parse(R"({"CPU": 1})"))
      << "resources for placement, separate from those held while it runs";
  EXPECT_EQ(actor["resources"], Json::parse(R"({"GPU": 5})"));
  EXPECT_EQ(actor["accelerator_type"], "H100");
  json = explained(spec.actor.hex());
  EXPECT_EQ(json["subject"]["state"], "PENDING_CREATION");
  EXPECT_EQ(json["feasible"], false);
}

TEST_F(Explaining, AcceptsIdPrefixesOfEveryKind) {
  const auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}});
  cluster.wants(agent, demand, 2);
  EXPECT_EQ(explained(demand.id.hex().substr(0, 31))["subject"]["name"], "square");
  auto spec = cluster.actor(1, 0);
  spec.actor = ActorId(*bits_from_hex("abcd1234000000000000000000000001"));
  spec.demand.request.resources = {{"GPU", Quantity::whole(5)}};
  cluster.creates(agent, spec);
  EXPECT_EQ(explained("abcd")["subject"]["actor_id"], spec.actor.hex());
  spec.actor = ActorId(*bits_from_hex("abcd5678000000000000000000000001"));
  cluster.creates(agent, spec);
  const auto ambiguous = cluster.tool("explain", "", "abcd");
  EXPECT_EQ(ambiguous.code, ErrorCode::invalid_argument);
  EXPECT_NE(ambiguous.text.find("more than one id"), std::string::npos) << ambiguous.text;
  EXPECT_EQ(explained(spec.actor.brief())["subject"]["actor_id"], spec.actor.hex());
}

}  // namespace
}  // namespace mobula::internal::head
