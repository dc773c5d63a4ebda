#include "device/framework_limits.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace mobula::internal {
namespace {

constexpr std::array<const char*, 2> variables{"PYTORCH_CUDA_ALLOC_CONF",
                                               "XLA_PYTHON_CLIENT_MEM_FRACTION"};

}  // namespace

std::span<const char* const> framework_limit_variables() { return variables; }

Environment framework_limits(const NodeShape& node, const Allocation& allocation,
                             const Environment& users) {
  Environment env;
  const ResourceShape* shape = node.find(resource::gpu);
  const ResourceShare* held = allocation.find(resource::gpu);
  if (shape == nullptr || held == nullptr || held->shares.size() != 1) return env;
  if (!shape->vendor.empty() && shape->vendor != "nvidia") return env;
  const InstanceShare& share = held->shares.front();
  if (share.index >= shape->instances.size() || share.amount >= Quantity::whole(1)) return env;
  const InstanceShape& device = shape->instances[share.index];
  const std::int64_t left = share.memory_bytes - device.context_bytes;
  if (device.memory_bytes <= 0 || left <= 0) return env;
  // In units of 1/10000, rounded down.
  const auto units = static_cast<std::int64_t>(10'000.0 * static_cast<double>(left) /
                                               static_cast<double>(device.memory_bytes));
  if (units <= 0) return env;
  const std::string fraction = fmt::format("0.{:04}", std::min<std::int64_t>(units, 9'999));
  const auto set = [&](const char* name, const std::string& value) {
    const auto& left_alone = node.device_policy.left_alone;
    if (users.contains(name) || std::ranges::find(left_alone, name) != left_alone.end()) return;
    env[name] = value;
  };
  set(variables[0], "per_process_memory_fraction:" + fraction);
  set(variables[1], fraction);
  return env;
}

}  // namespace mobula::internal
