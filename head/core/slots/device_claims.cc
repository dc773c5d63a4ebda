#include "head/core/slots/device_claims.h"

#include <fmt/format.h>

namespace mobula::internal::head {

std::string describe(const RefusedDevice& device) {
  return fmt::format(
      "{} {} ({}) is not used here: node {} has registered this device before. Give each agent of "
      "a machine its own devices, by a visible list or by the amounts it offers",
      device.resource, device.device.visible_id, device.device.uuid, device.holder.hex());
}

std::vector<RefusedDevice> DeviceClaims::claim(NodeId node, NodeShape& shape) {
  std::vector<RefusedDevice> refused;
  for (auto& resource : shape.resources) {
    if (!resource.in_instances()) continue;
    for (std::size_t i = 0; i < resource.instances.size(); ++i) {
      InstanceShape& device = resource.instances[i];
      if (device.uuid.empty()) continue;
      const auto [at, claimed] = holders_.try_emplace(device.uuid, node);
      if (claimed || at->second == node) continue;
      refused.push_back({resource.name, i, device, at->second});
      device.total = Quantity();
      device.types.clear();
      device.memory_bytes = 0;
      device.context_bytes = 0;
    }
  }
  return refused;
}

bool DeviceClaims::claim_again(NodeId node, NodeShape& shape, std::vector<RefusedDevice>& refused) {
  const auto taken = std::erase_if(refused, [&](RefusedDevice& each) {
    const auto [at, claimed] = holders_.try_emplace(each.device.uuid, node);
    if (!claimed && at->second != node) {
      each.holder = at->second;
      return false;
    }
    for (auto& resource : shape.resources) {
      if (resource.name == each.resource) resource.instances[each.index] = each.device;
    }
    return true;
  });
  return taken > 0;
}

bool DeviceClaims::release(NodeId node) {
  return std::erase_if(holders_, [&](const auto& each) { return each.second == node; }) > 0;
}

}  // namespace mobula::internal::head
