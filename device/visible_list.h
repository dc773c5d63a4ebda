// Lists in CUDA_VISIBLE_DEVICES and similar variables: the devices that the agent was started with.
// Entries keep their form (index, "GPU-<uuid>", "MIG-<uuid>"), because executors receive them as
// their masks.
// Thread: any (plain values).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/model/accelerator_vendor.h"
#include "base/model/node_shape.h"
#include "base/model/request.h"
#include "base/result.h"

namespace mobula::internal {

// Without a value: the variable is not set, and all devices are visible. Empty list: no device is
// visible.
using VisibleList = std::optional<std::vector<std::string>>;

// Parses `value` of the vendor's mask; null: not set. "" and "NoDevFiles" hide all devices. As in
// CUDA, the list ends at the first entry that is empty or "-1". Vendor prefixes are removed and
// ranges expanded. Fails with invalid_argument for a selector that is not a list of devices.
Result<VisibleList> visible_ids(const VendorRow& vendor, const char* value);

// Visible devices of one vendor, from the agent's variables.
struct VisibleDevices {
  VisibleList list{};
  std::string variable{};  // variable with the list
  // List of a second mask that executors inherit from the node; `list` counts within it. If the
  // runtime sets the second mask, `list` already includes it and uses the driver's numbering.
  VisibleList filtered{};
};
Result<VisibleDevices> visible_devices(const VendorRow& vendor, const Environment& environment,
                                       const DevicePolicy& policy);

// Text such as "0,1".
std::string joined(const std::vector<std::string>& ids);

}  // namespace mobula::internal
