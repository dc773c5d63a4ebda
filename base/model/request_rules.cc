#include "base/model/request_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/model/accelerator_vendor.h"
#include "base/model/labels/label_syntax.h"
#include "base/model/resources.h"
#include "base/quantity.h"
#include "base/text/utf8.h"

namespace mobula::internal {
namespace {

constexpr std::size_t max_text_bytes = 256;
constexpr std::size_t max_selector_bytes = 64u << 10;

std::string lower(std::string_view text) {
  std::string folded(text);
  for (char& c : folded) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return folded;
}

std::string number(double amount) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), amount).ptr;
  return std::string(text.data(), end);
}

// Some devices work together only in certain numbers.
Breach check_count(const VendorRow& vendor, std::int64_t units) {
  if (vendor.counts.front() == 0 || units == 0) return std::nullopt;
  std::string allowed;
  for (const std::uint8_t count : vendor.counts) {
    if (count == 0) break;
    if (units == count * Quantity::units_per_one) return std::nullopt;
    allowed += (allowed.empty() ? "" : ", ") + std::to_string(count);
  }
  return FieldError{"resources." + std::string(vendor.resource),
                    "this resource is given in these numbers: " + allowed,
                    std::to_string(units / Quantity::units_per_one)};
}

Breach check_resource_name(const std::string& name) {
  const std::string field = "resources";
  if (name.empty()) return FieldError{field, "a resource has a name", "an empty one"};
  if (auto broken = check_text(field, name)) return broken;
  const std::string folded = lower(name);
  if (folded == "cpu") return FieldError{field, "CPUs are requested with num_cpus", name};
  if (folded == "memory" || folded == "gpu_memory" || folded == "object_store_memory") {
    return FieldError{field, "bytes are requested with separate fields", name};
  }
  if (folded == "executors" || folded == "bundle") {
    return FieldError{field, "this name belongs to the runtime", name};
  }
  return std::nullopt;
}

Breach read_one(const std::string& name, double amount, AmountKind kind, NamedResources& named) {
  const std::string field = "resources." + name;
  std::int64_t units = 0;
  if (lower(name) == "gpu") {
    if (named.gpu_units)
      return FieldError{"resources", "num_gpus is given once", name + " a second time"};
    if (auto broken = read_device_units(field, amount, units)) return broken;
    named.gpu_units = units;
    return std::nullopt;
  }
  if (name.starts_with(resource::accelerator_prefix)) {
    if (auto broken = read_units(field, amount, units)) return broken;
    const std::string type = name.substr(resource::accelerator_prefix.size());
    if (type.empty())
      return FieldError{"resources", "an accelerator type has a name", "an empty one"};
    if (auto broken = check_text("accelerator_type", type)) return broken;
    if (!named.accelerator_type.empty() && named.accelerator_type != type) {
      return FieldError{"resources", "one accelerator type",
                        named.accelerator_type + " and " + type};
    }
    named.accelerator_type = type;
    return std::nullopt;
  }
  if (auto broken = check_resource_name(name)) return broken;
  const VendorRow* vendor = vendor_of_resource(name);
  auto broken = vendor != nullptr ? read_device_units(field, amount, units)
                                  : read_units(field, amount, units);
  if (broken) return broken;
  if (vendor != nullptr && !vendor->fractions && units % Quantity::units_per_one != 0) {
    return FieldError{field, "this resource is only given in whole numbers", number(amount)};
  }
  if (vendor != nullptr && kind == AmountKind::request) {
    if (auto wrong_count = check_count(*vendor, units)) return wrong_count;
  }
  if (units != 0) named.custom_units.emplace_back(name, units);
  return std::nullopt;
}

Breach check_count_of_names(const std::string& field, std::size_t count) {
  if (count <= max_resource_names) return std::nullopt;
  return FieldError{field, "at most " + std::to_string(max_resource_names) + " resources",
                    std::to_string(count)};
}

Breach check_set(const std::string& field, const ResourceSet& resources) {
  if (auto broken = check_count_of_names(field, resources.amounts().size())) return broken;
  for (const auto& [name, amount] : resources.amounts()) {
    if (auto broken = check_text(field, name)) return broken;
  }
  return std::nullopt;
}

