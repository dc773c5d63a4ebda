#include "sim/workload/scenario.h"

#include <algorithm>
#include <array>

namespace mobula::internal::sim {
namespace {

using enum Work;
using enum FaultKind;

const std::vector<Work> task_works{task, task, chain, crash, raise, wait};
const std::vector<Work> object_works{large, put_ref, return_ref, chain, large, put_ref};
const std::vector<Work> actor_works{actor, actor, restart, keep, handle};
const std::vector<Work> all_works{task,   task,   chain,   crash,   raise,      gpu,  gpu_child,
                                  nested, nested, large,   put_ref, return_ref, wait, cancel,
                                  actor,  actor,  restart, keep,    handle,     named};
const std::vector<Work> beside_lengthy_works{lengthy, lengthy, lengthy,     lengthy,
                                             whole,   whole,   whole,       once,
                                             task,    nested,  whole_group, whole_group};
// Combines label selectors, priorities, quotas, and preemption.
const std::vector<Work> all_rules_works{lengthy,  lengthy, lengthy, labelled, labelled,
                                        labelled, whole,   once,    stream,   task};
const std::vector<Work> beside_hungry_works{hungry, hungry, hungry, too_hungry, frugal_once, task};
const std::vector<FaultKind> all_faults{
    head_crash,     head_pause,     agent_crash,  agent_pause,  executor_crash,
    executor_crash, executor_pause, driver_pause, driver_crash, head_link_break,
    head_link_cut,  peer_cut,       stream_break, slow_network, repeats,
    disk_slow,      disk_fails,     fork_fails,   slab_fails,   bulk_fails};

constexpr std::uint64_t small_store = std::uint64_t{6} << 20;  // fits about 24 large values

std::vector<Scenario> make_scenarios() {
  return {
      {"session",
       2,
       1,
       false,
       2,
       {task, chain},
       5,
       {head_link_break, head_link_cut, stream_break, repeats, slow_network, peer_cut}},
      {"one_task", 1, 1, false, 1, {task}, 0, {}},
      {"tasks", 3, 1, false, 6, task_works, 0, {}},
      {"crashes",
       3,
       1,
       false,
       6,
       {task, crash, raise, chain, nested},
       4,
       {executor_crash, executor_crash, executor_pause, fork_fails, stream_break}},
      {"gpu", 2, 2, true, 6, {gpu, gpu, gpu_child, task}, 2, {executor_crash, fork_fails}},
      {"nested", 2, 1, false, 5, {nested, nested, task}, 1, {executor_pause, slow_network}},
      {"objects",
       3,
       1,
       false,
       6,
       object_works,
       3,
       {bulk_fails, slab_fails, executor_crash, peer_cut}},
      {"actors", 3, 1, false, 5, actor_works, 2, {executor_crash, executor_pause, stream_break}},
      {"names",
       3,
       2,
       false,
       5,
       {named, named, actor, handle},
       2,
       {head_crash, disk_slow, disk_fails}},
      {"head_restart",
       3,
       2,
       false,
       7,
       all_works,
       3,
       {head_crash, head_crash, disk_slow, disk_fails, head_pause}},
      {"agent_restart",
       3,
       2,
       false,
       7,
       all_works,
       3,
       {agent_crash, agent_crash, agent_pause, executor_crash}},
      {"partitions",
       4,
       2,
       false,
       7,
       all_works,
       4,
       {head_link_cut, head_link_break, peer_cut, stream_break, agent_pause, slow_network,
        repeats}},
      {"drivers",
       3,
       4,
       false,
       10,
       {task, nested, gpu, actor, put_ref, wait, cancel},
       2,
       {driver_pause, driver_crash, executor_crash}},
      {"quiet",
       3,
       2,
       true,
       10,
       {task, chain, crash, raise, gpu, gpu_child, nested, large, put_ref, return_ref, wait, cancel,
        actor, restart, keep, handle, named, infeasible},
       0,
       {}},
      {"facts",
       3,
       2,
       true,
       8,
       {task, crash, gpu, nested, actor, restart, keep},
       4,
       {news_lost, news_lost, news_lost, executor_crash, head_link_break}},
      {"everything", 5, 3, true, 12, all_works, 6, all_faults},
      {"losses", 5, 1, false, 8, {late, late, keep_late, keep_late, keep_late}, 6, {agent_crash}},
      {"last_copies",
       4,
       2,
       false,
       6,
       {waves, waves, late},
       8,
       {agent_crash, agent_crash, agent_crash, executor_crash, driver_pause, agent_pause}},
      {"last_copies_cut",
       4,
       2,
       false,
       6,
       {waves, waves, late},
       6,
       {peer_cut, peer_cut, agent_crash, bulk_fails, bulk_breaks}},
      {"cut_links",
       4,
       2,
       false,
       12,
       {stream, stream, burst, nested, actor, restart, handle},
       2,
       {peer_lost}},
      {"lost_homes",
       3,
       1,
       false,
       4,
       {streams_of_readers},
       4,
       {home_crash, home_crash, agent_crash}},
      {"groups", 3, 2, false, 8, {group, group, group, task, crash}, 0, {}},
      {"group_faults",
       3,
       2,
       false,
       8,
       {group, group, group, task, actor},
       4,
       {head_crash, agent_crash, executor_crash, disk_slow, disk_fails, head_link_break,
        driver_crash}},
      {"fairness", 3, 3, false, 8, {stream, stream, whole, task, nested, group}, 0, {}, true},
      {"fairness_faults",
       3,
       3,
       false,
       8,
       {stream, stream, whole, task, nested, group},
       3,
       {head_crash, agent_crash, executor_crash, disk_slow},
       true},
      {"group_turns", 1, 3, false, 12, {stream, stream, stream, whole_group, whole}, 0, {}, true},
      {"preemption", 2, 3, false, 10, beside_lengthy_works, 0, {}, true, true},
      {"preemption_faults",
       2,
       3,
       false,
       10,
       beside_lengthy_works,
       3,
       {head_crash, agent_crash, executor_crash, executor_pause, disk_slow},
       true,
       true},
      {"rules", 3, 3, false, 10, all_rules_works, 0, {}, true, true, false, 0, true},
      {"rules_faults",
       3,
       3,
       false,
       10,
       all_rules_works,
       3,
       {head_crash, agent_crash, executor_crash, executor_pause, disk_slow},
       true,
       true,
       false,
       0,
       true},
      {"endings", 2, 1, true, 5, {part, part, part_actor, hang, hang}, 0, {}},
      {"ends", 3, 2, true, 8, {unawaited, unawaited, return_call, factory, factory, gpu}, 0, {}},
      {"ends_faults",
       3,
       2,
       true,
       8,
       {unawaited, unawaited, return_call, factory, factory, task},
       4,
       {head_crash, head_crash, head_link_break, executor_crash, agent_crash, executor_pause,
        stream_break, node_drained}},
      {"shared_names", 2, 1, false, 4, {shared_name, shared_name, killed_call, actor}, 0, {}},
      {"shared_names_faults",
       3,
       1,
       false,
       4,
       {shared_name, shared_name, killed_call, actor},
       3,
       {executor_crash, executor_pause, head_crash, stream_break, agent_crash}},
      {"cancellation", 2, 1, false, 5, {blocked, blocked, cancel, nested}, 0, {}},
      {"deep_chains", 2, 1, false, 3, {deep_chain, deep_chain, task}, 0, {}},
      {"broken_groups",
       4,
       1,
       false,
       1,
       {pair_group},
       4,
       {node_away},
       false,
       false,
       false,
       0,
       false,
       false,
       true},
      {"device_groups", 2, 2, true, 5, {device_group, device_group, gpu, task}, 0, {}},
      {"drains",
       3,
       2,
       false,
       12,
       {stream, task, chain, nested, crash, actor, restart, group},
       8,
       {node_drained, node_drained, node_drained, head_crash, head_crash, disk_slow, disk_fails}},
      {"bursts", 2, 2, false, 6, {burst, burst, burst, nested, task, cancel}, 0, {}},
      {"burst_faults",
       3,
       2,
       false,
       6,
       {burst, burst, burst, nested, crash, cancel, stream},
       4,
       {executor_crash, executor_crash, executor_crash, executor_pause, stream_break, agent_crash,
        head_crash}},
      {"families", 1, 2, true, 10, {family, family, whole_gpu, task}, 0, {}, true},
      {"family_faults",
       2,
       2,
       true,
       10,
       {family, family, whole_gpu, task},
       2,
       {executor_crash, executor_crash, agent_crash, head_crash},
       true},
      {"memory", 2, 3, false, 8, beside_hungry_works, 0, {}, false, false, true},
      {"memory_faults",
       2,
       3,
       false,
       8,
       beside_hungry_works,
       3,
       {head_crash, agent_pause, executor_crash, executor_pause, agent_crash},
       false,
       false,
       true},
      {"spill",
       3,
       2,
       false,
       5,
       {hoard, hoard, hoard, large, put_ref, return_ref, task},
       0,
       {},
       false,
       false,
       false,
       small_store},
      {"spill_faults",
       3,
       2,
       false,
       5,
       {hoard, hoard, large, put_ref, keep, task},
       4,
       {spill_slow, spill_fails, spill_corrupts, executor_crash, agent_crash, driver_pause,
        bulk_fails, slab_fails, peer_cut},
       false,
       false,
       false,
       small_store},
      {"broadcast", 5, 2, false, 5, {broadcast, broadcast, broadcast, large, put_ref}, 0, {}},
      {"broadcast_faults",
       5,
       2,
       false,
       8,
       {broadcast, broadcast, broadcast, large, keep},
       10,
       {bulk_slow, bulk_slow, bulk_slow, bulk_slow, bulk_breaks, bulk_breaks, bulk_corrupts,
        bulk_fails, agent_crash, agent_pause, agent_pause, peer_cut, slab_fails, executor_crash,
        executor_crash, driver_pause}},
      {"broadcast_spill",
       4,
       2,
       false,
       6,
       {broadcast, broadcast, hoard},
       4,
       {bulk_slow, bulk_slow, bulk_breaks, agent_crash, spill_slow, executor_crash},
       false,
       false,
       false,
       small_store},
      {"labels",
       4,
       2,
       false,
       8,
       {labelled, labelled, labelled, task, actor, group},
       3,
       {head_crash, agent_crash, agent_pause, executor_crash, head_link_cut}},
      {"resident",
       2,
       3,
       true,
       8,
       {resident, resident, resident, gpu, whole_gpu, gpu_child, task},
       0,
       {},
       true},
      {"resident_faults",
       2,
       3,
       true,
       8,
       {resident, resident, resident, gpu, gpu_child, task},
       4,
       {executor_crash, executor_crash, executor_pause, agent_crash, head_crash, head_link_break,
        stream_break, driver_crash, driver_pause},
       true},
      {"tensors",
       3,
       2,
       false,
       8,
       {task, nested, chain, large, put_ref, return_ref, actor, handle, keep, pass_tensors},
       0,
       {},
       false,
       false,
       false,
       0,
       false,
       true},
      {"passed_tensors",
       3,
       2,
       false,
       6,
       {pass_tensors},
       0,
       {},
       false,
       false,
       false,
       0,
       false,
       true},
      {"lost_elements", 3, 1, false, 6, {lose_tensors, lose_tensors, task}, 0, {}},
      {"lost_in_calls", 3, 2, false, 5, {lose_calls, lose_calls, lose_tensors}, 0, {}},
      {"lost_in_calls_faults",
       3,
       2,
       false,
       5,
       {lose_calls, lose_calls, lose_tensors},
       4,
       {executor_crash, executor_crash, executor_pause, stream_break, driver_pause, driver_crash,
        slow_network, repeats, head_crash}},
      {"tensor_faults",
       3,
       2,
       false,
       8,
       {task, nested, chain, large, put_ref, return_ref, actor, restart, keep, pass_tensors,
        pass_tensors},
       4,
       {executor_crash, executor_crash, executor_pause, stream_break, driver_pause, head_crash,
        agent_pause},
       false,
       false,
       false,
       0,
       false,
       true},
  };
}

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
    case executor_pause:
    case driver_pause: return random.between(Duration(50ms), Duration(5s));
    default: return random.between(Duration(100ms), Duration(4s));
  }
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  static constexpr std::array<std::string_view, 30> names{"head crashes",
                                                          "head pauses",
                                                          "agent crashes",
                                                          "agent pauses",
                                                          "executor crashes",
                                                          "executor pauses",
                                                          "driver pauses",
                                                          "driver crashes",
                                                          "head link breaks",
                                                          "head link is cut",
                                                          "peers are cut",
                                                          "stream breaks",
                                                          "network is slow",
                                                          "messages repeat",
                                                          "disk is slow",
                                                          "disk fails",
                                                          "forks fail",
                                                          "slabs fail",
                                                          "bulk fails",
                                                          "news of slots is lost",
                                                          "a node is drained",
                                                          "spilling is slow",
                                                          "spilling fails",
                                                          "spilled files are damaged",
                                                          "bulk bytes are slow",
                                                          "bulk connections break",
                                                          "bulk bytes are changed",
                                                          "contact between two nodes is lost",
                                                          "the agent of a driver's node crashes",
                                                          "a node is away"};
  return names.at(static_cast<std::size_t>(kind));
}

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = make_scenarios();
  return all;
}

