// Environment that controls which devices an executor sees, computed from the devices of its slot.
// The variables and their formats are those of `model/accelerator_vendor.h`.
// Thread: any (pure).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/model/accelerator_vendor.h"
#include "base/model/node_shape.h"
#include "base/model/request.h"
#include "base/result.h"

namespace mobula::internal {

// Variable of a job or a call: "1" shows devices that the slot does not have, "0" hides them
// although the node would show them. For an agent: the default of the node.
inline constexpr const char* show_devices_variable = "MOBULA_SHOW_DEVICES";
// Parses "1", "true", "0", "false", and "". Empty for other text.
std::optional<bool> truth_in(std::string_view text);

// Variables to set before user code runs in a slot with `allocation`. If `policy` requires it,
// devices of vendors without devices in the slot are hidden: vendors in `present`, vendors with
// devices on the node, and vendors that are always hidden. Variables that the policy excludes are
// omitted.
Environment device_environment(const NodeShape& node, const Allocation& allocation,
                               const DevicePolicy& policy, const std::vector<Vendor>& present = {});

// True if the runtime sets the vendor's second mask; otherwise executors inherit it from the node.
// If the first mask is not set, neither is the second one, because it changes the meaning of the
// first.
bool sets_second_mask(const VendorRow& vendor, const DevicePolicy& policy);

// Applies the environments of a call and its job to `policy`; the call takes precedence.
DevicePolicy policy_for(DevicePolicy policy, const Environment& call, const Environment& job);

// Entries of the node's visible list that are allocated to the slot, by index. This is the result
// of `gpu_ids()` for "GPU". Empty for a resource without instances.
std::vector<std::string> instance_ids(const NodeShape& node, const Allocation& allocation,
                                      std::string_view resource_name);
// The same for every resource with instances in the slot.
std::map<std::string, std::vector<std::string>> all_instance_ids(const NodeShape& node,
                                                                 const Allocation& allocation);

}  // namespace mobula::internal