// A selector with a syntax error matches nothing and costs nothing if it is small.
Breach check_selector_size(const std::string& field, const Labels& selector) {
  std::size_t bytes = 0;
  for (const auto& [key, text] : selector) bytes += key.size() + text.size();
  if (selector.size() > max_label_conditions) {
    return FieldError{field, "at most " + std::to_string(max_label_conditions) + " conditions",
                      std::to_string(selector.size())};
  }
  if (bytes <= max_selector_bytes) return std::nullopt;
  return FieldError{field, "at most " + std::to_string(max_selector_bytes) + " bytes",
                    std::to_string(bytes)};
}

// Left-to-right and right-to-left embeddings, overrides, and isolates, which make text display as
// other text.
bool changes_direction(char32_t code) {
  return (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
         code == 0x200e || code == 0x200f || code == 0x061c;
}

// Rejects GPUs together with neuron_cores.
Breach check_one_kind_of_device(const std::string& field, const ExactResources& exact) {
  if (exact.gpu_units == 0 && exact.gpu_memory_bytes == 0) return std::nullopt;
  const bool cores = std::ranges::any_of(
      exact.custom_units, [](const auto& each) { return each.first == resource::neuron_cores; });
  if (!cores) return std::nullopt;
  return FieldError{field, "either GPUs or neuron_cores, not both", "both"};
}

}  // namespace

Breach check_text(std::string_view field, std::string_view text) {
  if (text.size() > max_text_bytes) {
    return FieldError{std::string(field), "a name has at most 256 bytes",
                      std::to_string(text.size()) + " bytes"};
  }
  while (!text.empty()) {
    const auto next = first_code_point(text);
    if (!next) return FieldError{std::string(field), "a name is valid UTF-8", "bytes that are not"};
    const auto [code, length] = *next;
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) {
      return FieldError{std::string(field), "a name has no control characters",
                        "the character " + std::to_string(static_cast<unsigned>(code))};
    }
    if (changes_direction(code)) {
      return FieldError{std::string(field),
                        "a name has no characters that change the direction of text",
                        "the character " + std::to_string(static_cast<unsigned>(code))};
    }
    text.remove_prefix(length);
  }
  return std::nullopt;
}

Breach check_bytes(const std::string& field, std::int64_t bytes) {
  if (bytes < 0) return FieldError{field, "an amount is not negative", std::to_string(bytes)};
  if (bytes <= Quantity::max_whole) return std::nullopt;
  return FieldError{field, "at most " + std::to_string(Quantity::max_whole) + " bytes",
                    std::to_string(bytes)};
}

Breach read_units(const std::string& field, double amount, std::int64_t& units) {
  const auto quantity = Quantity::from_double(amount);
  if (!quantity) {
    return FieldError{field,
                      "an amount is finite, not negative, at most 1e14 and a multiple of 0.0001",
                      number(amount)};
  }
  units = quantity->units();
  return std::nullopt;
}

Breach read_device_units(const std::string& field, double amount, std::int64_t& units) {
  if (auto broken = read_units(field, amount, units)) return broken;
  if (units <= Quantity::units_per_one || units % Quantity::units_per_one == 0) return std::nullopt;
  return FieldError{field, "an amount of devices is below 1 or whole", number(amount)};
}

Breach read_bytes(const std::string& field, double amount, std::int64_t& bytes) {
  std::int64_t units = 0;
  if (auto broken = read_units(field, amount, units)) return broken;
  // Doubles represent all permitted whole numbers.
  if (amount != std::floor(amount))
    return FieldError{field, "a whole number of bytes", number(amount)};
  bytes = static_cast<std::int64_t>(amount);
  return std::nullopt;
}

Breach read_named(const std::map<std::string, double>& resources, AmountKind kind,
                  NamedResources& named) {
  if (auto broken = check_count_of_names("resources", resources.size())) return broken;
  for (const auto& [name, amount] : resources) {
    if (auto broken = read_one(name, amount, kind, named)) return broken;
  }
  return std::nullopt;
}

