#include "head/core/view/devices/gpu_map_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace mobula::internal::head {
namespace {

// A slot, or a bundle of a placement group.
struct GpuHolder {
  SlotId slot;
  GroupId group;
  std::size_t bundle = 0;
  InstanceShare share;
};

struct GpuShares {
  Quantity booked;    // by slots, also by those in bundles
  Quantity reserved;  // by bundles
  std::int64_t booked_bytes = 0;
  std::string over_share;
  std::vector<GpuHolder> holders;
};

using SharesByNode = std::map<NodeId, std::vector<GpuShares>>;

const std::vector<InstanceShape>* gpus_on_map(const Node& node) {
  const auto* gpus = node.shape.find(resource::gpu);
  const bool shown = node.slots_allowed() && node.state != NodeState::dead;
  return shown && gpus != nullptr && !gpus->instances.empty() ? &gpus->instances : nullptr;
}

template <class Visit>
void for_each_gpu_share(const Allocation& allocation, std::vector<GpuShares>& gpus,
                        const Visit& visit) {
  for (const auto& held : allocation.resources) {
    if (held.name != resource::gpu) continue;
    for (const auto& share : held.shares) {
      if (share.index < gpus.size()) visit(share, gpus[share.index]);
    }
  }
}

void add_slot_shares(const HeadTables& tables, NodeId node, std::vector<GpuShares>& gpus) {
  for (const SlotId id : tables.scheduler.slots_on(node)) {
    const Slot* row = tables.slots.find(id);
    if (row == nullptr) continue;  // a bundle
    for_each_gpu_share(tables.scheduler.find_slot(id)->allocation, gpus,
                       [&](const InstanceShare& share, GpuShares& gpu) {
                         gpu.booked += share.amount;
                         gpu.booked_bytes += share.memory_bytes;
                         if (gpu.over_share.empty()) gpu.over_share = row->over_share;
                         gpu.holders.push_back({.slot = id, .group = {}, .share = share});
                       });
  }
}

// Visits each group with a bundle on one of the nodes once.
void add_bundle_shares(const HeadTables& tables, SharesByNode& uses) {
  std::set<GroupId> groups;
  for (const auto& [node, gpus] : uses) {
    if (const auto* here = tables.scheduler.cluster().groups_on(node))
      groups.insert(here->begin(), here->end());
  }
  for (const GroupId id : groups) {
    const auto* row = tables.scheduler.groups().find(id);
    if (row == nullptr) continue;
    for (std::size_t i = 0; i < row->locations.size(); ++i) {
      const auto at = uses.find(row->locations[i].node);
      if (at == uses.end()) continue;
      for_each_gpu_share(
          row->locations[i].allocation, at->second,
          [&](const InstanceShare& share, GpuShares& gpu) {
            gpu.reserved += share.amount;
            gpu.holders.push_back({.slot = {}, .group = id, .bundle = i, .share = share});
          });
    }
  }
}

Json gpu_holder_json(const HeadTables& tables, const GpuHolder& holder) {
  Json json = {{"amount", number(holder.share.amount)}};
  if (holder.share.memory_bytes > 0) json["memory_bytes"] = holder.share.memory_bytes;
  if (const Group* group = tables.groups.find(holder.group)) {
    json["placement_group_id"] = holder.group.hex();
    json["name"] = group->spec.name;
    json["bundle"] = holder.bundle;
    json["state"] = to_string(group->state);
    json["job_id"] = group->spec.job.hex();
    return json;
  }
  json["slot_id"] = holder.slot.hex();
  const Slot* slot = tables.slots.find(holder.slot);
  if (slot == nullptr) return json;
  json["actor_id"] = id_json(slot->actor);
  json["state"] = slot->over_share.empty() ? state_of(*slot) : "OVER SHARE";
  json["job_id"] = slot->job.hex();
  return json;
}

Json gpu_holders_json(const HeadTables& tables, std::vector<GpuHolder>& holders) {
  std::ranges::stable_sort(holders, std::greater<>(),
                           [](const GpuHolder& each) { return each.share.amount; });
  Json json = Json::array();
  for (std::size_t i = 0; i < std::min(max_gpu_holders, holders.size()); ++i)
    json.push_back(gpu_holder_json(tables, holders[i]));
  return json;
}

Json map_device_json(const HeadTables& tables, const InstanceShape& device, GpuShares& use) {
  Json json = {{"id", device.visible_id},
               {"total", number(device.total)},
               {"booked", number(use.booked)},
               {"reserved", number(use.reserved)},
               {"holder_count", use.holders.size()},
               {"holders", gpu_holders_json(tables, use.holders)}};
  if (!device.types.empty()) json["types"] = device.types;
  if (!device.uuid.empty()) json["uuid"] = device.uuid;
  if (device.memory_bytes > 0) {
    json["memory_bytes"] = device.memory_bytes;
    json["booked_bytes"] = use.booked_bytes;
  }
  if (!use.over_share.empty()) json["over_share"] = use.over_share;
  return json;
}

// The latest samples, of at most 10 s ago.
void add_gpu_samples(const HeadTables& tables, NodeId node, Json& devices) {
  const auto sample = tables.samples.rows().find(node);
  if (sample == tables.samples.rows().end()) return;
  for (const auto& each : sample->second.devices) {
    if (each.device >= devices.size()) continue;
    devices[each.device]["used_bytes"] = each.used_bytes;
    if (each.busy_percent >= 0) devices[each.device]["busy_percent"] = each.busy_percent;
  }
}

Json map_node_json(const HeadTables& tables, const Node& node, std::vector<GpuShares>& uses) {
  const auto& gpus = *gpus_on_map(node);
  Json devices = Json::array();
  for (std::size_t i = 0; i < gpus.size(); ++i)
    devices.push_back(map_device_json(tables, gpus[i], uses[i]));
  add_gpu_samples(tables, node.id, devices);
  return {{"node_id", node.id.hex()},
          {"state", state_of(node)},
          {"address", node.address.control},
          {"host", node.host},
          {"devices", std::move(devices)}};
}

}  // namespace

void add_gpus_part(const HeadTables& tables, const ListPart& part, Json& json) {
  std::vector<const Node*> all;
  std::size_t gpus = 0;
  for (const auto& [id, node] : tables.nodes.rows()) {
    const auto* devices = gpus_on_map(node);
    if (devices == nullptr) continue;
    all.push_back(&node);
    gpus += devices->size();
  }
  const auto text_of = [](const Node& node) {
    std::string text =
        fmt::format("{} {} {} {}", node.host, node.address.control, node.id.hex(), state_of(node));
    for (const auto& type : gpus_on_map(node)->front().types) text += " " + type;
    return text;
  };
  const auto rows = part_of(
      json, part, all, [](const Node&) { return 0; }, text_of);
  SharesByNode uses;
  for (const Node* node : rows) {
    auto& here = uses[node->id];
    here.resize(gpus_on_map(*node)->size());
    add_slot_shares(tables, node->id, here);
  }
  add_bundle_shares(tables, uses);
  json["gpus"] = gpus;
  json["items"] = Json::array();
  for (const Node* node : rows)
    json["items"].push_back(map_node_json(tables, *node, uses[node->id]));
}

}  // namespace mobula::internal::head
