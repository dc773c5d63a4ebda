#include "deploy/fleet/core/type_shortfall.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal::fleet {
namespace {

bool has_type(const NodeShape& node, const std::string& type) {
  const auto contains = [&](const std::vector<std::string>& types) {
    return std::ranges::find(types, type) != types.end();
  };
  if (contains(node.accelerator_types)) return true;
  for (const auto& resource : node.resources) {
    for (const auto& instance : resource.instances) {
      if (contains(instance.types)) return true;
    }
  }
  return false;
}

bool is_memory(const std::string& name) {
  return name == "memory" || name == "object_store_memory" || name == "gpu_memory";
}

}  // namespace

std::string shortfall_of(const NodeShape& node, const NodeShape& type) {
  for (const auto& resource : type.resources) {
    if (is_memory(resource.name)) continue;
    const Quantity promised = type.total(resource.name), present = node.total(resource.name);
    if (present < promised) {
      return fmt::format("{}: {} instead of {}", resource.name, present.to_string(),
                         promised.to_string());
    }
    for (const auto& instance : resource.instances) {
      for (const auto& each : instance.types) {
        if (!has_type(node, each)) return "no accelerator_type:" + each;
      }
    }
  }
  for (const auto& each : type.accelerator_types) {
    if (!has_type(node, each)) return "no accelerator_type:" + each;
  }
  return {};
}

}  // namespace mobula::internal::fleet
