// Random histories against a recount that shares no code with the ledgers: nothing is
// over-committed, no device is split, best fit is best, no slot is on a forbidden node, and recalls
// are sufficient and minimal.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "sanitizers.h"
#include "scheduler/shapes.h"

namespace mobula::internal::scheduler {
namespace {

struct World {
  explicit World(std::uint64_t seed, const SchedulerSettings& settings = {})
      : random(seed), bench(settings) {}

  Random random;
  Bench bench;
  std::map<NodeId, NodeShape> shapes;
  std::map<NodeId, NodeState> states;
  std::map<SlotId, Slot> live;
  std::set<SlotId> lent, resumed;
  std::map<std::pair<ProcessId, ClassId>, std::int64_t> wanted;
};

NodeShape random_shape(Random& random) {
  std::vector<Gpu> devices;
  const auto context = random.chance(500) ? std::int64_t{512} << 20 : 0;
  for (auto left = random.below(5); left > 0; --left) {
    devices.push_back({1, std::int64_t{16} << 30, {random.chance(500) ? "A100" : "H100"}, context});
  }
  return node_shape(static_cast<double>(random.between(1, 8)), devices);
}

Request random_request(Random& random) {
  auto made = cpus(static_cast<double>(random.below(5)) / 2);
  switch (random.below(6)) {
    case 0: made.resources.set("GPU", amount(static_cast<double>(random.between(1, 3)))); break;
    case 1: made.resources.set("GPU", Quantity::from_units(random.between(1, 9999))); break;
    case 2: made.gpu_memory = random.between(1, std::int64_t{16} << 30); break;
    case 3:
      made.resources.set("GPU", amount(0.25));
      made.gpu_memory = random.between(1, std::int64_t{8} << 30);
      made.accelerator_type = "H100";
      break;
    default: break;
  }
  if (random.chance(150)) made.strategy = SpreadStrategy();
  if (random.chance(150)) {
    made.strategy = NodeAffinityStrategy{NodeId::of(1 + random.below(6)), true};
  }
  return made;
}

// Use of every device of every node, counted from live slots alone.
std::map<std::pair<NodeId, std::uint32_t>, std::pair<std::int64_t, std::int64_t>> devices_held(
    const World& world) {
  std::map<std::pair<NodeId, std::uint32_t>, std::pair<std::int64_t, std::int64_t>> held;
  for (const auto& [id, slot] : world.live) {
    const auto* devices = slot.allocation.find("GPU");
    if (devices == nullptr) continue;
    for (const auto& share : devices->shares) {
      auto& [units, bytes] = held[{slot.node, share.index}];
      units += share.amount.units();
      bytes += share.memory_bytes;
    }
  }
  return held;
}

void expect_never_overcommitted(const World& world) {
  for (const auto& [key, sums] : devices_held(world)) {
    const auto& instance = world.shapes.at(key.first).find("GPU")->instances.at(key.second);
    EXPECT_LE(sums.first, instance.total.units());
    EXPECT_LE(sums.second, instance.memory_bytes);
  }
  std::map<NodeId, std::int64_t> cpu, overdrawn;
  for (const auto& [id, slot] : world.live) {
    const auto* share = slot.allocation.find("CPU");
    if (share == nullptr || world.lent.contains(id)) continue;
    cpu[slot.node] += share->shares.front().amount.units();
    if (world.resumed.contains(id)) overdrawn[slot.node] += share->shares.front().amount.units();
  }
  for (const auto& [node, units] : cpu) {
    EXPECT_LE(units - overdrawn[node], world.shapes.at(node).total("CPU").units());
  }
}

// `slot` is already live. A fraction is on the matching device with the least remainder.
void expect_best_fit(const World& world, const Slot& slot, const Request& request) {
  const auto* devices = slot.allocation.find("GPU");
  if (devices == nullptr) return;
  const auto held = devices_held(world);
  const auto& instances = world.shapes.at(slot.node).find("GPU")->instances;
  const auto& share = devices->shares.front();
  const auto free_units = [&](std::uint32_t index) {
    const auto at = held.find({slot.node, index});
    return instances.at(index).total.units() - (at == held.end() ? 0 : at->second.first);
  };
  const auto free_bytes = [&](std::uint32_t index) {
    const auto at = held.find({slot.node, index});
    return instances.at(index).memory_bytes - (at == held.end() ? 0 : at->second.second);
  };
  for (const auto& each : devices->shares) {
    if (request.accelerator_type.empty()) break;
    EXPECT_EQ(instances.at(each.index).types.front(), request.accelerator_type);
  }
  if (share.amount >= Quantity::whole(1)) return;
  for (std::uint32_t other = 0; other < instances.size(); ++other) {
    if (other == share.index) continue;
    if (!request.accelerator_type.empty() &&
        instances.at(other).types.front() != request.accelerator_type) {
      continue;
    }
    const auto rest = free_units(other) - share.amount.units();
    if (rest < 0 || free_bytes(other) < share.memory_bytes) continue;
    EXPECT_GE(rest, free_units(share.index)) << "device " << other << " would leave less";
  }
}

void change_something(World& world, std::map<ClassId, Request>& requests) {
  auto& random = world.random;
  auto& scheduler = world.bench.scheduler;
  const auto some_slot = [&] {
    auto at = world.live.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random.below(world.live.size())));
    return at->first;
  };
  switch (random.below(world.live.empty() ? 3 : 7)) {
    case 0: {
      const auto node = NodeId::of(1 + random.below(6));
      const auto state = static_cast<NodeState>(random.below(2));
      if (!world.shapes.contains(node)) {
        world.shapes[node] = random_shape(random);
        scheduler.add_node(node, world.shapes[node]);
        world.states[node] = NodeState::alive;
      } else {
        scheduler.set_node_state(node, state);
        world.states[node] = state;
      }
      break;
    }
    case 1:
    case 2: {
      const auto made = random_request(random);
      const auto job = 1 + random.below(3);
      requests[world.bench.demand_class(job, made).id] = made;
      const auto lessee = 1 + random.below(4);
      const auto slots = static_cast<std::int64_t>(random.below(4));
      world.bench.want(job, lessee, made, slots);
      world.wanted[{ProcessId::of(lessee), world.bench.demand_class(job, made).id}] = slots;
      break;
    }
    case 3: {
      const auto slot = some_slot();
      EXPECT_EQ(scheduler.release_cpu(slot), world.lent.insert(slot).second);
      break;
    }
    case 4: {
      const auto slot = some_slot();
      if (world.lent.erase(slot) > 0) {
        EXPECT_TRUE(scheduler.reacquire_cpu(slot));
        world.resumed.insert(slot);
      }
      break;
    }
    default: {
      const auto slot = some_slot();
      EXPECT_TRUE(scheduler.release(slot));
      world.live.erase(slot);
      world.lent.erase(slot);
      world.resumed.erase(slot);
    }
  }
}

