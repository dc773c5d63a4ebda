// What a node has, instance by instance, and what a slot was given of it. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "model/isolation.h"
#include "model/request.h"
#include "model/resources.h"

namespace mobula::internal {

// Of a GPU, unless the node says otherwise. What CUDA 12 takes for a context is some 300 to 600 MiB, by
// device and driver.
inline constexpr std::int64_t default_context_bytes = std::int64_t{640} << 20;

// One GPU, Neuron core, ... or, for resources without instances, the whole amount.
struct InstanceShape {
  Quantity total;
  std::string visible_id;          // the entry its mask variable takes: "0", "GPU-…", "MIG-…"
  std::vector<std::string> types;  // accelerator types: "H100", "H100-80G"; empty: unknown
  std::int64_t memory_bytes = 0;   // device memory that requests can book; 0: not counted
  std::int32_t island = -1;        // devices of one island are close to each other; -1: unknown
  std::string uuid{};              // of the physical device, where the vendor gives it one
  Isolation isolation{};           // of whoever holds all of it
  // What the context of one process takes of memory_bytes: booked beside the bytes that a request may
  // allocate. 0: nothing, as on a logical device.
  std::int64_t context_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("total", &InstanceShape::total), field("visible_id", &InstanceShape::visible_id),
        field("types", &InstanceShape::types), field("memory_bytes", &InstanceShape::memory_bytes),
        field("island", &InstanceShape::island), field("uuid", &InstanceShape::uuid),
        field("isolation", &InstanceShape::isolation),
        field("context_bytes", &InstanceShape::context_bytes));
  }
  friend bool operator==(const InstanceShape&, const InstanceShape&) = default;

  // Of whoever holds `amount` of it: what MIG bounds is the slice, not a part of one.
  Isolation isolation_of(Quantity amount) const {
    Isolation of = isolation;
    if (of.prevents == Prevents::mig && amount < Quantity::whole(1)) of.prevents = Prevents::nothing;
    return of;
  }
};

struct ResourceShape {
  std::string name;
  std::vector<InstanceShape> instances;  // one entry, or one for each unit
  bool unit = false;                     // counted in numbered instances, whatever its name
  std::string vendor{};                  // VendorRow::name; empty: by the resource's name
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("name", &ResourceShape::name),
                 field("instances", &ResourceShape::instances), field("unit", &ResourceShape::unit),
                 field("vendor", &ResourceShape::vendor));
  }
  friend bool operator==(const ResourceShape&, const ResourceShape&) = default;

  bool in_instances() const { return unit || is_unit_instance(name); }
};

// What a node does about devices that a slot was not given.
struct DevicePolicy {
  bool hide_unasked = true;               // else a slot without devices sees what the agent sees
  std::vector<std::string> left_alone{};  // mask variables that are never set on this node
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("hide_unasked", &DevicePolicy::hide_unasked),
                 field("left_alone", &DevicePolicy::left_alone));
  }
  friend bool operator==(const DevicePolicy&, const DevicePolicy&) = default;
};

// What nodes are on that say nothing themselves, where the head says that the whole cluster is trusted.
inline constexpr std::string_view cluster_fabric = "cluster";

struct NodeShape {
  std::vector<ResourceShape> resources;        // ordered by name, each name once
  std::vector<std::string> accelerator_types;  // types of the node as a whole, devices or not
  Labels labels;
  std::int32_t task_executors = 0;   // bound on executors that run tasks at once; 0: none
  std::int32_t actor_executors = 0;  // bound on actors
  DevicePolicy device_policy{};
  std::string fabric{};  // the trusted network that it says it is on; bytes go plain to nodes that say the same
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("resources", &NodeShape::resources),
                 field("accelerator_types", &NodeShape::accelerator_types),
                 field("labels", &NodeShape::labels),
                 field("task_executors", &NodeShape::task_executors),
                 field("actor_executors", &NodeShape::actor_executors),
                 field("device_policy", &NodeShape::device_policy), field("fabric", &NodeShape::fabric));
  }
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
  std::int64_t memory_bytes = 0;  // device memory booked on this instance
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("index", &InstanceShare::index), field("amount", &InstanceShare::amount),
                 field("memory_bytes", &InstanceShare::memory_bytes));
  }
  friend bool operator==(const InstanceShare&, const InstanceShare&) = default;
};

struct ResourceShare {
  std::string name;
  std::vector<InstanceShare> shares;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("name", &ResourceShare::name), field("shares", &ResourceShare::shares));
  }
  friend bool operator==(const ResourceShare&, const ResourceShare&) = default;
};

// What one slot holds of its node, or of a bundle there, by resource name in order.
struct Allocation {
  std::vector<ResourceShare> resources;
  GroupId group;             // of the bundle; empty: taken from the node itself
  std::int32_t bundle = -1;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("resources", &Allocation::resources), field("group", &Allocation::group),
                 field("bundle", &Allocation::bundle));
  }
  friend bool operator==(const Allocation&, const Allocation&) = default;

  const ResourceShare* find(std::string_view name) const {
    for (const auto& each : resources) {
      if (each.name == name) return &each;
    }
    return nullptr;
  }
};

}  // namespace mobula::internal
