#include "head/core/view/group_json.h"

#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

Json bundle_json(const Group& group, std::size_t index, const scheduler::Scheduler& scheduler) {
  const Request& asked = group.spec.bundles[index];
  Json json = {{"index", index}, {"resources", Json::object()}, {"node_id", nullptr}};
  for (const auto& [name, amount] : asked.resources.amounts())
    json["resources"][name] = number(amount);
  if (asked.gpu_memory > 0) json["gpu_memory"] = asked.gpu_memory;
  if (!asked.accelerator_type.empty()) json["accelerator_type"] = asked.accelerator_type;
  if (!asked.label_selector.empty()) json["label_selector"] = asked.label_selector;
  const auto* room = scheduler.cluster().room(group.spec.id, static_cast<std::int32_t>(index));
  if (room == nullptr) return json;
  json["node_id"] = room->node.hex();
  json["available"] = Json::object();
  for (const auto& name : room->ledger.names()) {
    json["available"][name] = number(std::max(room->ledger.available(name), Quantity()));
  }
  const auto* row = scheduler.groups().find(group.spec.id);
  json["instances"] = Json::object();
  for (const auto& share : row->places[index].allocation.resources) {
    if (!room->ledger.in_instances(share.name)) continue;
    for (const auto& each : share.shares) json["instances"][share.name].push_back(each.index);
  }
  return json;
}

}  // namespace

Json group_json(const Group& group, const scheduler::Scheduler& scheduler) {
  const GroupSpec& spec = group.spec;
  Json json = {{"placement_group_id", spec.id.hex()},
               {"state", to_string(group.state)},
               {"name", spec.name},
               {"name_space", spec.name_space},
               {"strategy", to_string(spec.strategy)},
               {"job_id", spec.job.hex()},
               {"detached", spec.detached},
               {"priority", spec.priority},
               {"bundles", Json::array()}};
  for (std::size_t i = 0; i < spec.bundles.size(); ++i) {
    json["bundles"].push_back(bundle_json(group, i, scheduler));
  }
  json["infeasible"] = group.infeasible;
  const bool waits = group.state == GroupState::pending || group.state == GroupState::rescheduling;
  json["reason"] = waits && group.why.empty() ? scheduler.groups().why_waiting(spec.id) : group.why;
  return json;
}

}  // namespace mobula::internal::head
