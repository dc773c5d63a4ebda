#include "tune/api/core_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <mobula/errors.h>

namespace mobula::internal::tune {
namespace {

constexpr double units_per_whole = 10000;
constexpr double most_amount = 1e14;  // limit of the head

std::string canonical_name(const std::string& name) {
  std::string lower;
  for (const char letter : name)
    lower += static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
  if (lower == "cpu") return "CPU";
  if (lower == "gpu") return "GPU";
  if (lower == "memory" || lower == "gpu_memory") return lower;
  return name;
}

// Amounts of bytes are counted whole: 1/10000 of a byte would overflow.
bool counts_bytes(const std::string& name) { return name == "memory" || name == "gpu_memory"; }

}  // namespace

void refuse_tune(const std::string& field, const std::string& rule) {
  mobula::detail::ErrorRecord record;
  record.kind = mobula::detail::ErrorKind::invalid_request;
  record.field = field;
  record.rule = rule;
  record.message = field + ": " + rule;
  throw InvalidRequestError(std::make_shared<const mobula::detail::ErrorRecord>(record));
}

Value core_value(const api::Value& value) {
  return std::visit([](const auto& each) { return Value(each); }, value.data());
}

api::Value api_value(const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_truth()) return value.truth();
  if (value.is_integer()) return value.integer();
  return value.number();
}

Config core_config(const api::Config& config) {
  Config made;
  made.reserve(config.size());
  for (const auto& [name, value] : config) made.set(name, core_value(value));
  return made;
}

api::Config api_config(const Config& config) {
  api::Config made;
  for (const auto& [name, value] : config) made.set(name, api_value(value));
  return made;
}

api::Metrics api_metrics(const Config& metrics) {
  api::Metrics made;
  for (const auto& [name, value] : metrics) made.emplace(name, api_value(value));
  return made;
}

Space core_space(const api::Space& space) {
  Space made;
  for (const auto& [name, domain] : space) made.add(name, domain.rules().domain);
  return made;
}

GroupShape shape_of_group(const api::PlacementGroupFactory& group) {
  GroupShape shape;
  shape.strategy = static_cast<unsigned char>(group.strategy);
  bool empty = true;
  for (const Resources& resources : group.bundles) {
    ResourceBundle bundle;
    for (const auto& [name, amount] : resources) {
      const std::string canonical = canonical_name(name);
      const double value = amount.value();
      if (!(value >= 0 && value <= most_amount))
        refuse_tune("resources_per_trial",
                    "the amount of " + name + " is " + std::to_string(value) + "; pass 0 to 1e14");
      if (value == 0) continue;
      const long long units =
          std::llround(counts_bytes(canonical) ? value : value * units_per_whole);
      if (units == 0)
        refuse_tune("resources_per_trial",
                    "the amount of " + name + " is too small; pass a multiple of 0.0001");
      const auto has_name = [&](const auto& entry) { return entry.first == canonical; };
      if (std::any_of(bundle.begin(), bundle.end(), has_name))
        refuse_tune("resources_per_trial",
                    canonical + " is in one bundle twice, in upper and lower case; remove one");
      bundle.emplace_back(canonical, units);
    }
    empty = empty && bundle.empty();
    shape.bundles.push_back(std::move(bundle));
  }
  if (empty)
    refuse_tune("resources_per_trial", "all bundles are empty; pass an amount, such as cpu: 1");
  for (std::size_t i = 1; i < shape.bundles.size(); ++i)
    if (shape.bundles[i].empty())
      refuse_tune("resources_per_trial",
                  "bundle " + std::to_string(i) + " is empty; only bundle 0 may be empty");
  return shape;
}

api::PlacementGroupFactory group_of_shape(const GroupShape& shape) {
  api::PlacementGroupFactory group;
  group.strategy = static_cast<Strategy>(shape.strategy);
  for (const ResourceBundle& bundle : shape.bundles) {
    Resources resources;
    for (const auto& [name, units] : bundle)
      resources[name] = counts_bytes(name) ? static_cast<double>(units)
                                           : static_cast<double>(units) / units_per_whole;
    group.bundles.push_back(std::move(resources));
  }
  return group;
}

}  // namespace mobula::internal::tune
