#include "device/link_groups.h"

#include <algorithm>
#include <numeric>

namespace mobula::internal {

std::vector<std::int32_t> link_groups(const std::vector<NvmlDevice>& devices) {
  // Each device is in the group of the first device that it is known to reach.
  std::vector<std::size_t> first(devices.size());
  std::iota(first.begin(), first.end(), 0);
  const auto join = [&](std::size_t a, std::size_t b) {
    const std::size_t remaining = std::min(first[a], first[b]);
    const std::size_t lost = std::max(first[a], first[b]);
    std::ranges::replace(first, lost, remaining);
  };
  const auto on_switch = std::ranges::find_if(
      devices, [](const NvmlDevice& device) { return device.links.to_switch; });
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const NvLinks& links = devices[i].links;
    if (links.to_switch) join(i, static_cast<std::size_t>(on_switch - devices.begin()));
    for (const std::string& bus_id : links.to_gpus) {
      const auto other = std::ranges::find(devices, bus_id, &NvmlDevice::pci_bus_id);
      if (other == devices.end() || other->mig_mode) continue;
      join(i, static_cast<std::size_t>(other - devices.begin()));
    }
  }
  std::vector<std::int32_t> groups(devices.size(), -1);
  std::int32_t next = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (std::ranges::count(first, first[i]) < 2) continue;
    groups[i] = first[i] == i ? next++ : groups[first[i]];
  }
  return groups;
}

}  // namespace mobula::internal