void check_plan(World& world, const Plan& plan, const std::map<ClassId, Request>& requests) {
  for (const auto& grant : plan.grants) {
    EXPECT_EQ(world.states.at(grant.node), NodeState::alive);
    EXPECT_TRUE(world.live.emplace(grant.id, grant).second) << "a slot is granted once";
    expect_best_fit(world, grant, requests.at(grant.class_id));
  }
  std::set<SlotId> recalled;
  for (const auto& each : plan.recalls) {
    EXPECT_TRUE(world.live.contains(each.slot));
    EXPECT_TRUE(recalled.insert(each.slot).second) << "not twice";
  }
  expect_never_overcommitted(world);
}

void expect_nothing_waits_that_fits(const World& world,
                                    const std::map<ClassId, Request>& requests) {
  for (const auto& [holder, wanted] : world.wanted) {
    const auto held = std::ranges::count_if(world.live, [&holder = holder](const auto& each) {
      return each.second.lessee == holder.first && each.second.class_id == holder.second;
    });
    if (held >= wanted) continue;
    const auto& request = requests.at(holder.second);
    for (const auto& each : world.bench.scheduler.explain(request, ProgramId::of(1)).nodes) {
      EXPECT_NE(each.reason.code, ReasonCode::fits)
          << request.resources.to_string() << " waits, and fits " << each.node.brief();
    }
  }
}

