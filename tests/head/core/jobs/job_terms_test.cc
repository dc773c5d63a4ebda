// Tests priority, weight, and quota of jobs, in requests and in the head.
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class Terms : public testing::Test {
 protected:
  void starts_job(int job, const JobTerms& terms) {
    auto start = cluster.job_of(job);
    start.terms = terms;
    cluster.from_driver(home, job, start);
  }
  static JobTerms quota_of(int cpus) {
    JobTerms terms;
    terms.quota["CPU"] = Quantity::whole(cpus);
    return terms;
  }
  DemandClass cpus_of(int job, int count) {
    return cluster.demand_class(job, count, {{"CPU", Quantity::whole(count)}});
  }
  Json list(const std::string& kind) { return Json::parse(cluster.tool("list", kind).json); }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(4));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
};

TEST_F(Terms, RejectsValuesOutOfRangeByName) {
  JobTerms loud;
  loud.priority = greatest_priority + 1;
  starts_job(1, loud);
  const auto refused = cluster.received<RequestRejected>(home, SmallCluster::driver(1));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].why, "job_priority: from -1000 to 1000, and it is 1001");
  JobTerms light;
  light.weight = 0;
  starts_job(2, light);
  EXPECT_EQ(cluster.received<RequestRejected>(home, SmallCluster::driver(2)).at(0).why,
            "job_weight: from 1 to 10000, and it is 0");
  JobTerms owing;
  owing.quota["GPU"] = Quantity::whole(-1);
  starts_job(3, owing);
  EXPECT_EQ(cluster.received<RequestRejected>(home, SmallCluster::driver(3)).size(), 1u);
  EXPECT_TRUE(cluster.view().jobs.empty());
}

TEST_F(Terms, ReportsTermsWithHeldResources) {
  auto terms = quota_of(2);
  terms.priority = 7;
  starts_job(1, terms);
  cluster.wants(home, cpus_of(1, 1), 3);
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 2u);
  const Json job = list("jobs")["items"][0];
  EXPECT_EQ(job["priority"], 7);
  EXPECT_EQ(job["quota"]["CPU"], 2);
  EXPECT_EQ(job["held"]["CPU"], 2);
  EXPECT_EQ(list("demands")["items"][0]["reason"], "(Quota)");
  const Json why = Json::parse(cluster.tool("explain", "", cpus_of(1, 1).id.hex()).json);
  EXPECT_EQ(why["reason"], "(Quota) CPU: needs 1, 0 left of the job's quota of 2");
  EXPECT_EQ(why["feasible"], true);
  EXPECT_EQ(why["fits_now"], false);
}

TEST_F(Terms, BeyondQuota_FailsAtOnce) {
  starts_job(1, quota_of(2));
  cluster.wants(home, cpus_of(1, 3), 1);
  const auto news = cluster.received<DemandInfeasible>(home, SmallCluster::driver(1));
  ASSERT_EQ(news.size(), 1u);
  EXPECT_TRUE(news[0].fatal);
  EXPECT_EQ(news[0].summary,
            "this can never run: it requests CPU 3; (Quota) CPU: needs 3, 2 left of the job's "
            "quota of 2");
}

TEST_F(Terms, RejectsGroupBeyondQuota) {
  starts_job(1, quota_of(2));
  GroupSpec spec;
  spec.id = GroupId::of(5);
  spec.job = JobId::of(1);
  spec.creator = SmallCluster::driver(1);
  spec.bundles.assign(3, cpus_of(1, 1).request);
  cluster.from_driver(home, 1, CreateGroup{spec});
  const auto news = cluster.received<GroupChanged>(home, SmallCluster::driver(1));
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].state, GroupState::removed);
  EXPECT_TRUE(news[0].infeasible);
  EXPECT_EQ(news[0].why, "(Quota) CPU: needs 3, 2 left of the job's quota of 2");
  spec.id = GroupId::of(6);
  spec.bundles.pop_back();
  cluster.from_driver(home, 1, CreateGroup{spec});
  EXPECT_EQ(cluster.received<GroupChanged>(home, SmallCluster::driver(1)).at(0).state,
            GroupState::created);
}

TEST_F(Terms, HeadRestarted_TermsSurvive) {
  starts_job(1, quota_of(2));
  cluster.wants(home, cpus_of(1, 1), 2);
  const auto slots = cluster.take<StartSlot>(agent);
  ASSERT_EQ(slots.size(), 2u);
  for (const auto& start : slots) {
    SlotFact fact;
    fact.slot = start.slot;
    fact.demand_class = start.demand_class;
    fact.allocation = start.allocation;
    fact.lessee = start.lessee;
    fact.ready = true;
    fact.endpoint = cluster.executor_ready(agent, start);
    agent.facts.slots.push_back(fact);
  }
  TestAgent& other = cluster.node_joins(3, SmallCluster::shape(4));
  home.facts.processes = {
      {SmallCluster::driver(1), Principal{Role::driver, "user", JobId::of(1)}, 4711}};
  cluster.restart_head();
  cluster.register_agent(home);
  cluster.register_agent(other);
  auto start = cluster.job_of(1);
  start.terms = quota_of(2);
  cluster.from_driver(home, 1, start);
  cluster.wants(home, cpus_of(1, 1), 1);
  EXPECT_TRUE(cluster.take<StartSlot>(other).empty()) << "one node has not said what it has yet";
  cluster.register_agent(agent);
  for (const auto& each : slots) {
    cluster.from_driver(home, 1, HoldSlot{each.slot, each.demand_class.id});
  }
  cluster.wants(home, cpus_of(1, 1), 1);
  EXPECT_TRUE(cluster.take<StartSlot>(other).empty()) << "the job is at its quota";
  EXPECT_TRUE(cluster.take<StartSlot>(agent).empty());
  cluster.slot_gone(agent, slots[0].slot);
  EXPECT_EQ(cluster.take<StartSlot>(other).size() + cluster.take<StartSlot>(agent).size(), 1u);
}

}  // namespace
}  // namespace mobula::internal::head
