// Tests creation, durability, names, users, and ends of placement groups.
#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

class HeadGroups : public testing::Test {
 protected:
  explicit HeadGroups(const HeadOptions& options = {}) : cluster(options) {
    cluster.driver_starts_job(home, 1);
  }

  static GroupSpec group(std::uint64_t number, int bundles, int cpus = 1) {
    GroupSpec spec;
    spec.id = GroupId::of(number);
    spec.job = JobId::of(1);
    spec.creator = SmallCluster::driver(1);
    Request bundle;
    bundle.resources.set("CPU", Quantity::whole(cpus));
    spec.bundles.assign(static_cast<std::size_t>(bundles), bundle);
    return spec;
  }
  void creates(const GroupSpec& spec) { cluster.from_driver(home, 1, CreateGroup{spec}); }
  std::vector<GroupChanged> news(ProcessId process = SmallCluster::driver(1)) {
    return cluster.received<GroupChanged>(home, process);
  }
  void wants_in(GroupId id, int slots) {
    const auto number = static_cast<int>(id.bits().low);
    DemandClass demand = cluster.demand_class(1, number, {{"CPU", Quantity::whole(1)}});
    demand.request.placement.group = id;
    cluster.wants(home, demand, slots);
  }
  std::size_t rows() const {
    std::size_t count = 0;
    for (const auto& [key, value] : cluster.journal()) count += key.first == "groups" ? 1 : 0;
    return count;
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, SmallCluster::shape(2));
  TestAgent& home = cluster.node_joins(2, {}, Role::driver_agent);
};

TEST_F(HeadGroups, CreatesWhenDurable) {
  cluster.persist_at_once = false;
  creates(group(5, 2));
  EXPECT_TRUE(news().empty());
  wants_in(GroupId::of(5), 1);
  EXPECT_TRUE(cluster.take<StartSlot>(agent).empty()) << "not before it is durable";
  cluster.persist();
  const auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, GroupState::created);
  const auto started = cluster.take<StartSlot>(agent);
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0].allocation.group, GroupId::of(5));
  EXPECT_EQ(started[0].allocation.bundle, 0);
}

TEST_F(HeadGroups, PersistFailed_RetriesCreation) {
  cluster.persist_at_once = false;
  creates(group(5, 2));
  cluster.fail_to_persist("the disk is full");
  EXPECT_TRUE(news().empty());
  cluster.persist_at_once = true;
  cluster.pass(2s);
  const auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, GroupState::created);
  EXPECT_EQ(rows(), 1u);
}

TEST_F(HeadGroups, Removal_EndsUsersAndFreesBundlesWhenDurable) {
  creates(group(5, 2));
  wants_in(GroupId::of(5), 1);
  const auto started = cluster.take<StartSlot>(agent);
  ASSERT_EQ(started.size(), 1u);
  news();
  cluster.persist_at_once = false;
  cluster.from_driver(home, 1, RemoveGroup{GroupId::of(5)});
  const auto lost = cluster.received<SlotLost>(home, SmallCluster::driver(1));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].cause.kind, EndKind::group_removed);
  EXPECT_EQ(cluster.take<StopSlot>(agent).size(), 1u);
  EXPECT_TRUE(news().empty()) << "a head that crashes now would have it still";
  creates(group(6, 1));
  cluster.persist_at_once = true;
  cluster.persist();
  auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, GroupState::removed);
  cluster.slot_gone(agent, started[0].slot);
  received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].group, GroupId::of(6));
  EXPECT_EQ(received[0].state, GroupState::created);
  wants_in(GroupId::of(5), 2);
  const auto refused = cluster.received<DemandInfeasible>(home, SmallCluster::driver(1));
  ASSERT_FALSE(refused.empty());
  EXPECT_TRUE(refused.back().group_removed);
}

TEST_F(HeadGroups, PlacesHigherPriorityFirst) {
  creates(group(5, 2));
  news();
  auto low = group(6, 2);
  creates(low);
  auto high = group(7, 2);
  high.priority = 1;
  creates(high);
  cluster.from_driver(home, 1, RemoveGroup{GroupId::of(5)});
  const auto received = news();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[1].group, GroupId::of(7));
  EXPECT_EQ(received[1].state, GroupState::created);
  const auto listed = nlohmann::json::parse(cluster.tool("list", "placement-groups").json)["items"];
  EXPECT_EQ(listed[2]["priority"], 1);
}

TEST_F(HeadGroups, RejectsPriorityOutOfRange) {
  auto forged = group(5, 1);
  forged.priority = 1001;
  creates(forged);
  const auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(received[0].refused);
  EXPECT_EQ(received[0].why, "priority: from -1000 to 1000, and it is 1001");
}

