#include "deploy/fleet/planner_state.h"

#include <set>

namespace mobula::internal::fleet {
namespace {

using Json = nlohmann::ordered_json;

Quantity amount_of(const Json& value) {
  const auto amount = Quantity::from_double(value.get<double>());
  if (!amount) throw std::invalid_argument(amount.error().text);
  return *amount;
}

ResourceSet amounts_of(const Json& value) {
  ResourceSet amounts;
  for (const auto& [name, each] : value.items()) amounts.set(name, amount_of(each));
  return amounts;
}

template <class Made>
Made id_of(const Json& value) {
  const auto id = Made::from_hex(value.get<std::string>());
  if (!id) throw std::invalid_argument("'" + value.get<std::string>() + "' is not an id");
  return *id;
}

Request request_of(const Json& json) {
  Request request;
  request.resources = amounts_of(json.at("resources"));
  if (json.contains("required_totals")) {
    request.required_totals = amounts_of(json["required_totals"]);
  }
  request.gpu_memory = json.value("gpu_memory", std::int64_t{0});
  request.accelerator_type = json.value("accelerator_type", std::string());
  if (json.contains("label_selector")) json["label_selector"].get_to(request.label_selector);
  if (json.contains("fallback_selectors")) {
    json["fallback_selectors"].get_to(request.fallback_selectors);
  }
  if (json.value("spread", false)) request.strategy = SpreadStrategy{};
  if (json.contains("node_id")) {
    request.strategy =
        NodeAffinityStrategy{id_of<NodeId>(json["node_id"]), json.value("soft", false)};
  }
  return request;
}

// Parses [name, index, amount, bytes], the rows of one resource in sequence.
Allocation allocation_of(const Json& rows) {
  Allocation made;
  for (const auto& row : rows) {
    const auto name = row.at(0).get<std::string>();
    if (made.resources.empty() || made.resources.back().name != name) {
      made.resources.push_back({name, {}});
    }
    // A lender that resumed may have overdrawn; the deficit is at most the total.
    made.resources.back().shares.push_back(
        {row.at(1).get<std::uint32_t>(), amount_of(row.at(2)), row.at(3).get<std::int64_t>()});
  }
  return made;
}

NodeShape shape_of(const Json& json) {
  NodeShape shape;
  for (const auto& row : json.at("resources")) {
    ResourceShape resource{row.at("name").get<std::string>(), {}, row.at("unit").get<bool>()};
    for (const auto& each : row.at("instances")) {
      InstanceShape instance;
      instance.total = amount_of(each.at("total"));
      each.at("types").get_to(instance.types);
      each.at("memory_bytes").get_to(instance.memory_bytes);
      each.at("context_bytes").get_to(instance.context_bytes);
      each.at("island").get_to(instance.island);
      resource.instances.push_back(std::move(instance));
    }
    shape.resources.push_back(std::move(resource));
  }
  json.at("accelerator_types").get_to(shape.accelerator_types);
  json.at("labels").get_to(shape.labels);
  json.at("task_executors").get_to(shape.task_executors);
  json.at("actor_executors").get_to(shape.actor_executors);
  return shape;
}

planner::ClusterNode node_of(const Json& json) {
  planner::ClusterNode node;
  node.id = id_of<NodeId>(json.at("node_id"));
  node.shape = shape_of(json.at("shape"));
  const auto label = node.shape.labels.find(planner::node_type_label);
  if (label != node.shape.labels.end()) node.type = label->second;
  node.beside_head = node.shape.find("node:__internal_head__") != nullptr;
  node.phase =
      json.at("usable").get<bool>() ? planner::NodePhase::running : planner::NodePhase::leaving;
  node.draining = json.value("draining", false);
  node.held = allocation_of(json.at("held"));
  json.at("task_slots").get_to(node.task_slots);
  json.at("blocked_task_slots").get_to(node.blocked_task_slots);
  json.at("actor_slots").get_to(node.actor_slots);
  if (!json.at("idle_ms").is_null()) node.idle = json["idle_ms"].get<std::int64_t>() * 1ms;
  for (const auto& each : json.at("cannot_start")) {
    node.cannot_start.push_back(id_of<ProgramId>(each));
  }
  return node;
}

planner::WantedSlots slots_of(const Json& json) {
  planner::WantedSlots slots;
  slots.demand.id = id_of<ClassId>(json.at("class_id"));
  slots.demand.program = id_of<ProgramId>(json.at("program"));
  slots.demand.request = request_of(json.at("request"));
  slots.tenant = json.at("actor").get<bool>() ? scheduler::Tenant::actor : scheduler::Tenant::task;
  json.at("count").get_to(slots.count);
  slots.held = json.value("held", std::int64_t{0});
  slots.stalled = json.value("stalled_ms", std::int64_t{0}) * 1ms;
  if (json.contains("allowed")) slots.allowed = json["allowed"].get<std::int64_t>();
  if (json.contains("mean_run_us")) slots.mean_run = json["mean_run_us"].get<std::int64_t>() * 1us;
  return slots;
}

GroupStrategy strategy_of(const std::string& text) {
  for (const auto each : {GroupStrategy::pack, GroupStrategy::spread, GroupStrategy::strict_pack,
                          GroupStrategy::strict_spread}) {
    if (to_string(each) == text) return each;
  }
  throw std::invalid_argument("'" + text + "' is not a strategy");
}

planner::WantedGroup group_of(const Json& json) {
  planner::WantedGroup group;
  group.spec.id = id_of<GroupId>(json.at("placement_group_id"));
  group.spec.program = id_of<ProgramId>(json.at("program"));
  group.spec.name = json.at("name").get<std::string>();
  group.spec.strategy = strategy_of(json.at("strategy").get<std::string>());
  for (const auto& bundle : json.at("bundles")) {
    group.spec.bundles.push_back(request_of(bundle.at("request")));
    BundleLocation location;
    if (bundle.contains("node_id")) {
      location.node = id_of<NodeId>(bundle["node_id"]);
      location.allocation = allocation_of(bundle.at("held"));
    }
    group.locations.push_back(std::move(location));
  }
  return group;
}

}  // namespace

Result<PlannerState> planner_state_of(const Json& document) {
  try {
    PlannerState state;
    for (const auto& each : document.at("nodes")) state.cluster.nodes.push_back(node_of(each));
    for (const auto& each : document.at("slots")) {
      state.cluster.slots.push_back(slots_of(each));
      state.names[state.cluster.slots.back().demand.id.hex()] = each.value("name", std::string());
    }
    for (const auto& each : document.at("groups")) {
      state.cluster.groups.push_back(group_of(each));
      state.names[state.cluster.groups.back().spec.id.hex()] = each.value("name", std::string());
    }
    for (const auto& each : document.at("warnings")) state.warnings.push_back(each);
    // Absent in the answer of an older head.
    for (const auto& each : document.value("dead_instances", Json::array()))
      state.dead_instances.push_back(each);
    return state;
  } catch (const std::exception& why) {
    return failure(ErrorCode::corrupt, std::string("read the head's planner state: ") + why.what());
  }
}

void add_objects(PlannerState& state, const Json& objects) {
  std::set<std::string> holders;
  for (const auto& each : objects.value("items", Json::array())) {
    holders.insert(each.value("node_id", std::string()));
  }
  const bool whole = objects.value("warnings", Json::array()).empty();
  for (auto& node : state.cluster.nodes) {
    node.has_objects = !whole || holders.contains(node.id.hex());
  }
  if (!whole) {
    state.warnings.push_back(
        "plan: the list of stored objects is incomplete, so no node is removed");
  }
}

}  // namespace mobula::internal::fleet
