// Tests messages that no correct client sends: impossible amounts, slots of others, and too many
// items. The accounting stays correct, nothing is allocated twice, and other clients are served.
#include <fmt/format.h>

#include <limits>

#include "head/core/small_cluster.h"

namespace mobula::internal::head {
namespace {

class RejectsForgedMessages : public testing::Test {
 protected:
  RejectsForgedMessages() {
    cluster.driver_starts_job(agent, 1);
    cluster.driver_starts_job(agent, 2);
  }

  void demands(const DemandClass& demand, std::int64_t slots, Duration waited = Duration(0)) {
    Demand message;
    message.demand_class = demand;
    message.version = ++version;
    message.wanted_slots = slots;
    message.waiting_tasks = slots;
    message.oldest_wait = waited;
    cluster.from_driver(agent, 1, message);
  }
  // Checks that all resources of the node can still be allocated.
  void expect_others_are_served() {
    cluster.wants(
        agent,
        cluster.demand_class(2, 9, {{"CPU", Quantity::whole(2)}, {"GPU", Quantity::whole(1)}}), 1);
    EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 1u);
    EXPECT_TRUE(cluster.core().verify().ok()) << cluster.core().verify().error().text;
  }

  static NodeShape with_memory() {
    auto shape = SmallCluster::shape(2, 1);
    shape.resources.back().instances[0].memory_bytes = std::int64_t{1} << 30;
    shape.resources.back().instances[0].context_bytes = std::int64_t{1} << 20;
    return shape;
  }

