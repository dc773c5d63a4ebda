// The lists in CUDA_VISIBLE_DEVICES and its likes: which devices the agent was started with.
// Entries are kept as they were written (indices, "GPU-<uuid>", "MIG-<uuid>"), because executors get
// them back as their masks. Pure values; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/accelerator_vendor.h"
#include "model/node_shape.h"
#include "model/request.h"

namespace mobula::internal {

// Nothing: the variable is not set, all devices are visible. Empty: none is.
using VisibleList = std::optional<std::vector<std::string>>;

// `value` of the vendor's mask; null: not set. "" and "NoDevFiles" hide all devices. As in CUDA, the
// list ends at the first entry that is empty or "-1". Where the vendor has them, prefixes are taken
// off and ranges written out. invalid_argument for a selector that is no list of devices.
Result<VisibleList> visible_ids(const VendorRow& vendor, const char* value);

// What the agent's variables say about a vendor's devices.
struct VisibleDevices {
  VisibleList list{};
  std::string variable{};  // that says so
  // Of a second mask that executors have as the node has it: the list counts within what it lets
  // through. One that the runtime sets is part of the list, which then counts as the driver does.
  VisibleList filtered{};
};
Result<VisibleDevices> visible_devices(const VendorRow& vendor, const Environment& environment,
                                       const DevicePolicy& policy);

// "0,1"
std::string joined(const std::vector<std::string>& ids);

}  // namespace mobula::internal
