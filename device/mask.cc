#include "device/mask.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "device/visible_list.h"

namespace mobula::internal {
namespace {

// Vendor whose devices the node counts in `resource`; null if it counts none.
const VendorRow* vendor_on(const NodeShape& node, std::string_view resource_name) {
  const ResourceShape* shape = node.find(resource_name);
  if (shape == nullptr) return nullptr;
  if (!shape->vendor.empty()) return vendor_named(shape->vendor);
  return resource_name == resource::gpu ? &row_of(Vendor::nvidia)
                                        : vendor_of_resource(resource_name);
}

bool is_left_alone(const DevicePolicy& policy, std::string_view variable) {
  return std::ranges::find(policy.left_alone, variable) != policy.left_alone.end();
}

// "0", "1", …: ids as a layer renumbers them after it has hidden the other devices.
std::vector<std::string> counted_anew(std::size_t count) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(std::to_string(i));
  return ids;
}

std::string written(const VendorRow& vendor, const std::vector<std::string>& ids) {
  std::string value(vendor.list_prefix);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) value += ',';
    value += std::string(vendor.id_prefix) + ids[i];
  }
  return value;
}

// A subset of a host's chips works only if the library knows their topology (JAX issue 14977, and
// Ray, tpu.py).
void add_tpu_bounds(const NodeShape& node, std::size_t chips, Environment& env) {
  const ResourceShape* shape = node.find("TPU");
  if (shape == nullptr || chips == shape->instances.size() || (chips != 1 && chips != 2)) return;
  env["TPU_CHIPS_PER_HOST_BOUNDS"] = chips == 1 ? "1,1,1" : "1,2,1";
  env["TPU_HOST_BOUNDS"] = "1,1,1";
}

}  // namespace

std::optional<bool> truth_in(std::string_view text) {
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false" || text.empty()) return false;
  return std::nullopt;
}

bool sets_second_mask(const VendorRow& vendor, const DevicePolicy& policy) {
  const SecondMask& second = vendor.second;
  return !second.variable.empty() && !second.inherited && !is_left_alone(policy, second.variable) &&
         !is_left_alone(policy, vendor.variable);
}

DevicePolicy policy_for(DevicePolicy policy, const Environment& call, const Environment& job) {
  for (const Environment* env : {&call, &job}) {
    const auto at = env->find(show_devices_variable);
    if (at == env->end()) continue;
    if (const auto shown = truth_in(at->second)) policy.hide_unasked = !*shown;
    return policy;
  }
  return policy;
}

Environment device_environment(const NodeShape& node, const Allocation& allocation,
                               const DevicePolicy& policy, const std::vector<Vendor>& present) {
  Environment env;
  for (const VendorRow& vendor : vendor_rows()) {
    if (is_left_alone(policy, vendor.variable)) continue;
    const bool offered = vendor_on(node, vendor.resource) == &vendor;
    std::vector<std::string> ids;
    if (offered) ids = instance_ids(node, allocation, vendor.resource);
    const std::string variable(vendor.variable);
    const SecondMask& second = vendor.second;
    const bool sets_second = sets_second_mask(vendor, policy);
    if (!ids.empty()) {
      const bool renumbered = sets_second && second.renumbers;
      env[variable] = written(vendor, renumbered ? counted_anew(ids.size()) : ids);
      if (sets_second) env[std::string(second.variable)] = joined(ids);
      if (vendor.vendor == Vendor::tpu) add_tpu_bounds(node, ids.size(), env);
    } else {
      const bool here = offered || vendor.hidden_everywhere ||
                        std::ranges::find(present, vendor.vendor) != present.end();
      if (!policy.hide_unasked || !here) continue;
      env.try_emplace(variable, vendor.nothing);  // two vendors may share a variable
      if (sets_second) env.try_emplace(std::string(second.variable), second.nothing);
    }
    for (const Setting& each : vendor.set_with) {
      if (!each.variable.empty()) env[std::string(each.variable)] = each.value;
    }
  }
  return env;
}

std::vector<std::string> instance_ids(const NodeShape& node, const Allocation& allocation,
                                      std::string_view resource_name) {
  std::vector<std::string> ids;
  const ResourceShape* shape = node.find(resource_name);
  const ResourceShare* share = allocation.find(resource_name);
  if (shape == nullptr || share == nullptr || !shape->in_instances()) return ids;
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

}  // namespace mobula::internal