  SmallCluster cluster;
  TestAgent& agent = cluster.node_joins(1, with_memory());
  std::uint64_t version = 0;
};

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

TEST_F(RejectsForgedMessages, ImpossibleAmounts_FitNowhere) {
  int number = 0;
  for (const std::int64_t units : {least, std::int64_t{-1}, std::int64_t{15'000}, most}) {
    for (const char* name : {"CPU", "GPU", "memory", "a"}) {
      if (units == 15'000 && std::string_view(name) != "GPU") continue;
      auto demand = cluster.demand_class(1, ++number, {});
      demand.request.resources.set(name, Quantity::from_units(units));
      demands(demand, 1);
      EXPECT_TRUE(cluster.take<StartSlot>(agent).empty()) << name << " " << units;
    }
  }
  expect_others_are_served();
}

TEST_F(RejectsForgedMessages, ImpossibleGpuMemory_FitsNowhere) {
  int number = 0;
  for (const std::int64_t bytes : {least, std::int64_t{-1}, most, most - 1000}) {
    for (const std::int64_t gpus : {0, 5'000, 10'000}) {
      auto demand = cluster.demand_class(1, ++number, {});
      demand.request.resources.set("GPU", Quantity::from_units(gpus));
      demand.request.gpu_memory = bytes;
      demands(demand, 1);
      EXPECT_TRUE(cluster.take<StartSlot>(agent).empty()) << gpus << " with " << bytes;
    }
  }
  expect_others_are_served();
}

TEST_F(RejectsForgedMessages, HugeDemand_IsLimited) {
  const auto demand = cluster.demand_class(1, 1, {{"CPU", Quantity::whole(1)}});
  demands(demand, 1);
  ASSERT_EQ(cluster.take<StartSlot>(agent).size(), 1u);
  demands(demand, most);
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 1u);
  demands(demand, least);
  cluster.pass(1s);
  EXPECT_TRUE(cluster.core().verify().ok());
}

TEST_F(RejectsForgedMessages, HugeWaitingTime_IsLimited) {
  const auto demand = cluster.demand_class(1, 1, {{"GPU", Quantity::whole(1)}});
  demands(demand, 2, Duration(most));
  demands(demand, 2, Duration(least));
  EXPECT_EQ(cluster.take<StartSlot>(agent).size(), 1u);
  cluster.pass(5s);
  EXPECT_TRUE(cluster.core().verify().ok());
}

TEST_F(RejectsForgedMessages, ForeignSlots_AreUntouched) {
  cluster.wants(agent, cluster.demand_class(2, 1, {{"GPU", Quantity::whole(1)}}), 1);
  const auto started = cluster.expect_start_slot(agent);
  cluster.from_driver(agent, 1, ReturnSlot{started.slot});
  HoldSlot hold;
  hold.slot = started.slot;
  cluster.from_driver(agent, 1, hold);
  PreemptionAnswer refused;
  refused.slot = started.slot;
  cluster.from_driver(agent, 1, refused);
  EXPECT_TRUE(cluster.take<StopSlot>(agent).empty());
  ASSERT_EQ(cluster.view().slots.size(), 1u);
  EXPECT_EQ(cluster.view().slots[0].lessee, SmallCluster::driver(2));
}

TEST_F(RejectsForgedMessages, MalformedSelectors_MatchNothing) {
  int number = 0;
  for (const char* text : {"!", "in(", "in()", "a b", "!in(a,)", "\xff", "-"}) {
    auto demand = cluster.demand_class(1, ++number, {{"CPU", Quantity::whole(1)}});
    demand.request.label_selector["zone"] = text;
    demands(demand, 1);
    EXPECT_TRUE(cluster.take<StartSlot>(agent).empty()) << text;
  }
  expect_others_are_served();
}

// Returns resource names as a careless program derives them from data.
ResourceSet names(int count, const std::string& prefix = "r") {
  ResourceSet set;
  for (int i = 0; i < count; ++i) set.set(fmt::format("{}{:06}", prefix, i), Quantity::whole(1));
  return set;
}

TEST_F(RejectsForgedMessages, RequestBeyondLimits_IsRejected) {
  const auto refusals = [&] {
    return cluster.received<RequestRejected>(agent, SmallCluster::driver(1));
  };
  int number = 0;
  demands(cluster.demand_class(1, ++number, names(64)), 1);
  EXPECT_TRUE(refusals().empty());
  for (const auto& resources : {names(65), names(1, std::string(300, 'x')), names(1, "a\x1b[2J"),
                                names(1, "\xe2\x80\xae")}) {
    demands(cluster.demand_class(1, ++number, resources), 1);
    EXPECT_EQ(refusals().size(), 1u) << resources.amounts().size();
  }
  auto labels = cluster.demand_class(1, ++number, {});
  for (int i = 0; i < 65; ++i) labels.request.label_selector[fmt::format("k{}", i)] = "v";
  demands(labels, 1);
  EXPECT_EQ(refusals().size(), 1u);
  auto env = cluster.demand_class(1, ++number, {});
  env.env["LARGE"] = std::string(1u << 20, 'x');
  demands(env, 1);
  EXPECT_EQ(refusals().size(), 1u);
  CreateActor actor;
  actor.spec.actor = ActorId::of(1);
  actor.spec.job = JobId::of(1);
  actor.spec.owner = SmallCluster::driver(1);
  actor.spec.demand = cluster.demand_class(1, ++number, names(65));
  cluster.from_driver(agent, 1, actor);
  EXPECT_EQ(refusals().size(), 1u);
  CreateGroup group;
  group.spec.id = GroupId::of(1);
  group.spec.job = JobId::of(1);
  group.spec.creator = SmallCluster::driver(1);
  group.spec.bundles.emplace_back().resources = names(65);
  cluster.from_driver(agent, 1, group);
  EXPECT_EQ(refusals().size(), 1u);
  expect_others_are_served();
}

TEST_F(RejectsForgedMessages, RejectsNodeWithTooManyResources) {
  auto shape = SmallCluster::shape(2);
  for (int i = 0; i < 65; ++i) {
    shape.resources.push_back({fmt::format("r{:06}", i), {{.total = Quantity::whole(1)}}});
  }
  TestAgent& other = cluster.node_joins(2, shape);
  ASSERT_TRUE(other.refused.has_value());
  EXPECT_NE(other.refused->why.find("at most 64 resources"), std::string::npos)
      << other.refused->why;
}

class ForgedGroups : public RejectsForgedMessages {
 protected:
  GroupSpec group(std::uint64_t number, std::vector<Request> bundles) {
    GroupSpec spec;
    spec.id = GroupId::of(number);
    spec.job = JobId::of(1);
    spec.creator = SmallCluster::driver(1);
    spec.bundles = std::move(bundles);
    return spec;
  }
  std::vector<GroupChanged> creates(const GroupSpec& spec) {
    cluster.from_driver(agent, 1, CreateGroup{spec});
    return cluster.received<GroupChanged>(agent, SmallCluster::driver(1));
  }
  static Request cpus(std::int64_t units) {
    Request request;
    request.resources.set("CPU", Quantity::from_units(units));
    return request;
  }
};

TEST_F(ForgedGroups, RejectsTooManyBundles) {
  for (const std::size_t count : {std::size_t{0}, max_bundles + 1, std::size_t{10'000}}) {
    const auto received = creates(group(5, std::vector<Request>(count, cpus(10'000))));
    ASSERT_EQ(received.size(), 1u) << count;
    EXPECT_TRUE(received[0].refused) << count;
  }
  expect_others_are_served();
}

TEST_F(ForgedGroups, ImpossibleBundles_AreNeverPlaced) {
  auto priority = group(9, {cpus(most)});
  priority.priority = std::numeric_limits<std::int32_t>::min();
  auto bytes = cpus(0);
  bytes.gpu_memory = most;
  for (const auto& spec :
       {group(5, {cpus(-1)}), group(6, {cpus(10'000), cpus(least)}), group(7, {bytes}),
        group(8, std::vector<Request>(20, cpus(most))), priority}) {
    creates(spec);
    EXPECT_TRUE(cluster.tool("explain", "", spec.id.hex()).ok);
  }
  for (const auto& slot : cluster.view().slots) EXPECT_TRUE(slot.slot.empty());
  expect_others_are_served();
}

TEST_F(ForgedGroups, RemovedBeforeDurable_HoldNothing) {
  cluster.persist_at_once = false;
  cluster.from_driver(agent, 1, CreateGroup{group(5, {cpus(20'000)})});
  cluster.from_driver(agent, 1, RemoveGroup{GroupId::of(5)});
  cluster.from_driver(agent, 1, CreateGroup{group(5, {cpus(20'000)})});
  cluster.from_driver(agent, 2, RemoveGroup{GroupId::of(5)});
  cluster.persist();
  cluster.persist();
  cluster.persist_at_once = true;
  cluster.pass(1s);
  expect_others_are_served();
}

TEST_F(ForgedGroups, EmptyRequests_HoldNothing) {
  creates(group(5, {Request(), Request()}));
  expect_others_are_served();
}

}  // namespace
}  // namespace mobula::internal::head
