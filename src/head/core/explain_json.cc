#include "head/core/explain_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "head/core/documents.h"
#include "head/core/group_json.h"
#include "head/core/request_json.h"

namespace mobula::internal::head {
namespace {

Json reason_json(const NodeReason& each) {
  return {{"node_id", each.node.hex()},
          {"code", to_string(each.reason.code)},
          {"what", each.reason.what},
          {"needed", number(each.reason.needed)},
          {"available", number(each.reason.available)},
          {"reason", to_string(each.reason)}};
}

// Who holds a slot that is in the way.
Json holder_json(const Parts& parts, const scheduler::Slot& slot) {
  Json json = {{"slot_id", slot.id.hex()}, {"node_id", slot.node.hex()}, {"job_id", id_json(slot.job)}};
  const auto is = [&](const char* kind, const std::string& name, const std::string& id) {
    json["held_by"] = kind;
    json["name"] = name;
    json["id"] = id;
  };
  const Actor* actor = parts.actors.find(slot.actor);
  const auto demand = parts.slots.demands().find({slot.lessee, slot.class_id});
  if (!slot.bundle_of.empty()) {
    const Group* group = parts.groups.find(slot.bundle_of);
    is("placement group", group == nullptr ? "" : group->spec.name, slot.bundle_of.hex());
  } else if (!slot.actor.empty()) {
    is("actor", actor == nullptr ? "" : actor->spec().class_name, slot.actor.hex());
  } else {
    is("task", demand == parts.slots.demands().end() ? "" : demand->second.demand.example_name, slot.class_id.hex());
  }
  const Slot* row = parts.slots.find(slot.id);
  json["recalled"] = row != nullptr && (row->recalled || row->stopping);
  json["resources"] = resources_json(scheduler::amounts_of(slot.allocation));
  return json;
}

// What has to end before it fits.
Json holders_json(const Parts& parts, const std::vector<SlotId>& slots) {
  Json holders = Json::array();
  for (const auto id : slots) {
    if (holders.size() >= parts.options.max_listed) break;
    holders.push_back(holder_json(parts, *parts.scheduler.find_slot(id)));
  }
  return holders;
}

std::string leases_text(std::size_t count, const char* where) {
  return fmt::format("{} of {} leases {} ended", count, where, count == 1 ? "has" : "have");
}

// What a node has to have, for one that none can hold.
Json node_needed_json(const DemandClass& demand, scheduler::Tenant tenant) {
  const scheduler::Need need(demand.request, tenant);
  return {{"resources", resources_json(scheduler::most_held_by(need))},
          {"gpu_memory_bytes", demand.request.gpu_memory},
          {"accelerator_types", need.types},
          {"labels", demand.request.label_selector}};
}

std::string nodes_text(const std::set<NodeId>& nodes) {
  std::string text;
  for (const auto& node : nodes) text += (text.empty() ? "" : ", ") + node.hex();
  return (nodes.size() == 1 ? "node " : "nodes ") + text;
}

std::string reserved_text(const scheduler::GroupExplanation& explanation) {
  return fmt::format("room is kept for it on {}, until {} slot{} there come{} back",
                     nodes_text(explanation.reserved), explanation.slots_to_return,
                     explanation.slots_to_return == 1 ? "" : "s",
                     explanation.slots_to_return == 1 ? "s" : "");
}

std::string reason_of(const scheduler::GroupExplanation& explanation) {
  if (explanation.bundles.empty()) return "all bundles have their places";
  if (explanation.held_back) return to_string(*explanation.held_back);
  if (!explanation.reserved.empty()) return reserved_text(explanation);
  if (explanation.fits_now) return "it fits now";
  if (!explanation.feasible) return explanation.shortage;
  if (!explanation.obstacle) return "it fits when running work has ended";
  return fmt::format("it fits on {} when {}", nodes_text(explanation.obstacle_nodes),
                     leases_text(explanation.obstacle->size(), explanation.obstacle_nodes.size() == 1 ? "its" : "their"));
}

void add_warnings(const Parts& parts, Json& json) {
  if (!json.contains("warnings")) json["warnings"] = Json::array();
  if (parts.nodes.recovering()) {
    json["warnings"].push_back("the head is recovering: more nodes may come");
  }
}

// The same for a group, whether it exists or is only asked about: per bundle without a place the first rule
// that refuses on each node. Bundles that ask for the same are said once, of the first of them.
Json group_explanation_of(const Parts& parts, const GroupSpec& spec, Json subject) {
  const auto explanation = parts.scheduler.explain(spec);
  Json json = document("Explanation");
  json["subject"] = std::move(subject);
  ResourceSet sum;
  for (const auto& bundle : spec.bundles) {
    scheduler::add_at_most(sum, scheduler::most_held_by(scheduler::Need(bundle, scheduler::Tenant::bundle)));
  }
  json["resources"] = resources_json(sum);
  json["strategy"] = to_string(spec.strategy);
  json["feasible"] = explanation.feasible;
  json["fits_now"] = explanation.fits_now;
  json["reason"] = reason_of(explanation);
  json["items"] = Json::array();
  std::size_t left_out = 0;
  for (const auto& bundle : explanation.bundles) {
    for (const auto& each : bundle.nodes) {
      if (json["items"].size() >= parts.options.max_listed) {
        ++left_out;
        continue;
      }
      Json item = {{"bundle", bundle.bundle}};
      if (bundle.alike > 0) item["alike"] = bundle.alike;
      item.update(reason_json(each));
      json["items"].push_back(std::move(item));
    }
  }
  if (explanation.obstacle) json["holders"] = holders_json(parts, *explanation.obstacle);
  json["warnings"] = Json::array();
  if (left_out > 0) {
    json["warnings"].push_back(fmt::format("{} reasons of bundles and nodes are left out", left_out));
  }
  add_warnings(parts, json);
  return json;
}

}  // namespace

Json explanation_of(const Parts& parts, const DemandClass& demand, scheduler::Tenant tenant,
                    Json subject) {
  const auto explanation = parts.scheduler.explain(demand, tenant);
  const auto fits = [](const NodeReason& each) { return each.reason.code == ReasonCode::fits; };
  const bool fits_now =
      !explanation.held_back && std::ranges::any_of(explanation.nodes, fits);
  Json json = document("Explanation");
  json["subject"] = std::move(subject);
  json["resources"] = resources_json(demand.request.resources);
  json["priority"] = demand.request.priority;
  json["feasible"] = explanation.feasible;
  json["fits_now"] = fits_now;
  if (explanation.held_back && (explanation.feasible || explanation.never_allowed)) {
    json["reason"] = to_string(*explanation.held_back);
  } else {
    json["reason"] = fits_now               ? "it fits now"
                     : explanation.feasible ? "it fits when running work has ended"
                                            : summary_of(demand.request, explanation.nodes);
  }
  json["items"] = Json::array();
  for (const auto& each : explanation.nodes) json["items"].push_back(reason_json(each));
  if (const auto& obstacle = explanation.obstacle; obstacle && !explanation.held_back) {
    json["reason"] = fmt::format("it fits on node {} when {}", obstacle->node.hex(),
                                 leases_text(obstacle->slots.size(), "its"));
    json["holders"] = holders_json(parts, obstacle->slots);
  }
  if (!explanation.feasible && !explanation.never_allowed && demand.request.placement.group.empty()) {
    json["node_needed"] = node_needed_json(demand, tenant);
  }
  const Group* group = parts.groups.find(demand.request.placement.group);
  if (group != nullptr && group->state == GroupState::pending) {
    const Json why = group_explanation_of(parts, group->spec, nullptr);
    json["feasible"] = why["feasible"];
    json["reason"] = "its placement group waits: " + why["reason"].get<std::string>();
  }
  add_warnings(parts, json);
  return json;
}

Result<std::string> explain_json(const Parts& parts, const std::string& argument) {
  if (const auto bits = bits_from_hex(argument)) {
    if (const Actor* actor = parts.actors.find(ActorId(*bits))) {
      return text_of(explanation_of(parts, actor->spec().demand, scheduler::Tenant::actor,
                                    actor_json(*actor)));
    }
    if (const Group* group = parts.groups.find(GroupId(*bits))) {
      return text_of(group_explanation_of(parts, group->spec, group_json(*group, parts.scheduler)));
    }
    for (const auto& [key, row] : parts.slots.demands()) {
      if (key.second != ClassId(*bits)) continue;
      return text_of(explanation_of(parts, row.demand.demand_class, scheduler::Tenant::task,
                                    demand_json(parts, row)));
    }
    return failure(ErrorCode::not_found,
                   fmt::format("explain {}: no actor and no placement group has this id, and no task "
                               "of such a class waits for a slot",
                               argument));
  }
  auto asked = asked_from_json(argument);
  if (!asked) return asked.error();
  if (const auto* group = std::get_if<GroupSpec>(&*asked)) {
    return text_of(group_explanation_of(parts, *group, nullptr));
  }
  DemandClass demand;
  demand.request = std::move(std::get<Request>(*asked));
  return text_of(explanation_of(parts, demand, scheduler::Tenant::task, nullptr));
}

}  // namespace mobula::internal::head
