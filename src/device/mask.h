// Which devices an executor may see: the environment it gets from what its slot was given of the
// node. The variables and how they are written are model/accelerator_vendor.h's. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/accelerator_vendor.h"
#include "model/node_shape.h"
#include "model/request.h"

namespace mobula::internal {

// The variable by which a job or a call says that its slots see the devices they were not given
// ("1"), or do not although their node would show them ("0"). On an agent: for the whole node.
inline constexpr const char* show_devices_variable = "MOBULA_SHOW_DEVICES";
// "1" and "true", "0", "false" and ""; nothing for other text.
std::optional<bool> truth_in(std::string_view text);

// What to set, before any user code runs, for an executor in a slot with `allocation`. Devices of a
// vendor that the slot was given none of are hidden if `policy` says so: those of vendors in
// `present` (whose devices the machine has, offered or not), of those that the node offers, and of
// those that are hidden everywhere. Variables that the policy leaves alone are not there.
Environment device_environment(const NodeShape& node, const Allocation& allocation,
                               const DevicePolicy& policy, const std::vector<Vendor>& present = {});

// Whether executors get the vendor's second mask from the runtime; else they have it as the node has
// it. Where the first is left alone the second is too: it would change what the first means.
bool sets_second_mask(const VendorRow& vendor, const DevicePolicy& policy);

// `policy` as a call of a job with these environments changes it; the call's goes first.
DevicePolicy policy_for(DevicePolicy policy, const Environment& call, const Environment& job);

// The entries of the node's visible list that the slot was given, in the order of their indices:
// what `gpu_ids()` returns for "GPU". Empty for a resource without instances.
std::vector<std::string> instance_ids(const NodeShape& node, const Allocation& allocation,
                                      std::string_view resource_name);
// The same for every resource with instances that the slot was given some of.
std::map<std::string, std::vector<std::string>> all_instance_ids(const NodeShape& node,
                                                                 const Allocation& allocation);

}  // namespace mobula::internal
