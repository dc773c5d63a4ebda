// Validates placement groups before any message is sent.
#include <string>

#include <mobula/errors.h>

#include "base/model/group.h"
#include "base/quantity.h"
#include "client/api/rules.h"

namespace mobula::detail {
namespace {

namespace rules = internal::client;

// Validates the resources of a bundle like the corresponding options, with the bundle's name in
// errors.
ResourceRequest bundle_request(const std::string& field, const Resources& bundle) {
  if (bundle.empty()) rules::refuse(field, "a bundle requests a resource", "an empty bundle");
  ResourceRequest request;
  Resources others;
  for (const auto& [name, amount] : bundle) {
    if (name == "CPU") {
      request.cpu_units = rules::units_of(field + ".CPU", amount);
    } else if (name == "memory") {
      request.memory_bytes = rules::bytes_of(field + ".memory", amount);
    } else if (name == "gpu_memory") {
      request.gpu_memory_bytes = rules::bytes_of(field + ".gpu_memory", amount);
    } else {
      others.emplace(name, amount);
    }
  }
  internal::ExactResources exact{.gpu_memory_bytes = request.gpu_memory_bytes,
                                 .memory_bytes = request.memory_bytes};
  auto named = rules::named_resources(others, rules::AmountKind::total);
  exact.gpu_units = named.gpu_units.value_or(0);
  exact.custom_units = std::move(named.custom_units);
  rules::keep(internal::check_bundle(field, request.cpu_units, exact));
  request.gpu_units = exact.gpu_units;
  request.custom_units = std::move(exact.custom_units);
  request.accelerator_type = std::move(named.accelerator_type);
  return request;
}

std::int64_t custom_units_of(const ResourceRequest& request, const std::string& name) {
  for (const auto& [each, units] : request.custom_units) {
    if (each == name) return units;
  }
  return 0;
}

// True if the bundle has fewer devices than requested, as far as this is known before placement.
// The fraction of a device that holds a number of bytes, and the bytes of a fraction, depend on the
// device.
bool lacks_devices(const ResourceRequest& bundle, const ResourceRequest& need) {
  const bool by_bytes_alone = bundle.gpu_units == 0 && bundle.gpu_memory_bytes > 0;
  if (by_bytes_alone) return need.gpu_units >= internal::Quantity::units_per_one;
  return need.gpu_units > bundle.gpu_units;
}
bool lacks_device_memory(const ResourceRequest& bundle, const ResourceRequest& need) {
  if (need.gpu_memory_bytes == 0) return false;
  if (bundle.gpu_memory_bytes == 0) return bundle.gpu_units == 0;
  // A whole device has at least the requested memory, and the bundle gets the whole device.
  return bundle.gpu_units < internal::Quantity::units_per_one &&
         need.gpu_memory_bytes > bundle.gpu_memory_bytes;
}

// The first resource of which the bundle has too little; empty if it suffices.
std::string lacking(const ResourceRequest& bundle, const ResourceRequest& need) {
  if (need.cpu_units > bundle.cpu_units || need.placing_cpu_units > bundle.cpu_units) return "CPU";
  if (lacks_devices(bundle, need)) return "GPU";
  if (lacks_device_memory(bundle, need)) return "gpu_memory";
  if (need.memory_bytes > bundle.memory_bytes) return "memory";
  for (const auto& [name, units] : need.custom_units) {
    if (units > custom_units_of(bundle, name)) return name;
  }
  return {};
}

}  // namespace
}  // namespace mobula::detail

namespace mobula::internal::client {

void check_bundle(const detail::ResourceRequest& request) {
  if (!request.placement || request.placement->group.empty()) return;
  const auto& bundles = request.placement->group.bundles();
  const int wanted = request.placement->bundle_index;
  std::string short_of;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    if (wanted >= 0 && static_cast<std::size_t>(wanted) != i) continue;
    const auto lacks = detail::lacking(detail::bundle_request("bundle", bundles[i]), request);
    if (lacks.empty()) return;
    short_of = lacks;
  }
  refuse("placement",
         wanted < 0 ? "some bundle in the group is large enough"
                    : "bundle " + std::to_string(wanted) + " in the group is large enough",
         "a request with more " + short_of + " than it has");
}

}  // namespace mobula::internal::client

namespace mobula::detail {

GroupRequest prepare_group(const std::vector<Resources>& bundles, Strategy strategy,
                           const PlacementGroupOptions& options) {
  const auto count = std::to_string(bundles.size());
  if (bundles.empty() || bundles.size() > internal::max_bundles) {
    rules::refuse("bundles", "1 to " + std::to_string(internal::max_bundles) + " of them", count);
  }
  rules::check_text("name", options.name);
  rules::check_priority("priority", options.priority);
  const auto& selectors = options.bundle_label_selector;
  if (!selectors.empty() && selectors.size() != bundles.size()) {
    rules::refuse("bundle_label_selector", "one for each of the " + count + " bundles, or none",
                  std::to_string(selectors.size()));
  }
  GroupRequest request;
  request.name = options.name;
  request.detached = options.lifetime == Lifetime::detached;
  request.strategy = strategy;
  request.priority = options.priority;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    auto bundle = bundle_request("bundles[" + std::to_string(i) + "]", bundles[i]);
    if (!selectors.empty()) bundle.labels = rules::label_rules("label_selector", selectors[i]);
    request.bundles.push_back(std::move(bundle));
  }
  return request;
}

}  // namespace mobula::detail
