// Cost of one node plan, in isolation: clusters of 8-GPU nodes and plain nodes, with 1,000 waiting
// task classes and 100 waiting placement groups. In *room*, the nodes are empty and all demand
// fits. In *full*, all GPUs and CPUs are allocated, the demand exceeds the launch limit, and the
// number of nodes may double. In *idle*, no demand exists and all nodes may be removed. Prints a
// table over numbers of nodes, in processor time of the thread, which excludes other load.
//
// mobula-bench-planner [NODES...]      default: 10 100 1000 10000
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/measure/thread_time.h"
#include "scheduler/planner/planner.h"

namespace mobula::internal::planner {
namespace {

constexpr int classes = 1000;
constexpr int groups = 100;

NodeType type_of(const std::string& name, std::int64_t cpus, int gpus, std::int64_t most) {
  NodeShape shape;
  shape.resources.push_back({"CPU", {{Quantity::whole(cpus), {}, {}, 0}}});
  if (gpus > 0) {
    ResourceShape devices{"GPU", {}};
    for (int i = 0; i < gpus; ++i) {
      devices.instances.push_back(
          {Quantity::whole(1), std::to_string(i), {"H100"}, std::int64_t{80} << 30});
    }
    shape.resources.push_back(std::move(devices));
  }
  shape.task_executors = static_cast<std::int32_t>(4 * cpus);
  shape.actor_executors = 1000;
  shape.labels[node_type_label] = name;
  return {name, std::move(shape), 0, most};
}

std::vector<NodeType> types_for(std::int64_t nodes) {
  return {type_of("eight", 64, 8, 2 * nodes), type_of("one", 16, 1, nodes),
          type_of("plain", 32, 0, nodes)};
}

Allocation all_of(const NodeShape& shape) {
  Allocation all;
  for (const auto& resource : shape.resources) {
    ResourceShare share{resource.name, {}};
    for (std::uint32_t i = 0; i < resource.instances.size(); ++i) {
      const auto& instance = resource.instances[i];
      share.shares.push_back({i, instance.total, instance.memory_bytes});
    }
    all.resources.push_back(std::move(share));
  }
  return all;
}

// Three in four nodes have eight GPUs.
ClusterState cluster(std::int64_t nodes, bool booked) {
  const auto types = types_for(nodes);
  ClusterState state;
  for (std::int64_t i = 0; i < nodes; ++i) {
    const NodeType& type = types[i % 4 == 3 ? 2 : 0];
    ClusterNode node;
    node.id = NodeId::of(static_cast<std::uint64_t>(i) + 1);
    node.type = type.name;
    node.shape = type.shape;
    if (booked) {
      node.held = all_of(type.shape);
      node.actor_slots = 8;
    } else {
      node.idle = Duration(3600s);
    }
    state.nodes.push_back(std::move(node));
  }
  return state;
}

// Classes differ in their requests: a quarter of a GPU to eight GPUs, or none, and CPUs.
void add_demand(ClusterState& state, std::int64_t of_each) {
  for (int i = 0; i < classes; ++i) {
    WantedSlots slots;
    slots.demand.id = ClassId::of(static_cast<std::uint64_t>(i) + 1);
    slots.demand.program = ProgramId::of(1);
    static constexpr int units[] = {0, 2500, 5000, 10'000, 10'000, 20'000, 40'000, 80'000};
    if (units[i % 8] > 0)
      slots.demand.request.resources.set("GPU", Quantity::from_units(units[i % 8]));
    slots.demand.request.resources.set("CPU", Quantity::from_units(10'000 + i % 50));
    slots.count = of_each;
    slots.mean_run = std::chrono::hours(1);
    state.slots.push_back(std::move(slots));
  }
  for (int i = 0; i < groups; ++i) {
    WantedGroup group;
    group.spec.id = GroupId::of(static_cast<std::uint64_t>(i) + 1);
    group.spec.job = JobId::of(1);
    group.spec.program = ProgramId::of(1);
    group.spec.strategy = static_cast<GroupStrategy>(i % 4);
    for (int bundle = 0; bundle < 1 + i % 4; ++bundle) {
      Request request;
      request.resources.set("CPU", Quantity::whole(4));
      if (i % 3 != 0) request.resources.set("GPU", Quantity::whole(1 + i % 2));
      group.spec.bundles.push_back(std::move(request));
    }
    state.groups.push_back(std::move(group));
  }
}

struct Measured {
  double ms = 0;
  std::int64_t launched = 0;
  std::size_t ended = 0, unserved = 0;
};

Measured measure(const ClusterState& state, std::int64_t nodes) {
  Limits limits;
  limits.max_workers = 2 * nodes;
  limits.upscaling_milli = 1'000'000;
  const auto types = types_for(nodes);
  const double begin = thread_cpu_ms();
  const Plan made = plan(state, types, limits);
  Measured measured{thread_cpu_ms() - begin, 0, made.terminate.size(), made.waiting.size()};
  for (const auto& launch : made.launch) measured.launched += launch.count() + launch.later;
  return measured;
}

void print_row(std::int64_t nodes) {
  auto with_capacity = cluster(nodes, false);
  add_demand(with_capacity, 1);
  auto full = cluster(nodes, true);
  add_demand(full, std::max<std::int64_t>(1, nodes / 50));
  const auto spare = measure(with_capacity, nodes);
  const auto busy = measure(full, nodes);
  const auto idle = measure(cluster(nodes, false), nodes);
  fmt::print("{:>6} {:>10.1f} {:>8} {:>10.1f} {:>8} {:>8} {:>10.1f} {:>8}\n", nodes, spare.ms,
             spare.launched, busy.ms, busy.launched, busy.unserved, idle.ms, idle.ended);
  std::fflush(stdout);
}

}  // namespace
}  // namespace mobula::internal::planner

int main(int argc, char** argv) {
  std::vector<std::int64_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  if (sizes.empty()) sizes = {10, 100, 1000, 10'000};
  fmt::print(
      "{} classes and {} groups wait; ms of one plan, nodes launched and ended, demands left\n",
      mobula::internal::planner::classes, mobula::internal::planner::groups);
  fmt::print("{:>6} {:>10} {:>8} {:>10} {:>8} {:>8} {:>10} {:>8}\n", "nodes", "room ms", "launched",
             "full ms", "launched", "left", "idle ms", "ended");
  for (const auto nodes : sizes) mobula::internal::planner::print_row(nodes);
  return 0;
}
