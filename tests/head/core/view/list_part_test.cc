// Parts of lists, for readers that show few rows.
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t GiB = std::int64_t{1} << 30;

class ListParts : public testing::Test {
 protected:
  ListParts() { cluster.driver_starts_job(home, 1); }

  Json part(const std::string& kind, int limit, const std::string& find = "") {
    const auto reply =
        cluster.tool("list_part", kind, Json{{"limit", limit}, {"find", find}}.dump());
    EXPECT_TRUE(reply.ok) << reply.text;
    return reply.ok ? Json::parse(reply.json) : Json::object();
  }
  void wants(int number, ResourceSet resources, int slots) {
    cluster.wants(home, cluster.demand_class(1, number, std::move(resources)), slots);
  }
  static ResourceSet gpus(std::int64_t units) {
    ResourceSet set;
    set.set("GPU", Quantity::from_units(units));
    return set;
  }
  void creates_group(std::uint64_t number, const std::vector<ResourceSet>& bundles,
                     const std::string& name) {
    GroupSpec spec;
    spec.id = GroupId::of(number);
    spec.job = JobId::of(1);
    spec.creator = SmallCluster::driver(1);
    spec.name = name;
    for (const auto& each : bundles) spec.bundles.emplace_back().resources = each;
    cluster.from_driver(home, 1, CreateGroup{spec});
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(8, 2));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
};