Breach read_requested(const RequestedResources& requested, AmountKind kind, ExactResources& exact) {
  if (auto broken = check_bytes("gpu_memory", requested.gpu_memory)) return broken;
  if (auto broken = check_bytes("memory", requested.memory)) return broken;
  if (auto broken = check_text("accelerator_type", requested.accelerator_type)) return broken;
  NamedResources named;
  if (auto broken = read_named(requested.resources, kind, named)) return broken;
  if (auto broken = read_device_units("num_gpus", requested.num_gpus, exact.gpu_units))
    return broken;
  if (named.gpu_units) {
    if (exact.gpu_units != 0) {
      return FieldError{"num_gpus", "num_gpus is given once",
                        "num_gpus, and gpu among the resources"};
    }
    exact.gpu_units = *named.gpu_units;
  }
  exact.accelerator_type = requested.accelerator_type;
  if (!named.accelerator_type.empty()) {
    if (!exact.accelerator_type.empty() && exact.accelerator_type != named.accelerator_type) {
      return FieldError{"accelerator_type", "one accelerator type",
                        exact.accelerator_type + " and " + named.accelerator_type};
    }
    exact.accelerator_type = std::move(named.accelerator_type);
  }
  exact.gpu_memory_bytes = requested.gpu_memory;
  exact.memory_bytes = requested.memory;
  exact.custom_units = std::move(named.custom_units);
  exact.has_devices = exact.gpu_units != 0 || exact.gpu_memory_bytes != 0 ||
                      std::ranges::any_of(exact.custom_units, [](const auto& each) {
                        return vendor_of_resource(each.first) != nullptr;
                      });
  return check_one_kind_of_device("num_gpus", exact);
}

Breach check_environment(const Environment& env) {
  const std::string field = "env";
  if (env.size() > max_env_variables) {
    return FieldError{field, "at most " + std::to_string(max_env_variables) + " variables",
                      std::to_string(env.size())};
  }
  std::size_t total = 0;
  for (const auto& [name, value] : env) {
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      return FieldError{field, "a variable's name is not empty and has no '='",
                        "\"" + name.substr(0, max_text_bytes) + "\""};
    }
    const std::string shown = name.substr(0, max_text_bytes);
    if (value.find('\0') != std::string::npos) {
      return FieldError{field, "a variable's value has no NUL byte", shown};
    }
    if (name.size() + value.size() > max_env_variable_bytes) {
      return FieldError{field,
                        "a variable has at most " + std::to_string(max_env_variable_bytes) +
                            " bytes; pass large values as arguments",
                        shown + " with " + std::to_string(name.size() + value.size()) + " bytes"};
    }
    total += name.size() + value.size() + 2;
  }
  if (total <= max_env_bytes) return std::nullopt;
  return FieldError{field,
                    "at most " + std::to_string(max_env_bytes) +
                        " bytes in total; pass large values as arguments",
                    std::to_string(total) + " bytes"};
}

Breach check_request(const Request& request) {
  if (auto broken = check_set("resources", request.resources)) return broken;
  if (auto broken = check_set("required_totals", request.required_totals)) return broken;
  if (auto broken = check_text("accelerator_type", request.accelerator_type)) return broken;
  if (auto broken = check_selector_size("label_selector", request.label_selector)) return broken;
  if (request.fallback_selectors.size() > max_fallback_selectors) {
    return FieldError{"fallback_selectors",
                      "at most " + std::to_string(max_fallback_selectors) + " alternatives",
                      std::to_string(request.fallback_selectors.size())};
  }
  for (const Labels& selector : request.fallback_selectors) {
    if (auto broken = check_selector_size("fallback_selectors", selector)) return broken;
  }
  return std::nullopt;
}

Breach check_shape(const NodeShape& shape) {
  if (auto broken = check_count_of_names("resources of a node", shape.resources.size()))
    return broken;
  for (const ResourceShape& resource : shape.resources) {
    if (auto broken = check_text("resources of a node", resource.name)) return broken;
  }
  return std::nullopt;
}

Breach check_bundle(const std::string& field, std::int64_t cpu_units, const ExactResources& exact) {
  if (auto broken = check_one_kind_of_device(field, exact)) return broken;
  const bool nothing = cpu_units == 0 && exact.memory_bytes == 0 && exact.gpu_units == 0 &&
                       exact.gpu_memory_bytes == 0 && exact.custom_units.empty();
  if (!nothing) return std::nullopt;
  return FieldError{field, "a bundle requests a resource", "amounts of 0 alone"};
}

}  // namespace mobula::internal
