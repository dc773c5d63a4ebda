#include "head/core/view/devices/device_json.h"

#include <map>
#include <set>
#include <tuple>

#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

// Orders isolations by all members.
struct ByFields {
  static auto key(const Isolation& of) {
    return std::tuple(of.prevents, of.detects, of.detect_period_ms, of.reacts);
  }
  bool operator()(const Isolation& a, const Isolation& b) const { return key(a) < key(b); }
};
using Isolations = std::set<Isolation, ByFields>;

Json isolation_json(const Isolation& isolation) {
  Json json = {{"prevents", to_string(isolation.prevents)},
               {"detects", to_string(isolation.detects)},
               {"reacts", to_string(isolation.reacts)},
               {"summary", to_string(isolation)}};
  if (isolation.detect_period_ms > 0) json["detect_period_ms"] = isolation.detect_period_ms;
  return json;
}

std::string text_of_all(const Isolations& isolations) {
  std::string text;
  for (const auto& each : isolations) text += (text.empty() ? "" : "; ") + to_string(each);
  return text;
}

// Calls `visit(resource, share, instance)` for each held accelerator.
template <class Visit>
void for_each_held_device(const Allocation& allocation, const NodeShape& of, const Visit& visit) {
  for (const auto& held : allocation.resources) {
    const auto* resource = of.find(held.name);
    if (resource == nullptr || !is_unit_instance(held.name)) continue;
    for (const auto& share : held.shares) {
      if (share.index < resource->instances.size()) {
        visit(held.name, share, resource->instances[share.index]);
      }
    }
  }
}

}  // namespace

Json devices_json(const NodeShape& shape) {
  Json json = Json::object();
  for (const auto& resource : shape.resources) {
    if (!resource.in_instances()) continue;
    Json devices = Json::array();
    for (const auto& each : resource.instances) {
      Json device = {{"id", each.visible_id}, {"total", number(each.total)}};
      if (!each.types.empty()) device["types"] = each.types;
      if (each.memory_bytes > 0) device["memory_bytes"] = each.memory_bytes;
      if (each.context_bytes > 0) device["context_bytes"] = each.context_bytes;
      if (!each.uuid.empty()) device["uuid"] = each.uuid;
      if (each.island >= 0) device["island"] = each.island;
      if (!resource.vendor.empty()) device["vendor"] = resource.vendor;
      if (is_unit_instance(resource.name)) {
        device["isolation"] = isolation_json(each.isolation_of(each.total));
      }
      devices.push_back(std::move(device));
    }
    json[resource.name] = std::move(devices);
  }
  return json;
}

Json policy_json(const DevicePolicy& policy) {
  return {{"unasked_devices", policy.hide_unasked ? "hidden" : "shown"},
          {"variables_left_alone", policy.left_alone}};
}

Json instances_json(const Allocation& allocation, const NodeShape& of) {
  Json instances = Json::object();
  for (const auto& share : allocation.resources) {
    const auto* shape = of.find(share.name);
    if (shape == nullptr || !shape->in_instances()) continue;
    Json indices = Json::array();
    for (const auto& each : share.shares) indices.push_back(each.index);
    instances[share.name] = std::move(indices);
  }
  return instances;
}

Json held_devices_json(const Allocation& allocation, const NodeShape& of) {
  Json held = Json::object();
  for_each_held_device(
      allocation, of,
      [&](const std::string& resource, const InstanceShare& share, const InstanceShape& device) {
        Json json = {{"index", share.index},
                     {"id", device.visible_id},
                     {"amount", number(share.amount)},
                     {"isolation", isolation_json(device.isolation_of(share.amount))}};
        if (device.memory_bytes > 0) json["memory_bytes"] = share.memory_bytes;
        held[resource].push_back(std::move(json));
      });
  return held;
}

std::string isolation_text(const NodeShape& shape) {
  Isolations isolations;
  for (const auto& resource : shape.resources) {
    if (!is_unit_instance(resource.name)) continue;
    for (const auto& each : resource.instances) {
      if (each.total > Quantity()) isolations.insert(each.isolation_of(each.total));
    }
  }
  return text_of_all(isolations);
}

std::string isolation_text(const Allocation& allocation, const NodeShape& of) {
  Isolations isolations;
  for_each_held_device(
      allocation, of,
      [&](const std::string&, const InstanceShare& share, const InstanceShape& device) {
        isolations.insert(device.isolation_of(share.amount));
      });
  return text_of_all(isolations);
}

Json gpus_json(const NodeTable& nodes) {
  struct Sum {
    std::int64_t devices = 0, memory_bytes = 0;
  };
  std::map<Isolation, Sum, ByFields> sums;
  for (const auto& [id, node] : nodes.rows()) {
    const auto* gpus = node.shape.find(resource::gpu);
    if (gpus == nullptr || !node.slots_allowed() || node.state == NodeState::dead) continue;
    for (const auto& each : gpus->instances) {
      if (each.total == Quantity()) continue;  // held by another node
      auto& sum = sums[each.isolation_of(each.total)];
      ++sum.devices;
      sum.memory_bytes += each.memory_bytes;
    }
  }
  Json json = Json::array();
  for (const auto& [isolation, sum] : sums) {
    json.push_back({{"devices", sum.devices}, {"memory_bytes", sum.memory_bytes}});
    json.back().update(isolation_json(isolation));
  }
  return json;
}

}  // namespace mobula::internal::head