// A head that remembers one removed group, has forgotten group 5, and tracks at most two unknown
// groups.
class ForgottenGroups : public HeadGroups {
 protected:
  static HeadOptions forgetful() {
    HeadOptions options;
    options.max_ended_kept = 1;
    options.max_groups = 2;
    return options;
  }
  ForgottenGroups() : HeadGroups(forgetful()) {
    for (const std::uint64_t number : {5, 4}) {
      creates(group(number, 1));
      cluster.from_driver(home, 1, RemoveGroup{GroupId::of(number)});
    }
    news();
  }
  std::vector<DemandInfeasible> refusals() {
    return cluster.received<DemandInfeasible>(home, SmallCluster::driver(1));
  }
};

TEST_F(ForgottenGroups, RequestInUnknownGroup_Fails) {
  wants_in(GroupId::of(5), 1);
  auto inside = cluster.actor(1, 7);
  inside.demand.request.placement.group = GroupId::of(5);
  cluster.creates(home, inside);
  EXPECT_TRUE(refusals().empty()) << "it might be about to be created";
  cluster.pass(11s);
  const auto refused = refusals();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_TRUE(refused[0].group_removed);
  EXPECT_TRUE(refused[0].fatal);
  EXPECT_NE(refused[0].summary.find("never created, or removed long ago"), std::string::npos);
  EXPECT_EQ(cluster.state_of(inside.actor).state, ActorState::dead);
  EXPECT_EQ(cluster.state_of(inside.actor).cause.kind, EndKind::group_removed);
}

TEST_F(ForgottenGroups, RequestBeforeCreation_WaitsForGroup) {
  wants_in(GroupId::of(6), 1);
  cluster.pass(5s);
  creates(group(6, 1));
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 1u);
  cluster.pass(20s);
  EXPECT_TRUE(refusals().empty());
}

TEST_F(ForgottenGroups, RestartedHead_WaitsForPossibleCreators) {
  home.facts.processes = {
      {SmallCluster::driver(1), Principal{Role::driver, "driver1", JobId::of(1)}, 0}};
  home.facts.jobs = {JobId::of(1)};
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  cluster.from_driver(home, 1, cluster.job_of(1));
  wants_in(GroupId::of(5), 1);
  EXPECT_TRUE(refusals().empty());
  cluster.pass(60s);
  ASSERT_EQ(refusals().size(), 1u);
}

TEST_F(ForgottenGroups, TooManyUnknownGroups_RejectsAtOnce) {
  wants_in(GroupId::of(7), 1);
  wants_in(GroupId::of(8), 1);
  EXPECT_TRUE(refusals().empty());
  wants_in(GroupId::of(9), 1);
  const auto refused = refusals();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].demand_class, ClassId::of(9));
  cluster.pass(11s);
  EXPECT_EQ(refusals().size(), 2u);
  wants_in(GroupId::of(9), 1);
  EXPECT_TRUE(refusals().empty())
      << "the wait of the earlier groups has ended, so this one may wait";
}

TEST_F(HeadGroups, PendingGroup_NamesNodesReservedForIt) {
  cluster.wants(home, cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}}), 2);
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 2u);
  creates(group(5, 2));
  cluster.pass(3s);
  EXPECT_EQ(cluster.received<RecallSlot>(home, SmallCluster::driver(1)).size(), 2u);
  const auto reply = cluster.tool("explain", "", GroupId::of(5).hex());
  ASSERT_TRUE(reply.ok) << reply.text;
  EXPECT_EQ(
      nlohmann::json::parse(reply.json)["reason"],
      "capacity is reserved for it on node " + agent.node.hex() + ", until 2 slots there return");
}

TEST_F(HeadGroups, ExplainsPendingGroup) {
  creates(group(5, 2));
  creates(group(6, 1));
  const auto explained = [&](std::uint64_t number) {
    const auto reply = cluster.tool("explain", "", GroupId::of(number).hex());
    EXPECT_TRUE(reply.ok) << reply.text;
    return nlohmann::json::parse(reply.json);
  };
  const auto waits = explained(6);
  EXPECT_EQ(waits["subject"]["placement_group_id"], GroupId::of(6).hex());
  EXPECT_EQ(waits["reason"],
            "it fits on node " + agent.node.hex() + " when 1 of its leases has ended");
  EXPECT_EQ(waits["fits_now"], false);
  ASSERT_EQ(waits["holders"].size(), 1u);
  EXPECT_EQ(waits["holders"][0]["held_by"], "placement group");
  EXPECT_EQ(waits["holders"][0]["id"], GroupId::of(5).hex());
  EXPECT_EQ(waits["items"][0]["code"], "ResourceBusy");
  EXPECT_EQ(waits["items"][0]["node_id"], agent.node.hex());
  EXPECT_EQ(explained(5)["reason"], "all bundles are placed");
}

