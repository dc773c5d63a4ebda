// Which GPUs of a machine reach each other over NVLink. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "device/nvml.h"

namespace mobula::internal {

// For each device the number of its group, counted from 0 in the order of their first devices; -1 for
// one that is linked to no other of these. Two are in one group if there is a way between them over
// links, be it through other GPUs. All that are linked to switches are in one: the switches of a machine
// are linked to each other.
std::vector<std::int32_t> link_groups(const std::vector<NvmlDevice>& devices);

}  // namespace mobula::internal
