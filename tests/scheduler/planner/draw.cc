#include "scheduler/planner/draw.h"

namespace mobula::internal::planner {
namespace {

using scheduler::amount;
using scheduler::cpus;
using scheduler::node_shape;

Request draw_request(Random& random) {
  auto made = cpus(static_cast<double>(random.between(1, 6)) / 2);
  switch (random.below(6)) {
    case 0: made.resources.set("GPU", Quantity::whole(random.between(1, 3))); break;
    case 1: made.resources.set("GPU", Quantity::from_units(random.between(1, 9) * 1000)); break;
    case 2: made.resources.set("shuttle", amount(static_cast<double>(random.between(1, 3)))); break;
    case 3: made.label_selector["zone"] = random.chance(500) ? "a" : "!a"; break;
    default: break;
  }
  if (random.chance(50)) made.resources.set("unheard_of", amount(1));
  return made;
}

NodeType draw_type(Random& random, std::size_t number) {
  std::vector<scheduler::Gpu> devices(random.chance(400) ? random.below(5) : 0);
  auto shape = node_shape(static_cast<double>(random.between(1, 8)), devices);
  if (random.chance(300)) shape.resources.push_back({"shuttle", {{amount(2), {}, {}, 0}}});
  if (random.chance(500)) shape.labels["zone"] = random.chance(500) ? "a" : "b";
  auto type = node_type("type" + std::to_string(number), shape, random.between(0, 5));
  type.min_workers = random.chance(300) ? random.between(0, type.max_workers) : 0;
  return type;
}

// Allocates resources on some of the nodes.
void draw_use(Random& random, ClusterNode& node) {
  if (random.chance(400)) {
    node.idle = Duration(random.between(0, 600) * 1'000'000'000);
    node.has_objects = random.chance(200);
    return;
  }
  scheduler::InstanceLedger accounting(node.shape, 1000);
  auto request = cpus(static_cast<double>(random.between(1, 4)));
  if (random.chance(500)) request.resources.set("GPU", amount(0.5));
  if (auto taken = accounting.book(scheduler::Need(request, scheduler::Tenant::actor))) {
    node.held = *taken;
    node.actor_slots = 1;
  } else {
    node.task_slots = 1;
  }
}

}  // namespace

NodeType node_type(const std::string& name, const NodeShape& shape, std::int64_t most,
                   std::int64_t least) {
  return {name, shape, least, most};
}

ClusterNode cluster_node(std::uint64_t number, const NodeType& type) {
  ClusterNode node;
  node.id = NodeId::of(number);
  node.type = type.name;
  node.shape = type.shape;
  node.idle = Duration(0);
  return node;
}

WantedSlots wanted(std::uint64_t number, const Request& request, std::int64_t count) {
  WantedSlots slots;
  slots.demand.id = ClassId::of(number);
  slots.demand.request = request;
  slots.demand.program = ProgramId::of(1);
  slots.count = count;
  slots.mean_run = std::chrono::hours(1);
  return slots;
}

WantedGroup wanted_group(std::uint64_t number, GroupStrategy strategy,
                         std::vector<Request> bundles) {
  WantedGroup group;
  group.spec.id = GroupId::of(number);
  group.spec.job = JobId::of(1);
  group.spec.strategy = strategy;
  group.spec.bundles = std::move(bundles);
  group.spec.program = ProgramId::of(1);
  return group;
}

Case draw_case(std::uint64_t seed) {
  Random random(seed);
  Case made;
  for (auto left = random.between(1, 4); left > 0; --left) {
    made.types.push_back(draw_type(random, made.types.size()));
  }
  if (random.chance(300)) made.limits.max_workers = random.between(1, 8);
  made.limits.launch_at_least = random.between(1, 6);
  std::uint64_t number = 0;
  std::vector<std::int64_t> of_type(made.types.size());
  for (auto left = random.below(6); left > 0; --left) {
    const auto which = random.below(made.types.size());
    auto node = cluster_node(++number, made.types[which]);
    if (of_type[which] >= made.types[which].max_workers) {
      node.type = "";  // not launched by the planner
    } else if (static_cast<std::int64_t>(number) > made.limits.max_workers) {
      break;
    } else {
      ++of_type[which];
    }
    if (random.chance(150)) node.phase = NodePhase::launching;
    if (random.chance(100)) node.phase = NodePhase::leaving;
    node.idle.reset();
    if (node.phase == NodePhase::running) draw_use(random, node);
    made.state.nodes.push_back(std::move(node));
  }
  for (auto left = random.below(4); left > 0; --left) {
    std::vector<Request> bundles;
    for (auto more = random.between(1, 4); more > 0; --more) {
      bundles.push_back(draw_request(random));
    }
    made.state.groups.push_back(
        wanted_group(++number, static_cast<GroupStrategy>(random.below(4)), std::move(bundles)));
  }
  for (auto left = random.below(5); left > 0; --left) {
    made.state.slots.push_back(wanted(++number, draw_request(random), random.between(1, 12)));
  }
  if (random.chance(250)) {
    made.state.standing.push_back({draw_request(random), random.between(1, 4)});
  }
  return made;
}

}  // namespace mobula::internal::planner