const Scenario* find_scenario(const std::string& name) {
  const auto at = std::ranges::find(scenarios(), name, &Scenario::name);
  return at == scenarios().end() ? nullptr : &*at;
}

HistoryPlan draw(const Scenario& scenario, const Random& random) {
  HistoryPlan plan;
  plan.store_bytes = scenario.store_bytes;
  plan.uniform = scenario.uniform;
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
    if (std::ranges::find(scenario.kinds, peer_lost) != scenario.kinds.end())
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
  if (scenario.preempts) plan.preempt_after = Duration(1500ms);
  const Random work = random.fork("work");
  Random times = random.fork("times");
  const auto items = times.between(1, scenario.items);
  const Duration window = scenario.faults > 0 ? Duration(12s) : Duration(1s);
  for (std::int64_t i = 0; i < items; ++i) {
    Random own = work.fork(std::to_string(i));
    const Work kind = scenario.works.at(own.below(scenario.works.size()));
    if (!scenario.gpus && (kind == gpu || kind == gpu_child)) continue;
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

Request request_of(const std::string& shape) {
  Request request;
  if (shape == "cpu") request.resources.set("CPU", Quantity::whole(1));
  if (shape == "placed") request.required_totals.set("CPU", Quantity::whole(1));
  if (shape == "half_cpu") request.resources.set("CPU", Quantity::from_units(5000));
  if (shape == "two_cpu") request.resources.set("CPU", Quantity::whole(2));
  if (shape == "gpu") request.resources.set("GPU", Quantity::whole(1));
  if (shape == "half_gpu") request.resources.set("GPU", Quantity::from_units(5000));
  if (shape == "sliver_of_gpu") request.resources.set("GPU", Quantity::from_units(500));
  if (shape == "quarter_gpu") {
    request.resources.set("GPU", Quantity::from_units(2500));
    request.gpu_memory = std::int64_t{1} << 28;
  }
  if (shape == "spread") {
    request.resources.set("CPU", Quantity::whole(1));
    request.strategy = SpreadStrategy{};
  }
  // The first node is in zone a, so that each of these shapes can run somewhere.
  if (shape.starts_with("zone_")) request.resources.set("CPU", Quantity::whole(1));
  if (shape == "zone_a") request.label_selector["zone"] = "a";
  if (shape == "zone_not_b") request.label_selector["zone"] = "!b";
  if (shape == "zone_b_or_a") {
    request.label_selector["zone"] = "b";
    request.fallback_selectors = {{{"zone", "a"}}};
  }
  if (shape == "zone_c_or_any") {
    request.label_selector["zone"] = "c";
    request.fallback_selectors = {{{"zone", "in(b,c)"}}, {}};
  }
  if (shape == "absent") request.resources.set("absent", Quantity::whole(1));
  if (shape == "impossible") request.resources.set("CPU", Quantity::whole(1000));
  return request;
}

}  // namespace mobula::internal::sim
