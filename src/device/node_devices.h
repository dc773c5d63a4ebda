// The numbered instances of one resource of a node: which devices they are, how much of each there
// is, and what masks call them. Pure; any thread.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "device/accelerator_device.h"
#include "device/visible_list.h"
#include "model/node_shape.h"

namespace mobula::internal {

// What was asked for at the start of the node. Without a value: what the machine has.
struct NodeRequest {
  std::optional<Quantity> num_cpus{};
  std::optional<Quantity> num_gpus{};
  std::optional<std::uint64_t> memory_bytes{};
  std::optional<std::uint64_t> gpu_memory_bytes{};  // of each GPU, for requests to book
  // Of each GPU, what the context of a process takes; nothing: default_context_bytes where there is a
  // device, 0 for logical ones.
  std::optional<std::uint64_t> gpu_context_bytes{};
  // Of every GPU, in place of what it says; on a node without GPUs, of the devices that say nothing.
  std::string accelerator_type{};
  ResourceSet resources{};           // custom ones, accelerators that are no GPUs, accelerator_type:T
  std::set<std::string> in_units{};  // of those, the ones counted in numbered instances
  Labels labels{};
  std::string address{};             // host or IP: the node offers 1 of node:<address>
  bool beside_head = false;          // and 1 of node:__internal_head__

  // From the agent's environment (node_environment.h).
  Environment accelerator_variables{};
  std::optional<Vendor> gpu_vendor{};  // nothing: the first that has devices
  DevicePolicy device_policy{};
};

// `requested` units, or what of `devices` is visible. invalid_argument as node_shape says.
Result<ResourceShape> device_shape(const VendorRow& vendor,
                                   const std::vector<AcceleratorDevice>& devices,
                                   const NodeRequest& request, std::optional<Quantity> requested,
                                   bool has_gpus);
// A custom resource, without devices behind it: ids "0", "1", …
Result<ResourceShape> unit_shape(const std::string& name, Quantity total);

}  // namespace mobula::internal
