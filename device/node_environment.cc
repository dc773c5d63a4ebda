#include "device/node_environment.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/model/labels/label_syntax.h"
#include "device/framework_limits.h"
#include "device/mask.h"

namespace mobula::internal {
namespace {

constexpr const char* gpu_vendor_variable = "MOBULA_GPU_VENDOR";
constexpr std::string_view noset_prefix = "MOBULA_NOSET_";

struct LabelVariable {
  const char* name;
  const char* label;
};
constexpr LabelVariable label_variables[] = {
    {"MOBULA_NODE_TYPE_NAME", "mobula.io/node-group"},
    {"MOBULA_NODE_MARKET_TYPE", "mobula.io/market-type"},
    {"MOBULA_NODE_REGION", "mobula.io/availability-region"},
    {"MOBULA_NODE_ZONE", "mobula.io/availability-zone"}};

// Returns false if the variable is not set.
Result<bool> truth_of(const Environment& environment, const std::string& variable) {
  const auto at = environment.find(variable);
  if (at == environment.end()) return false;
  const auto truth = truth_in(at->second);
  if (!truth) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}={}: it is 1 or 0", variable, at->second));
  }
  return *truth;
}

}  // namespace

Result<NodeRequest> with_environment(NodeRequest request, const Environment& environment) {
  for (const auto& [name, value] : environment) {
    if (is_accelerator_variable(name)) request.accelerator_variables[name] = value;
  }
  if (const auto at = environment.find(gpu_vendor_variable); at != environment.end()) {
    const VendorRow* vendor = vendor_named(at->second);
    if (vendor == nullptr || vendor->resource != resource::gpu) {
      std::string names;
      for (const VendorRow& row : vendor_rows()) {
        if (row.resource != resource::gpu) continue;
        names += (names.empty() ? "" : ", ") + std::string(row.name);
      }
      return failure(ErrorCode::invalid_argument,
                     fmt::format("{}={}: it is one of {}", gpu_vendor_variable, at->second, names));
    }
    request.gpu_vendor = vendor->vendor;
  }
  for (const auto& [name, label] : label_variables) {
    const auto at = environment.find(name);
    if (at == environment.end() || at->second.empty()) continue;
    if (auto broken = check_label_value(name, at->second)) {
      return failure(ErrorCode::invalid_argument, to_string(*broken));
    }
    request.labels.emplace(label, at->second);
  }
  const auto shown = truth_of(environment, show_devices_variable);
  if (!shown) return shown.error();
  request.device_policy.hide_unasked = !*shown;
  auto& left_alone = request.device_policy.left_alone;
  for (const VendorRow& row : vendor_rows()) {
    for (const std::string_view each : {row.variable, row.second.variable}) {
      if (each.empty()) continue;
      const std::string variable(each);
      const auto noset = truth_of(environment, std::string(noset_prefix) + variable);
      if (!noset) return noset.error();
      if (*noset && std::ranges::find(left_alone, variable) == left_alone.end()) {
        left_alone.push_back(variable);
      }
    }
  }
  for (const char* const variable : framework_limit_variables()) {
    const auto noset = truth_of(environment, std::string(noset_prefix) + variable);
    if (!noset) return noset.error();
    if (*noset) left_alone.emplace_back(variable);
  }
  return request;
}

}  // namespace mobula::internal