TEST(SchedulerProperty, RandomHistories_KeepAccounting) {
  for (std::uint64_t seed = 1; seed <= histories(40); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    std::map<ClassId, Request> requests;
    std::set<SlotId> recalled;
    for (int step = 0; step < 150; ++step) {
      change_something(world, requests);
      world.bench.now = world.bench.now + Duration(world.random.between(0, 300'000'000));
      const auto plan = world.bench.plan();
      check_plan(world, plan, requests);
      for (const auto& each : plan.recalls) {
        EXPECT_TRUE(recalled.insert(each.slot).second) << "no slot is recalled twice";
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

// After plans have settled, no waiting request fits anywhere: no wake-up is lost.
TEST(SchedulerProperty, LeavesNothingThatFitsPending) {
  for (std::uint64_t seed = 1; seed <= histories(40); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    std::map<ClassId, Request> requests;
    for (int step = 0; step < 80; ++step) {
      change_something(world, requests);
      world.bench.now = world.bench.now + 1ms;  // too short for recalls and reservations
      for (int again = 0; again < 20; ++again) {
        const auto plan = world.bench.plan();
        check_plan(world, plan, requests);
        if (plan.grants.empty()) break;
      }
      expect_nothing_waits_that_fits(world, requests);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// The same with budgets that end each plan early: later plans continue with the rest.
TEST(SchedulerProperty, SmallBudgets_LoseNothing) {
  for (std::uint64_t seed = 1; seed <= histories(40); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SchedulerSettings settings;
    settings.placement.examinations_per_free = 1;
    settings.placement.visits_per_plan = 1 + static_cast<std::int64_t>(seed % 3);
    World world(seed, settings);
    std::map<ClassId, Request> requests;
    for (int step = 0; step < 80; ++step) {
      for (auto changes = world.random.below(4); changes-- > 0;) change_something(world, requests);
      world.bench.now = world.bench.now + 1ms;
      // Sometimes makes further changes before the plans have settled.
      auto plans = world.random.chance(300) ? 2 : 1000;
      do {
        check_plan(world, world.bench.plan(), requests);
      } while (world.bench.scheduler.next_deadline() == world.bench.now && --plans > 0);
      if (plans > 2) expect_nothing_waits_that_fits(world, requests);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// At each grant, no job with a smaller share had a demand that fitted.
TEST(SchedulerProperty, ServesSmallestShareFirst) {
  for (std::uint64_t seed = 1; seed <= histories(30); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    auto& [random, bench, shapes, states, live, lent, resumed, wanted] = world;
    bench.add_node(1, node_with(16, 4));
    std::map<std::pair<std::uint64_t, std::uint64_t>, Request> demands;  // job, lessee
    for (std::uint64_t job = 1; job <= 4; ++job) {
      bench.scheduler.set_job_terms(JobId::of(job), {.weight = static_cast<std::int32_t>(job)});
      for (std::uint64_t each = 1; each <= 3; ++each) {
        auto made = cpus(static_cast<double>(random.between(1, 4)));
        if (random.chance(500)) {
          made.resources.set("GPU", amount(static_cast<double>(random.between(1, 2))));
        }
        demands[{job, 10 * job + each}] = made;
        bench.want(job, 10 * job + each, made, 50);
      }
    }
    const auto share_of = [&live = live](std::uint64_t job) {
      std::map<std::string, std::int64_t> units;
      for (const auto& [id, slot] : live) {
        if (slot.job != JobId::of(job)) continue;
        for (const auto& each : slot.allocation.resources) {
          for (const auto& share : each.shares) units[each.name] += share.amount.units();
        }
      }
      const auto cpu = units["CPU"] * 1'000'000 / Quantity::whole(16).units();
      const auto gpu = units["GPU"] * 1'000'000 / Quantity::whole(4).units();
      return std::max(cpu, gpu) / static_cast<std::int64_t>(job);
    };
    const auto free_of = [&live = live](const char* name, int total) {
      auto units = Quantity::whole(total).units();
      for (const auto& [id, slot] : live) {
        const auto* held = slot.allocation.find(name);
        if (held == nullptr) continue;
        for (const auto& share : held->shares) units -= share.amount.units();
      }
      return units;
    };
    for (int step = 0; step < 200; ++step) {
      if (!live.empty() && step > 0) {
        auto at = live.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.below(live.size())));
        bench.scheduler.release(at->first);
        live.erase(at);
      }
      bench.now = bench.now + 1us;
      for (const auto& grant : bench.plan().grants) {
        const auto got = grant.job.bits().low;
        for (const auto& [who, request] : demands) {
          const bool fits = request.resources.get("CPU").units() <= free_of("CPU", 16) &&
                            request.resources.get("GPU").units() <= free_of("GPU", 4);
          if (!fits) continue;
          EXPECT_LE(share_of(got), share_of(who.first)) << "job " << who.first;
        }
        live.emplace(grant.id, grant);
      }
      ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
    }
  }
}

TEST(SchedulerProperty, SameCalls_GiveSamePlans) {
  const auto trace = [](std::uint64_t seed) {
    World world(seed);
    std::map<ClassId, Request> requests;
    std::string text;
    for (int step = 0; step < 200; ++step) {
      change_something(world, requests);
      world.bench.now = world.bench.now + Duration(world.random.between(0, 300'000'000));
      const auto plan = world.bench.plan();
      for (const auto& grant : plan.grants) {
        world.live.emplace(grant.id, grant);
        text += grant.id.brief() + "@" + grant.node.brief() + " ";
      }
      for (const auto& each : plan.recalls) text += "-" + each.slot.brief();
    }
    return text;
  };
  EXPECT_EQ(trace(7), trace(7));
  EXPECT_NE(trace(7), trace(8));
}

// If a single job waits, the return of its recalled slots lets it start.
TEST(SchedulerProperty, RecalledSlots_AreEnough) {
  for (std::uint64_t seed = 1; seed <= histories(100); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Bench bench;
    for (std::uint64_t node = 1; node <= 3; ++node) bench.add_node(node, random_shape(random));
    std::map<std::uint64_t, Request> others;
    for (std::uint64_t lessee = 1; lessee <= 6; ++lessee) {
      others[lessee] = random_request(random);
      bench.want(1 + lessee % 2, lessee, others[lessee], 4);
    }
    bench.plan();
    bench.now = bench.now + 200ms;
    for (const auto& [lessee, request] : others) {
      const auto held = std::ranges::count(bench.granted, ProcessId::of(lessee), &Slot::lessee);
      bench.want(1 + lessee % 2, lessee, request, held);
    }
    auto wanted = random_request(random);
    wanted.resources.add("CPU", amount(1));
    bench.want(9, 9, wanted, 1);
    const auto at_once = bench.plan();
    if (!at_once.grants.empty() || !at_once.infeasible.empty()) continue;
    bench.now = bench.now + 200ms;
    std::set<SlotId> mine;
    for (const auto& each : bench.plan().recalls) {
      if (each.for_job == JobId::of(9)) mine.insert(each.slot);
    }
    ASSERT_FALSE(mine.empty()) << "all slots are of tasks, so some can be recalled";
    for (const auto slot : mine) bench.scheduler.release(slot);
    for (const auto& [lessee, request] : others) {
      bench.want(1 + lessee % 2, lessee, request, 0);
    }
    const auto plan = bench.plan();
    const bool placed = std::ranges::any_of(
        plan.grants, [](const auto& grant) { return grant.job == JobId::of(9); });
    EXPECT_TRUE(placed);
  }
}

}  // namespace
}  // namespace mobula::internal::scheduler
