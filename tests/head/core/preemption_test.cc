// Tests preemption in the head: requests, texts, and refusals.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

using Json = nlohmann::json;

class Preemption : public testing::Test {
 protected:
  explicit Preemption(std::optional<Duration> after = 1s) {
    HeadOptions options;
    options.preempt_delay = after;
    cluster.emplace(options);
    agent = &cluster->node_joins(1, SmallCluster::shape(1));
    home = &cluster->node_joins(2, {}, Role::driver_agent);
  }
  DemandClass cpu(int job) { return cluster->demand_class(job, 1, {{"CPU", Quantity::whole(1)}}); }
  // A job of priority 0 holds the only CPU of the node, and a job of priority 1 requests it.
  StartSlot fill_and_want() {
    cluster->driver_starts_job(*home, 1);
    cluster->wants(*home, cpu(1), 1);
    const auto start = cluster->expect_start_slot(*agent);
    cluster->executor_ready(*agent, start);
    auto second = cluster->job_of(2);
    second.terms.priority = 1;
    cluster->from_driver(*home, 2, second);
    cluster->wants(*home, cpu(2), 1);
    return start;
  }
  // Returns the number of preemptions that job 1 has received since the last call.
  std::size_t preemptions_received() {
    std::size_t count = 0;
    for (const auto& each : cluster->received<RecallSlot>(*home, SmallCluster::driver(1))) {
      count += each.running == RunningTask::ends ? 1 : 0;
    }
    return count;
  }
  Json status() { return Json::parse(cluster->tool("status").json); }

  std::optional<SmallCluster> cluster;
  TestAgent* agent = nullptr;
  TestAgent* home = nullptr;
};

class NoPreemption : public Preemption {
 protected:
  NoPreemption() : Preemption(std::nullopt) {}
};

TEST_F(NoPreemption, PolicyOff_SendsNoQuery) {
  fill_and_want();
  cluster->pass(60s);
  EXPECT_EQ(preemptions_received(), 0u);
  EXPECT_EQ(status()["preemption"]["policy"], "off");
}

TEST_F(Preemption, QueriesLesseeAndShowsIt) {
  const auto start = fill_and_want();
  cluster->pass(900ms);
  EXPECT_EQ(preemptions_received(), 0u);
  cluster->pass(1s);
  EXPECT_EQ(preemptions_received(), 1u);
  const Json lease = Json::parse(cluster->tool("get", "lease", start.slot.hex()).json);
  EXPECT_EQ(lease["state"], "PREEMPTING");
  EXPECT_EQ(status()["preemption"]["policy"], "lower-priority");
  EXPECT_EQ(status()["preemption"]["asked"], 1);
  ASSERT_EQ(cluster->log.size(), 1u);
  EXPECT_NE(cluster->log[0].find(start.slot.hex()), std::string::npos);
  EXPECT_NE(cluster->log[0].find("(priority 1)"), std::string::npos);
  cluster->from_driver(*home, 1, ReturnSlot{start.slot});
  cluster->slot_gone(*agent, start.slot);
  EXPECT_EQ(cluster->expect_start_slot(*agent).demand_class.job, JobId::of(2));
}

TEST_F(Preemption, RejectionShown_SlotSparedForBackoff) {
  const auto start = fill_and_want();
  cluster->pass(2s);
  EXPECT_EQ(preemptions_received(), 1u);
  cluster->from_driver(*home, 1, PreemptionAnswer{start.slot, false, "train"});
  const Json lease = Json::parse(cluster->tool("get", "lease", start.slot.hex()).json);
  EXPECT_EQ(lease["state"], "RECALLED");
  EXPECT_EQ(status()["preemption"]["refused"], 1);
  ASSERT_EQ(cluster->log.size(), 2u);
  EXPECT_NE(cluster->log[1].find("train"), std::string::npos);
  cluster->pass(8s);
  EXPECT_EQ(preemptions_received(), 0u);
  cluster->pass(5s);
  EXPECT_EQ(preemptions_received(), 1u);
}

// Two slots must end for one request. Their lessee is queried about both before either is
// terminated.
TEST_F(Preemption, QueriesLesseeBeforeEndingSeveral) {
  fill_and_want();
  cluster->wants(*home, cpu(2), 0);
  auto& large = cluster->node_joins(3, SmallCluster::shape(2));
  auto third = cluster->job_of(3);
  cluster->from_driver(*home, 3, third);
  auto pinned = cluster->demand_class(3, 1, {{"CPU", Quantity::whole(1)}});
  pinned.request.strategy = NodeAffinityStrategy{large.node, false};
  std::vector<StartSlot> starts;
  for (int i = 1; i <= 2; ++i) {
    cluster->wants(*home, pinned, i);
    starts.push_back(cluster->expect_start_slot(large));
    cluster->executor_ready(large, starts.back());
  }
  auto both = cluster->demand_class(2, 2, {{"CPU", Quantity::whole(2)}});
  cluster->wants(*home, both, 1);
  std::map<RunningTask, int> received;
  for (int i = 0; i < 50 && received[RunningTask::is_queried] == 0; ++i) {
    cluster->pass(100ms);
    for (const auto& each : cluster->received<RecallSlot>(*home, SmallCluster::driver(3)))
      ++received[each.running];
  }
  EXPECT_EQ(received[RunningTask::is_queried], 2);
  EXPECT_EQ(received[RunningTask::ends], 0);
  for (const auto& start : starts)
    cluster->from_driver(*home, 3, PreemptionAnswer{start.slot, true, "train"});
  const auto reply = cluster->received<RecallSlot>(*home, SmallCluster::driver(3));
  EXPECT_EQ(std::ranges::count(reply, RunningTask::ends, &RecallSlot::running), 2);
}

TEST_F(Preemption, IgnoresRejectionFromAnotherLessee) {
  const auto start = fill_and_want();
  cluster->pass(2s);
  cluster->from_driver(*home, 2, PreemptionAnswer{start.slot, false, "train"});
  EXPECT_EQ(status()["preemption"]["refused"], 0);
}

}  // namespace
}  // namespace mobula::internal::head
