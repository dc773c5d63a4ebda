// Which devices an executor may see: the environment it gets from what its slot was given of the
// node, and the variables that users may therefore not set. Pure; any thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/node_shape.h"
#include "model/request.h"

namespace mobula::internal {

// The vendor of a node's `GPU` resource; other resources have one vendor each.
enum class GpuVendor : unsigned char { nvidia, amd, intel };

struct MaskPolicy {
  GpuVendor gpu_vendor = GpuVendor::nvidia;
  // Devices that the slot was not given are hidden. Without it, a slot without devices sees what
  // the agent sees.
  bool hide_unasked = true;
};

// What to set, before any user code runs, for an executor in a slot with `allocation`. An empty
// value hides all devices of that vendor. CUDA's and Neuron's variables are set on every node, so
// that devices that a node does not offer are hidden too; those of others where the node has such
// devices.
Environment device_environment(const NodeShape& node, const Allocation& allocation,
                               const MaskPolicy& policy = {});

// The entries of the node's visible list that the slot was given, in the order of their indices:
// what `gpu_ids()` returns for "GPU". Empty for a resource without instances.
std::vector<std::string> instance_ids(const NodeShape& node, const Allocation& allocation,
                                      std::string_view resource_name);
// The same for every resource with instances that the slot was given some of.
std::map<std::string, std::vector<std::string>> all_instance_ids(const NodeShape& node,
                                                                 const Allocation& allocation);

// Variables that choose devices: the runtime sets them, users may not.
std::span<const std::string_view> accelerator_variables();
// invalid_argument if `env` names one of them.
Result<void> check_no_accelerator_variables(const Environment& env);

}  // namespace mobula::internal
