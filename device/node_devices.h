// Numbered instances of one resource of a node: their devices, their amounts, and their names in
// masks.
// Thread: any (pure).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/model/node_shape.h"
#include "base/quantity.h"
#include "base/result.h"
#include "device/detection/accelerator_device.h"
#include "device/visible_list.h"

namespace mobula::internal {

// Values requested at the start of the node. An empty value means the amount of the machine.
struct NodeRequest {
  std::optional<Quantity> num_cpus{};
  std::optional<Quantity> num_gpus{};
  std::optional<std::uint64_t> memory_bytes{};
  std::optional<std::uint64_t> gpu_memory_bytes{};  // bytes of each GPU that requests can reserve
  // CUDA context bytes of each process on a GPU. Empty: default_context_bytes for a device, 0 for a
  // logical one.
  std::optional<std::uint64_t> gpu_context_bytes{};
  // Type of every GPU, in place of the detected one; on a node without GPUs, type of devices
  // without a detected type.
  std::string accelerator_type{};
  ResourceSet resources{};  // custom resources, accelerators that are not GPUs, accelerator_type:T
  std::set<std::string> in_units{};  // names among them that have numbered instances
  Labels labels{};
  std::string address{};     // host or IP: the node offers 1 of node:<address>
  bool beside_head = false;  // and 1 of node:__internal_head__

  // From the agent's environment (`node_environment.h`).
  Environment accelerator_variables{};
  std::optional<Vendor> gpu_vendor{};  // empty: the first vendor with devices
  DevicePolicy device_policy{};
};

// Shape with `requested` units, or with the visible ones of `devices`. Fails with invalid_argument
// as `node_shape` does.
Result<ResourceShape> device_shape(const VendorRow& vendor,
                                   const std::vector<AcceleratorDevice>& devices,
                                   const NodeRequest& request, std::optional<Quantity> requested,
                                   bool has_gpus);
// Custom resource without devices: ids "0", "1", …
Result<ResourceShape> unit_shape(const std::string& name, Quantity total);

}  // namespace mobula::internal