TEST_F(HeadGroups, ReservesNameUntilRemoval) {
  auto named = group(5, 1);
  named.name = "pair";
  creates(named);
  auto second = group(6, 1);
  second.name = "pair";
  news();
  creates(second);
  auto received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(received[0].refused);
  cluster.from_driver(home, 1, WatchGroup{GroupId::of(6)});
  received = news();
  ASSERT_EQ(received.size(), 1u) << "a later watcher receives the same refusal";
  EXPECT_TRUE(received[0].refused);
  EXPECT_NE(received[0].why.find("'pair'"), std::string::npos) << received[0].why;
  // This removal must not free the name of the other group.
  cluster.from_driver(home, 1, RemoveGroup{GroupId::of(6)});
  auto third = second;
  third.id = GroupId::of(8);
  creates(third);
  received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_TRUE(received[0].refused);
  cluster.from_driver(home, 1, RemoveGroup{GroupId::of(5)});
  news();
  second.id = GroupId::of(7);
  creates(second);
  received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, GroupState::created);
}

TEST_F(HeadGroups, InfeasibleGroup_WaitsAndReportsIt) {
  creates(group(5, 1, 4));
  auto received = news();
  ASSERT_EQ(received.size(), 1u);
  const GroupChanged first = received[0];
  EXPECT_TRUE(first.infeasible);
  EXPECT_EQ(first.missing, "CPU");
  EXPECT_EQ(first.state, GroupState::pending);
  cluster.node_joins(3, SmallCluster::shape(4));
  received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, GroupState::created);
}

TEST_F(HeadGroups, ExplainsTaskByPendingGroup) {
  creates(group(5, 1, 64));
  DemandClass inside = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
  inside.request.placement.group = GroupId::of(5);
  cluster.wants(home, inside, 1);
  const auto why = nlohmann::json::parse(cluster.tool("explain", "", inside.id.hex()).json);
  EXPECT_EQ(why["feasible"], false) << why;
  EXPECT_EQ(why["reason"],
            "its placement group waits: no node can ever hold bundle 0 (CPU 64); node 00000001: "
            "CPU: needs 64, the "
            "node has 2 in all");
}

TEST_F(HeadGroups, HeadRestarted_KeepsGroupsAndTheirSlots) {
  creates(group(5, 2));
  news();
  home.facts.processes = {
      {SmallCluster::driver(1), Principal{Role::driver, "driver1", JobId::of(1)}, 0}};
  home.facts.jobs = {JobId::of(1)};
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  cluster.from_driver(home, 1, cluster.job_of(1));
  creates(group(5, 2));
  const auto received = news();
  ASSERT_FALSE(received.empty());
  EXPECT_EQ(received.back().state, GroupState::created);
  EXPECT_GT(received.back().version, 0u)
      << "a process that has heard nothing from this head takes it";
  wants_in(GroupId::of(5), 1);
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 1u);
}

TEST_F(HeadGroups, HeadRestarted_PendingGroupStaysPending) {
  creates(group(5, 1, 4));
  news();
  ASSERT_EQ(rows(), 1u);
  home.facts.processes = {
      {SmallCluster::driver(1), Principal{Role::driver, "driver1", JobId::of(1)}, 0}};
  cluster.restart_head();
  cluster.register_agent(agent);
  cluster.register_agent(home);
  cluster.from_driver(home, 1, cluster.job_of(1));
  creates(group(5, 1, 4));
  auto received = news();
  ASSERT_FALSE(received.empty());
  for (const auto& each : received) EXPECT_EQ(each.state, GroupState::pending);
  cluster.node_joins(3, SmallCluster::shape(4));
  received = news();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, GroupState::created);
}

TEST_F(HeadGroups, JobEnded_GroupsEndUnlessDetached) {
  auto kept = group(6, 1);
  kept.detached = true;
  creates(group(5, 1));
  creates(kept);
  EXPECT_EQ(rows(), 2u);
  cluster.from_driver(home, 1, EndJob{JobId::of(1)});
  EXPECT_EQ(rows(), 1u);
  EXPECT_EQ(cluster.view().groups, 1u);
}

TEST_F(HeadGroups, NotifiesWatchersOfMissingGroups) {
  const auto watcher = ProcessId::of(77);
  cluster.from_process(home, watcher, Role::driver, 1, WatchGroup{GroupId::of(5)});
  cluster.from_process(home, watcher, Role::driver, 1, WatchGroup{GroupId::of(9)});
  creates(group(5, 1));
  auto received = news(watcher);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].state, GroupState::created);
  cluster.pass(11s);
  received = news(watcher);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].group, GroupId::of(9));
  EXPECT_EQ(received[0].state, GroupState::removed);
}

TEST_F(HeadGroups, RejectsInvalidGroups) {
  creates(group(5, 0));
  creates(group(6, 1001));
  const auto received = news();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_TRUE(received[0].refused);
  EXPECT_NE(received[1].why.find("1 to 1000 bundles"), std::string::npos);
  EXPECT_EQ(rows(), 0u);
}

}  // namespace
}  // namespace mobula::internal::head
