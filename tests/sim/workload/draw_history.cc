// The history that one seed makes of a scenario: its cluster, its items and its faults.
#include <algorithm>
#include <string>
#include <utility>

#include "sim/workload/scenario.h"

namespace mobula::internal::sim {
namespace {

NodeShape draw_shape(Random& random, bool first, bool gpus) {
  NodeShape shape;
  const auto cpus = first ? random.between(2, 4) : random.between(1, 4);
  shape.resources.push_back({"CPU", {{Quantity::whole(cpus), {}, {}, 0}}});
  const auto count = !gpus ? 0 : first ? random.between(1, 2) : random.between(0, 2);
  if (count > 0) {
    ResourceShape gpu{"GPU", {}};
    for (std::int64_t i = 0; i < count; ++i) {
      gpu.instances.push_back(
          {Quantity::whole(1), std::to_string(i), {"SIM"}, std::int64_t{1} << 30});
      gpu.instances.back().context_bytes = std::int64_t{1} << 26;
    }
    shape.resources.push_back(std::move(gpu));
  }
  shape.task_executors = static_cast<std::int32_t>(4 * cpus);
  shape.actor_executors = 100;
  return shape;
}

// Draws terms whose quota covers every single request of the job.
JobTerms draw_terms(Random& random, bool gpus) {
  JobTerms terms;
  terms.priority = static_cast<std::int32_t>(random.between(-1, 1));
  terms.weight = static_cast<std::int32_t>(random.between(1, 3));
  if (random.chance(500)) terms.quota["CPU"] = Quantity::whole(random.between(2, 4));
  if (gpus && random.chance(500)) terms.quota["GPU"] = Quantity::whole(1);
  return terms;
}

Duration span_of(FaultKind kind, Random& random) {
  using enum FaultKind;
  switch (kind) {
    case head_pause:
    case agent_pause:
      return random.chance(500) ? random.between(Duration(600ms), Duration(4s))
                                : random.between(Duration(11s), Duration(14s));
    case head_link_cut:
    case peer_cut:
      return random.chance(500) ? random.between(Duration(100ms), Duration(3s))
                                : random.between(Duration(4s), Duration(15s));
    case node_drained: return random.between(Duration(2s), Duration(8s));
    case peer_lost: return Duration(300s);
    case node_away: return random.between(Duration(25s), Duration(40s));
    case starved: return random.between(Duration(500ms), Duration(12s));
    case executor_pause:
    case driver_pause: return random.between(Duration(50ms), Duration(5s));
    default: return random.between(Duration(100ms), Duration(4s));
  }
}

}  // namespace

HistoryPlan draw(const Scenario& scenario, const Random& random) {
  HistoryPlan plan;
  plan.store_bytes = scenario.store_bytes;
  plan.uniform = scenario.uniform;
  plan.subscribes = scenario.subscribes;
  Random fabric = random.fork("fabric");
  plan.trusted_fabric = fabric.chance(400);
  Random topology = random.fork("topology");
  const auto nodes =
      topology.between(scenario.uniform ? scenario.max_nodes : 1, scenario.max_nodes);
  for (std::int64_t i = 0; i < nodes; ++i) {
    NodePlan node;
    node.shape = draw_shape(topology, i == 0, scenario.gpus);
    node.shape.labels = {{"zone", std::string(1, static_cast<char>('a' + i % 3))}};
    node.has_program = topology.chance(300);
    node.cannot_start = i > 0 && topology.chance(60);
    if (scenario.memory) node.memory_mib = 1000;
    if (std::ranges::find(scenario.kinds, FaultKind::peer_lost) != scenario.kinds.end())
      node.cannot_start = false;
    if (scenario.uniform) {
      node.shape.resources = {{"CPU", {{Quantity::whole(1), {}, {}, 0}}}};
      node.cannot_start = false;
    }
    plan.nodes.push_back(std::move(node));
  }
  const auto drivers = topology.between(scenario.preempts ? 2 : 1, scenario.max_drivers);
  for (std::int64_t i = 0; i < drivers; ++i) {
    plan.driver_nodes.push_back(static_cast<int>(topology.below(plan.nodes.size())));
  }
  Random terms = random.fork("terms");
  for (std::size_t i = 0; i < plan.driver_nodes.size(); ++i) {
    plan.terms.push_back(scenario.terms ? draw_terms(terms, scenario.gpus) : JobTerms());
    if (!scenario.preempts) continue;
    plan.terms.back().priority = static_cast<std::int32_t>(i);
    if (!scenario.keeps_quotas) plan.terms.back().quota.clear();
  }
  if (scenario.preempts) plan.preempt_delay = Duration(1500ms);
  const Random work = random.fork("work");
  Random times = random.fork("times");
  const auto items = times.between(1, scenario.items);
  const Duration window = scenario.faults > 0 ? Duration(12s) : Duration(1s);
  for (std::int64_t i = 0; i < items; ++i) {
    Random own = work.fork(std::to_string(i));
    const Work kind = scenario.works.at(own.below(scenario.works.size()));
    if (!scenario.gpus && (kind == Work::gpu || kind == Work::gpu_child)) continue;
    const Time at = Time::from_ns(1'000'000'000) + times.between(Duration(0), window);
    const int driver = static_cast<int>(times.below(plan.driver_nodes.size()));
    plan.items.push_back({driver, at, draw_item(kind, own, plan.plans)});
  }
  if (scenario.tensors) {
    Random tensors = random.fork("tensors");
    for (Plan& each : plan.plans) each.tensors = static_cast<int>(tensors.below(3));
  }
  Random faults = random.fork("faults");
  const auto count = scenario.faults == 0 ? 0 : faults.between(0, scenario.faults);
  for (std::int64_t i = 0; i < count; ++i) {
    Fault fault;
    fault.kind = scenario.kinds.at(faults.below(scenario.kinds.size()));
    fault.at = Time::from_ns(1'000'000'000) + faults.between(Duration(10ms), Duration(15s));
    fault.span = span_of(fault.kind, faults);
    fault.target = faults.next() >> 8;
    plan.faults.push_back(fault);
  }
  std::ranges::sort(plan.faults, {}, &Fault::at);
  plan.heal = Time::from_ns(1'000'000'000);
  for (const auto& fault : plan.faults) plan.heal = std::max(plan.heal, fault.at + fault.span);
  for (const auto& item : plan.items) plan.heal = std::max(plan.heal, item.at);
  return plan;
}

}  // namespace mobula::internal::sim
