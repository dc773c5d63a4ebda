#include "head/core/view/requests/group_json.h"

#include <fmt/format.h>

#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

Json bundle_json(const Group& group, std::size_t index, const scheduler::Scheduler& scheduler) {
  const Request& bundle = group.spec.bundles[index];
  Json json = {{"index", index}, {"resources", Json::object()}, {"node_id", nullptr}};
  for (const auto& [name, amount] : bundle.resources.amounts())
    json["resources"][name] = number(amount);
  if (bundle.gpu_memory > 0) json["gpu_memory"] = bundle.gpu_memory;
  if (!bundle.accelerator_type.empty()) json["accelerator_type"] = bundle.accelerator_type;
  if (!bundle.label_selector.empty()) json["label_selector"] = bundle.label_selector;
  const auto* capacity =
      scheduler.cluster().capacity(group.spec.id, static_cast<std::int32_t>(index));
  if (capacity == nullptr) return json;
  json["node_id"] = capacity->node.hex();
  json["available"] = Json::object();
  for (const auto& name : capacity->ledger.names()) {
    json["available"][name] = number(std::max(capacity->ledger.available(name), Quantity()));
  }
  const auto* row = scheduler.groups().find(group.spec.id);
  json["instances"] = Json::object();
  for (const auto& share : row->locations[index].allocation.resources) {
    if (!capacity->ledger.in_instances(share.name)) continue;
    for (const auto& each : share.shares) json["instances"][share.name].push_back(each.index);
  }
  return json;
}

Json group_facts_json(const Group& group) {
  const GroupSpec& spec = group.spec;
  return {{"placement_group_id", spec.id.hex()},
          {"state", to_string(group.state)},
          {"name", spec.name},
          {"name_space", spec.name_space},
          {"strategy", to_string(spec.strategy)},
          {"job_id", spec.job.hex()},
          {"detached", spec.detached},
          {"priority", spec.priority}};
}

bool waits(const Group& group) {
  return group.state == GroupState::pending || group.state == GroupState::rescheduling;
}

void add_group_reason(Json& json, const Group& group, const scheduler::Scheduler& scheduler) {
  json["infeasible"] = group.infeasible;
  json["reason"] =
      waits(group) && group.why.empty() ? scheduler.groups().why_waiting(group.spec.id) : group.why;
}

// Appends the action of the autoscaler for a group that waits.
void add_group_action(Json& json, const Group& group, const HeadTables& tables) {
  if (!waits(group)) return;
  const std::string action = tables.fleet.reason_of(group.spec.id);
  if (action.empty()) return;
  const std::string reason = json["reason"].get<std::string>();
  json["reason"] = fmt::format("{}{}autoscaler: {}", reason, reason.empty() ? "" : "; ", action);
}

}  // namespace

Json group_json(const Group& group, const scheduler::Scheduler& scheduler) {
  Json json = group_facts_json(group);
  json["bundles"] = Json::array();
  for (std::size_t i = 0; i < group.spec.bundles.size(); ++i) {
    json["bundles"].push_back(bundle_json(group, i, scheduler));
  }
  add_group_reason(json, group, scheduler);
  return json;
}

Json listed_group_json(const HeadTables& tables, const Group& group) {
  Json json = group_json(group, tables.scheduler);
  add_group_action(json, group, tables);
  return json;
}

Json group_row_json(const HeadTables& tables, const Group& group) {
  Json json = group_facts_json(group);
  const auto* placed = tables.scheduler.cluster().bundles_of(group.spec.id);
  json["bundle_count"] = group.spec.bundles.size();
  json["placed_bundles"] = placed == nullptr ? 0 : placed->capacities.size();
  if (!group.spec.bundles.empty()) json["each"] = resources_json(group.spec.bundles[0].resources);
  add_group_reason(json, group, tables.scheduler);
  add_group_action(json, group, tables);
  return json;
}

}  // namespace mobula::internal::head