TEST_F(ListParts, GpusHaveSharesAndLargestHolders) {
  wants(1, gpus(1000), 4);
  wants(2, gpus(5000), 1);
  creates_group(5, {gpus(10'000)}, "ring");
  const Json map = part("gpus", 10);
  EXPECT_EQ(map["total"], 1);
  EXPECT_EQ(map["gpus"], 2);
  ASSERT_EQ(map["items"].size(), 1u);
  const Json& node = map["items"][0];
  EXPECT_EQ(node["node_id"], agent.node.hex());
  ASSERT_EQ(node["devices"].size(), 2u);
  const bool first_is_shared = node["devices"][0]["holder_count"] == 5;
  const Json& shared = node["devices"][first_is_shared ? 0 : 1];
  EXPECT_EQ(shared["booked"], 0.9);
  EXPECT_EQ(shared["reserved"], 0);
  EXPECT_EQ(shared["holder_count"], 5);
  ASSERT_EQ(shared["holders"].size(), 3u);
  EXPECT_EQ(shared["holders"][0]["amount"], 0.5);
  EXPECT_EQ(shared["holders"][0]["state"], "STARTING");
  EXPECT_EQ(shared["holders"][1]["amount"], 0.1);
  EXPECT_EQ(shared["memory_bytes"], 80 * GiB);
  const Json& reserved = node["devices"][first_is_shared ? 1 : 0];
  EXPECT_EQ(reserved["reserved"], 1);
  EXPECT_EQ(reserved["booked"], 0);
  ASSERT_EQ(reserved["holders"].size(), 1u);
  EXPECT_EQ(reserved["holders"][0]["name"], "ring");
  EXPECT_EQ(reserved["holders"][0]["bundle"], 0);
  EXPECT_FALSE(shared.contains("over_share"));
  EXPECT_FALSE(shared.contains("used_bytes")) << "no sample yet";
}

TEST_F(ListParts, GpusHaveSamplesAndReports) {
  wants(1, gpus(5000), 1);
  const auto slot = cluster.expect_start_slot(agent);
  cluster.executor_ready(agent, slot);
  (void)part("gpus", 10);  // begins the sampling
  cluster.pass(1s);
  ASSERT_EQ(cluster.take<UsageRequest>(agent).size(), 1u);
  UsageReply usage;
  usage.devices = {{1, 77, 40}};
  cluster.from_agent(agent, usage);
  cluster.from_agent(agent, SlotShareExceeded{slot.slot, 0, true, "uses 9 GiB of 8 GiB"});
  const Json devices = part("gpus", 10)["items"][0]["devices"];
  EXPECT_EQ(devices[1]["used_bytes"], 77);
  EXPECT_EQ(devices[1]["busy_percent"], 40);
  EXPECT_FALSE(devices[0].contains("used_bytes"));
  const Json& held = devices[devices[0]["holder_count"] == 1 ? 0 : 1];
  EXPECT_EQ(held["over_share"], "uses 9 GiB of 8 GiB");
  EXPECT_EQ(held["holders"][0]["state"], "OVER SHARE");
}

TEST_F(ListParts, GpusOfNodesThatMatch) {
  for (int i = 3; i < 8; ++i) cluster.node_joins(i, SmallCluster::shape(1, 1));
  cluster.node_joins(8, SmallCluster::shape(4));  // without GPUs
  EXPECT_EQ(part("gpus", 2)["items"].size(), 2u);
  EXPECT_EQ(part("gpus", 2)["matching"], 6);
  const std::string id = cluster.agent(5).node.hex();
  const Json one = part("gpus", 10, id);
  ASSERT_EQ(one["items"].size(), 1u);
  EXPECT_EQ(one["items"][0]["node_id"], id);
  EXPECT_EQ(one["gpus"], 7) << "of all nodes";
  EXPECT_EQ(part("gpus", 10, "alive")["matching"], 6) << "the state, in any case";
}

// Rows that the map of one node visits while `others` slots run on another node.
std::uint64_t walked_by_map(int others) {
  SmallCluster cluster;
  TestAgent& home = cluster.node_joins(1, {}, Role::driver_agent);
  cluster.driver_starts_job(home, 1);
  cluster.node_joins(2, SmallCluster::shape(1, 1));
  TestAgent& other = cluster.node_joins(3, SmallCluster::shape(others));
  ResourceSet cpu;
  cpu.set("CPU", Quantity::whole(1));
  cluster.wants(home, cluster.demand_class(1, 1, cpu), others);
  EXPECT_GE(cluster.take<StartSlot>(other).size() + 1, static_cast<std::size_t>(others));
  const std::string argument = Json{{"limit", 1}, {"find", cluster.agent(2).node.hex()}}.dump();
  const std::uint64_t before = cluster.rows_walked;
  EXPECT_TRUE(cluster.tool("list_part", "gpus", argument).ok);
  return cluster.rows_walked - before;
}

TEST_F(ListParts, MapVisitsNoSlotsOfOtherNodes) { EXPECT_EQ(walked_by_map(15), walked_by_map(3)); }

TEST_F(ListParts, NodesHaveLoadAndSums) {
  const Json none = part("nodes", 10);
  EXPECT_EQ(none["use"]["nodes"], 0);
  EXPECT_TRUE(none["items"][0]["use"].is_null());
  cluster.pass(1s);
  ASSERT_EQ(cluster.take<UsageRequest>(agent).size(), 1u);
  UsageReply usage;
  usage.cpus = 8;
  usage.memory_used_bytes = 3 * GiB;
  usage.memory_bytes = 4 * GiB;
  usage.devices = {{0, GiB}, {1, GiB}};
  cluster.from_agent(agent, usage);
  const Json nodes = part("nodes", 10);
  EXPECT_EQ(nodes["use"]["cpus"], 8);
  EXPECT_EQ(nodes["use"]["gpu_used_bytes"], 2 * GiB);
  EXPECT_TRUE(nodes["use"]["busy_cpus"].is_null()) << "one sample is no rate";
  EXPECT_EQ(nodes["items"][0]["use"]["memory_used_bytes"], 3 * GiB);
}

TEST_F(ListParts, NodesHaveResourcesOfTheirOwn) {
  cluster.node_joins(3, SmallCluster::shape(3));
  cluster.node_joins(4, SmallCluster::shape(4));
  ResourceSet cpus;
  cpus.set("CPU", Quantity::whole(4));
  cluster.wants(home, cluster.demand_class(1, 1, cpus), 1);
  const Json list = part("nodes", 10);
  std::map<std::string, Json> nodes;
  for (const Json& node : list["items"]) nodes[node["node_id"]] = node["resources"];
  EXPECT_EQ(nodes.at(cluster.agent(3).node.hex())["CPU"]["total"], 3);
  const Json& four = nodes.at(cluster.agent(4).node.hex())["CPU"];
  const Json& eight = nodes.at(agent.node.hex())["CPU"];
  EXPECT_EQ(four["total"], 4);
  EXPECT_EQ(eight["total"], 8);
  EXPECT_EQ(four["available"].get<int>() + eight["available"].get<int>(), 8) << "one lease";
}

TEST_F(ListParts, JobsFailedFirstThenLatest) {
  for (int job = 2; job < 6; ++job) cluster.driver_starts_job(home, job);
  ASSERT_TRUE(cluster.tool("job_stop", "", JobId::of(3).hex()).ok);
  const Json jobs = part("jobs", 3);
  EXPECT_EQ(jobs["total"], 5);
  ASSERT_EQ(jobs["items"].size(), 3u);
  EXPECT_EQ(jobs["items"][0]["job_id"], JobId::of(3).hex());
  EXPECT_EQ(jobs["items"][0]["state"], "STOPPED");
  EXPECT_EQ(jobs["items"][0]["submitted"], false);
  EXPECT_EQ(part("jobs", 3, "stopped")["matching"], 1);
  EXPECT_EQ(part("jobs", 3, JobId::of(4).hex())["items"][0]["job_id"], JobId::of(4).hex());
}

TEST_F(ListParts, SubmittedJobsWithoutCommand) {
  Json job = {{"job_id", JobId::of(9).hex()}, {"argv", {"program", std::string(100'000, 'x')}}};
  ASSERT_TRUE(cluster.tool("submit", "", job.dump()).ok);
  const std::string text = cluster.tool("list_part", "jobs", R"({"limit":10})").json;
  EXPECT_LT(text.size(), 5'000u);
  const Json row = part("jobs", 10, "submitted")["items"][0];
  EXPECT_EQ(row["job_id"], JobId::of(9).hex());
  EXPECT_EQ(row["submitted"], true);
  EXPECT_FALSE(row.contains("argv"));
}

TEST_F(ListParts, GroupsWithNumbersOfBundles) {
  ResourceSet cpu;
  cpu.set("CPU", Quantity::whole(1));
  ResourceSet never;
  never.set("CPU", Quantity::whole(99));
  creates_group(5, {cpu, cpu, cpu}, "placed");
  creates_group(6, {never}, "never");
  const Json groups = part("placement-groups", 1);
  EXPECT_EQ(groups["total"], 2);
  ASSERT_EQ(groups["items"].size(), 1u);
  EXPECT_EQ(groups["items"][0]["name"], "never") << "infeasible ones first";
  const Json placed = part("placement-groups", 10, "PLACED")["items"][0];
  EXPECT_EQ(placed["bundle_count"], 3);
  EXPECT_EQ(placed["placed_bundles"], 3);
  EXPECT_EQ(placed["each"]["CPU"], 1);
  EXPECT_FALSE(placed.contains("bundles"));
}

TEST_F(ListParts, StatusHasFirstShapesOfWaitingRequests) {
  for (int i = 0; i < 5; ++i) {
    ResourceSet set;
    set.set("CPU", Quantity::from_units(10'000 * (20 + i)));
    wants(10 + i, set, 2 + i);
  }
  ResourceSet large;
  large.set("CPU", Quantity::whole(8));
  wants(1, large, 40);
  const Json status = part("status", 2);
  EXPECT_EQ(status["kind"], "Status");
  EXPECT_EQ(status["cluster_name"], Json::parse(cluster.tool("status").json)["cluster_name"]);
  EXPECT_FALSE(status.contains("pending"));
  EXPECT_EQ(status["waiting_total"]["shapes"], 6);
  EXPECT_EQ(status["waiting_total"]["infeasible"], 2 + 3 + 4 + 5 + 6);
  EXPECT_EQ(status["waiting_total"]["requests"], 20 + 40);
  EXPECT_EQ(status["waiting_matching"], 6);
  ASSERT_EQ(status["waiting"].size(), 2u);
  EXPECT_EQ(status["waiting"][0]["count"], 6) << "infeasible ones first, then the most requests";
  EXPECT_EQ(status["waiting"][1]["count"], 5);
  EXPECT_EQ(part("status", 9, "cpu 8")["waiting_matching"], 1);
}

TEST_F(ListParts, StatusHasNoMarksOfNodes) {
  NodeShape shape = SmallCluster::shape(1);
  shape.resources.push_back({"node:10.0.0.1", {InstanceShape{Quantity::whole(1), "", {}, 0}}});
  cluster.node_joins(3, shape);
  const Json resources = part("status", 1)["resources"];
  EXPECT_EQ(resources["CPU"]["total"], 9);
  EXPECT_FALSE(resources.contains("node:10.0.0.1"));
}

TEST_F(ListParts, RejectsOtherKindsAndLimits) {
  EXPECT_EQ(cluster.tool("list_part", "leases", R"({"limit":1})").code, ErrorCode::not_found);
  EXPECT_EQ(cluster.tool("list_part", "gpus", R"({"limit":0})").code, ErrorCode::invalid_argument);
  EXPECT_EQ(cluster.tool("list_part", "gpus", R"({"limit":1001})").code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(cluster.tool("list_part", "gpus", "{}").code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace mobula::internal::head
