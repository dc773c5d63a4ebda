#include "device/mask.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/check.h"
#include "device/visible_list.h"

namespace mobula::internal {
namespace {

struct Vendor {
  std::string_view resource;
  GpuVendor gpu_vendor;  // of nodes whose GPU resource it is; unused for other resources
  std::string_view variable;
  std::string_view prefix;  // before the list
  bool on_every_node;
};

// AMD's runtime filters by ROCR_VISIBLE_DEVICES first and counts HIP_VISIBLE_DEVICES within what is
// left, so only one of them is set.
constexpr std::array<Vendor, 8> vendors{{
    {resource::gpu, GpuVendor::nvidia, "CUDA_VISIBLE_DEVICES", "", true},
    {resource::gpu, GpuVendor::amd, "HIP_VISIBLE_DEVICES", "", false},
    {resource::gpu, GpuVendor::intel, "ONEAPI_DEVICE_SELECTOR", "level_zero:", false},
    {resource::neuron_cores, {}, "NEURON_RT_VISIBLE_CORES", "", true},
    {"TPU", {}, "TPU_VISIBLE_CHIPS", "", false},
    {"HPU", {}, "HABANA_VISIBLE_MODULES", "", false},
    {"NPU", {}, "ASCEND_RT_VISIBLE_DEVICES", "", false},
    {"RBLN", {}, "RBLN_DEVICES", "", false},
}};

// Those above, and others that change what the same libraries see.
constexpr std::array<std::string_view, 13> refused{"CUDA_VISIBLE_DEVICES",
                                                   "CUDA_DEVICE_ORDER",
                                                   "NVIDIA_VISIBLE_DEVICES",
                                                   "HIP_VISIBLE_DEVICES",
                                                   "ROCR_VISIBLE_DEVICES",
                                                   "GPU_DEVICE_ORDINAL",
                                                   "ONEAPI_DEVICE_SELECTOR",
                                                   "ZE_AFFINITY_MASK",
                                                   "NEURON_RT_VISIBLE_CORES",
                                                   "TPU_VISIBLE_CHIPS",
                                                   "HABANA_VISIBLE_MODULES",
                                                   "ASCEND_RT_VISIBLE_DEVICES",
                                                   "RBLN_DEVICES"};

// Whether this vendor's variable speaks of devices that the node has.
bool concerns(const Vendor& vendor, const NodeShape& node, const MaskPolicy& policy) {
  if (vendor.on_every_node) return true;
  if (vendor.resource == resource::gpu && vendor.gpu_vendor != policy.gpu_vendor) return false;
  return node.find(vendor.resource) != nullptr;
}

}  // namespace

Environment device_environment(const NodeShape& node, const Allocation& allocation,
                               const MaskPolicy& policy) {
  Environment env;
  for (const Vendor& vendor : vendors) {
    if (!concerns(vendor, node, policy)) continue;
    std::vector<std::string> ids;
    if (vendor.resource != resource::gpu || vendor.gpu_vendor == policy.gpu_vendor) {
      ids = instance_ids(node, allocation, vendor.resource);
    }
    if (ids.empty() && !policy.hide_unasked) continue;
    std::string& value = env[std::string(vendor.variable)];
    if (!ids.empty()) value = std::string(vendor.prefix) + joined(ids);
  }
  // NVML, which counted the devices, goes by PCI address; CUDA alone would put the fastest first.
  if (env.contains("CUDA_VISIBLE_DEVICES")) env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  return env;
}

std::vector<std::string> instance_ids(const NodeShape& node, const Allocation& allocation,
                                      std::string_view resource_name) {
  std::vector<std::string> ids;
  const ResourceShape* shape = node.find(resource_name);
  const ResourceShare* share = allocation.find(resource_name);
  if (shape == nullptr || share == nullptr || !is_unit_instance(resource_name)) return ids;
  std::vector<std::uint32_t> indices;
  for (const InstanceShare& each : share->shares) indices.push_back(each.index);
  std::ranges::sort(indices);
  for (const std::uint32_t index : indices) {
    MOBULA_CHECK(index < shape->instances.size(),
                 fmt::format("{} instance {} of a node that has {}", resource_name, index,
                             shape->instances.size()));
    const std::string& id = shape->instances[index].visible_id;
    ids.push_back(id.empty() ? std::to_string(index) : id);
  }
  return ids;
}

std::map<std::string, std::vector<std::string>> all_instance_ids(const NodeShape& node,
                                                                 const Allocation& allocation) {
  std::map<std::string, std::vector<std::string>> all;
  for (const ResourceShare& share : allocation.resources) {
    auto ids = instance_ids(node, allocation, share.name);
    if (!ids.empty()) all.emplace(share.name, std::move(ids));
  }
  return all;
}

std::span<const std::string_view> accelerator_variables() { return refused; }

Result<void> check_no_accelerator_variables(const Environment& env) {
  for (const std::string_view name : refused) {
    if (!env.contains(std::string(name))) continue;
    return failure(ErrorCode::invalid_argument,
                   fmt::format("env names {}: the runtime sets it to the devices that a slot was "
                               "given; remove it, and ask with num_gpus or the vendor's resource",
                               name));
  }
  return {};
}

}  // namespace mobula::internal
