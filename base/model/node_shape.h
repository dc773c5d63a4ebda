// The resources of a node by instance, and the part of them that a slot holds.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/model/jobs/isolation.h"
#include "base/model/request.h"
#include "base/model/resources.h"

namespace mobula::internal {

// Default memory of one context on a GPU. A context of CUDA 12 takes some 300 to 600 MiB, depending
// on device and driver.
inline constexpr std::int64_t default_context_bytes = std::int64_t{640} << 20;

// One GPU, Neuron core, ... or, for resources without instances, the whole amount.
struct InstanceShape {
  Quantity total;
  std::string visible_id;          // id in the mask variable: "0", "GPU-…", "MIG-…"
  std::vector<std::string> types;  // accelerator types: "H100", "H100-80G"; empty: unknown
  std::int64_t memory_bytes = 0;   // device memory for requests; 0: not accounted
  std::int32_t island = -1;        // devices with an equal number form an island; -1: unknown
  std::string uuid{};              // UUID of the physical device, if the vendor has one
  Isolation isolation{};           // isolation of a holder of the whole instance
  // Memory of the context of one process, accounted in addition to the requested bytes. 0: none, as
  // on a logical device.
  std::int64_t context_bytes = 0;
  MOBULA_FIELDS(total, visible_id, types, memory_bytes, island, uuid, isolation, context_bytes);
  friend bool operator==(const InstanceShape&, const InstanceShape&) = default;

  // Isolation of a holder of `amount`: MIG limits the whole slice, not a fraction of it.
  Isolation isolation_of(Quantity amount) const {
    Isolation of = isolation;
    if (of.prevents == Prevents::mig && amount < Quantity::whole(1))
      of.prevents = Prevents::nothing;
    return of;
  }
};

struct ResourceShape {
  std::string name;
  std::vector<InstanceShape> instances;  // one entry, or one per unit
  bool unit = false;                     // counted in numbered instances, whatever the name
  std::string vendor{};                  // VendorRow::name; empty: derived from the resource
  MOBULA_FIELDS(name, instances, unit, vendor);
  friend bool operator==(const ResourceShape&, const ResourceShape&) = default;

  bool in_instances() const { return unit || is_unit_instance(name); }
};

// Policy of a node for devices that are not part of a slot.
struct DevicePolicy {
  bool hide_unasked = true;  // false: a slot without devices sees the devices of the agent
  std::vector<std::string> left_alone{};  // mask variables that are never set on this node
  MOBULA_FIELDS(hide_unasked, left_alone);
  friend bool operator==(const DevicePolicy&, const DevicePolicy&) = default;
};

// Fabric of nodes that name none, if the head declares that it trusts the whole cluster.
inline constexpr std::string_view cluster_fabric = "cluster";

struct NodeShape {
  std::vector<ResourceShape> resources;  // ordered by name, each name once
  // types of the node as a whole, with or without devices
  std::vector<std::string> accelerator_types;
  Labels labels;
  std::int32_t task_executors = 0;   // limit on executors that run tasks at one time; 0: none
  std::int32_t actor_executors = 0;  // limit on executors of actors
  DevicePolicy device_policy{};
  // trusted network that the node declares; bytes to nodes on the same fabric are plain
  std::string fabric{};
  MOBULA_FIELDS(resources, accelerator_types, labels, task_executors, actor_executors,
                device_policy, fabric);
  friend bool operator==(const NodeShape&, const NodeShape&) = default;

  const ResourceShape* find(std::string_view name) const {
    for (const auto& each : resources) {
      if (each.name == name) return &each;
    }
    return nullptr;
  }
  Quantity total(std::string_view name) const {
    Quantity sum;
    if (const auto* shape = find(name)) {
      for (const auto& instance : shape->instances) sum += instance.total;
    }
    return sum;
  }
};

struct InstanceShare {
  std::uint32_t index = 0;
  Quantity amount;
  std::int64_t memory_bytes = 0;  // device memory accounted on this instance
  MOBULA_FIELDS(index, amount, memory_bytes);
  friend bool operator==(const InstanceShare&, const InstanceShare&) = default;
};

struct ResourceShare {
  std::string name;
  std::vector<InstanceShare> shares;
  MOBULA_FIELDS(name, shares);
  friend bool operator==(const ResourceShare&, const ResourceShare&) = default;
};

// The resources that one slot holds of its node, or of a bundle there, ordered by name.
struct Allocation {
  std::vector<ResourceShare> resources;
  GroupId group;  // group of the bundle; empty: allocated from the node
  std::int32_t bundle = -1;
  MOBULA_FIELDS(resources, group, bundle);
  friend bool operator==(const Allocation&, const Allocation&) = default;

  const ResourceShare* find(std::string_view name) const {
    for (const auto& each : resources) {
      if (each.name == name) return &each;
    }
    return nullptr;
  }
};

}  // namespace mobula::internal
