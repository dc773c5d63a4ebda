// Groups of the GPUs of a machine that are connected by NVLink.
// Thread: any (pure).
#pragma once

#include <cstdint>
#include <vector>

#include "device/detection/nvml.h"

namespace mobula::internal {

// Group number of each device, counted from 0 in the order of the first devices; -1 for a device
// without links to the others. Devices are in one group if a path of links connects them, possibly
// through other GPUs. All devices with links to switches are in one group, because the switches of
// a machine are linked.
std::vector<std::int32_t> link_groups(const std::vector<NvmlDevice>& devices);

}  // namespace mobula::internal
