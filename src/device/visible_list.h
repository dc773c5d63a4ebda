// The lists in CUDA_VISIBLE_DEVICES and its likes: which devices a process may see. Entries are
// kept as they were written (indices, "GPU-<uuid>", "MIG-<uuid>"), because executors get them back
// as their masks. Pure values; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mobula::internal {

// Nothing: the variable is not set, all devices are visible. Empty: none is.
using VisibleList = std::optional<std::vector<std::string>>;

// `value` null: not set. "" and "NoDevFiles" hide all devices. As in CUDA, the list ends at the
// first entry that is empty or "-1".
VisibleList visible_devices(const char* value);

// The same for NEURON_RT_VISIBLE_CORES, where an entry may also be a range: "0-3" is four cores.
VisibleList visible_neuron_cores(const char* value);

// "0,1"; the value that makes exactly these visible.
std::string joined(const std::vector<std::string>& ids);

}  // namespace mobula::internal
