#include "head/core/planner_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "head/core/documents.h"

namespace mobula::internal::head {
namespace {

Json amounts_json(const ResourceSet& resources) {
  Json json = Json::object();
  for (const auto& [name, amount] : resources.amounts()) json[name] = number(amount);
  return json;
}

Json request_json(const Request& request) {
  Json json = {{"resources", amounts_json(request.resources)}};
  if (!request.required_totals.empty()) {
    json["required_totals"] = amounts_json(request.required_totals);
  }
  if (request.gpu_memory > 0) json["gpu_memory"] = request.gpu_memory;
  if (!request.accelerator_type.empty()) json["accelerator_type"] = request.accelerator_type;
  if (!request.label_selector.empty()) json["label_selector"] = request.label_selector;
  if (!request.fallback_selectors.empty()) json["fallback_selectors"] = request.fallback_selectors;
  if (std::holds_alternative<SpreadStrategy>(request.strategy)) json["spread"] = true;
  if (const auto* affinity = std::get_if<NodeAffinityStrategy>(&request.strategy)) {
    json["node_id"] = affinity->node.hex();
    json["soft"] = affinity->soft;
  }
  return json;
}

Json shares_json(const Allocation& allocation) {
  Json json = Json::array();
  for (const auto& resource : allocation.resources) {
    for (const auto& each : resource.shares) {
      json.push_back({resource.name, each.index, number(each.amount), each.memory_bytes});
    }
  }
  return json;
}

Json shape_json(const NodeShape& shape) {
  Json resources = Json::array();
  for (const auto& resource : shape.resources) {
    Json row = {{"name", resource.name}, {"unit", resource.unit}, {"instances", Json::array()}};
    for (const auto& each : resource.instances) {
      row["instances"].push_back({{"total", number(each.total)},
                                  {"types", each.types},
                                  {"memory_bytes", each.memory_bytes},
                                  {"context_bytes", each.context_bytes},
                                  {"island", each.island}});
    }
    resources.push_back(std::move(row));
  }
  return {{"resources", std::move(resources)},
          {"accelerator_types", shape.accelerator_types},
          {"labels", shape.labels},
          {"task_executors", shape.task_executors},
          {"actor_executors", shape.actor_executors}};
}

// Bundles of a group that still waits are stated with the group.
bool waits(const Parts& parts, GroupId group) {
  const auto* row = parts.scheduler.groups().find(group);
  return row != nullptr && !row->complete();
}

// What is booked there, in sums.
void add_use(const Parts& parts, const scheduler::Node& node, Json& json) {
  using Key = std::pair<std::string, std::uint32_t>;
  std::map<Key, std::pair<Quantity, std::int64_t>> held;
  std::int64_t tasks = 0, blocked = 0, actors = 0;
  bool quiet = true;
  for (const auto id : parts.scheduler.slots_on(node.id)) {
    const auto& slot = *parts.scheduler.find_slot(id);
    quiet = false;
    switch (scheduler::tenant_of(slot)) {
      case scheduler::Tenant::task: ++(slot.lent ? blocked : tasks); break;
      case scheduler::Tenant::actor: actors += slot.lent ? 0 : 1; break;
      case scheduler::Tenant::bundle:
        if (waits(parts, slot.bundle_of)) continue;
        break;
    }
    if (!slot.allocation.group.empty()) continue;  // its bundle holds it
    for (const auto& resource : slot.allocation.resources) {
      if (slot.lent && resource.name == resource::cpu) continue;
      for (const auto& each : resource.shares) {
        auto& [amount, bytes] = held[{resource.name, each.index}];
        amount += each.amount;
        bytes += each.memory_bytes;
      }
    }
  }
  json["held"] = Json::array();
  for (const auto& [key, sums] : held) {
    json["held"].push_back({key.first, key.second, number(sums.first), sums.second});
  }
  json["task_slots"] = tasks;
  json["blocked_task_slots"] = blocked;
  json["actor_slots"] = actors;
  const auto last = parts.last_use.of(node.id);
  json["idle_ms"] = quiet && last ? Json((parts.now - *last) / 1ms) : Json(nullptr);
}

Json nodes_json(const Parts& parts) {
  Json nodes = Json::array();
  for (const auto& [id, row] : parts.nodes.rows()) {
    const auto* node = parts.scheduler.cluster().nodes().find(id);
    if (node == nullptr || !row.slots_allowed()) continue;
    Json json = {{"node_id", id.hex()},
                 {"usable", node->state == scheduler::NodeState::alive},
                 {"shape", shape_json(row.shape)}};
    add_use(parts, *node, json);
    json["cannot_start"] = Json::array();
    for (const auto& [program, why] : node->cannot_start) {
      json["cannot_start"].push_back(program.hex());
    }
    nodes.push_back(std::move(json));
  }
  return nodes;
}

Json slots_json(const DemandClass& demand, const std::string& name, bool actor,
                std::int64_t count) {
  return {{"class_id", demand.id.hex()}, {"name", name},
          {"program", demand.program.hex()}, {"actor", actor},
          {"count", count}, {"request", request_json(demand.request)}};
}

Json wanted_json(const Parts& parts) {
  Json wanted = Json::array();
  std::map<SlotTable::DemandKey, std::int64_t> held;
  for (const auto& [id, slot] : parts.slots.rows()) ++held[{slot.lessee, slot.demand_class.id}];
  for (const auto& [key, row] : parts.slots.demands()) {
    const auto& demand = row.demand.demand_class;
    const auto missing = row.total - held[key];
    if (missing <= 0 || !demand.request.placement.group.empty()) continue;
    wanted.push_back(slots_json(demand, row.demand.example_name, false, missing));
  }
  for (const auto& [id, actor] : parts.actors.rows()) {
    const auto& demand = actor.spec().demand;
    if (!actor.waits || !actor.slot.empty() || !demand.request.placement.group.empty()) continue;
    wanted.push_back(slots_json(demand, actor.spec().class_name, true, 1));
  }
  return wanted;
}

// Those that lost bundles first, then by priority, then in the order in which they came.
Json groups_json(const Parts& parts) {
  std::vector<const scheduler::Groups::Row*> waiting;
  for (const auto& [id, row] : parts.scheduler.groups().rows()) {
    if (!row.complete() && !row.removing) waiting.push_back(&row);
  }
  std::ranges::sort(waiting, {}, [](const auto* row) {
    return std::tuple(!row->lost, -std::int64_t{row->spec.priority}, row->sequence);
  });
  Json groups = Json::array();
  for (const auto* row : waiting) {
    Json json = {{"placement_group_id", row->spec.id.hex()},
                 {"name", row->spec.name},
                 {"strategy", to_string(row->spec.strategy)},
                 {"program", row->spec.program.hex()},
                 {"bundles", Json::array()}};
    for (std::size_t i = 0; i < row->spec.bundles.size(); ++i) {
      Json bundle = {{"request", request_json(row->spec.bundles[i])}};
      if (!row->places[i].node.empty()) {
        bundle["node_id"] = row->places[i].node.hex();
        bundle["held"] = shares_json(row->places[i].allocation);
      }
      json["bundles"].push_back(std::move(bundle));
    }
    groups.push_back(std::move(json));
  }
  return groups;
}

}  // namespace

std::string planner_json(const Parts& parts) {
  Json json = document("PlannerState");
  json["nodes"] = nodes_json(parts);
  json["slots"] = wanted_json(parts);
  json["groups"] = groups_json(parts);
  json["warnings"] = Json::array();
  if (parts.nodes.recovering()) {
    json["warnings"].push_back(
        fmt::format("the head is recovering and waits for {} nodes", parts.nodes.expected()));
  }
  return text_of(json);
}

}  // namespace mobula::internal::head
