#include "client/api/rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include <mobula/errors.h>

#include "base/quantity.h"
#include "model/accelerator_vendor.h"
#include "model/job_terms.h"
#include "model/resources.h"

namespace mobula::internal::client {

namespace {

constexpr std::size_t max_text_bytes = 256;

constexpr std::string_view accelerator_prefix = "accelerator_type:";

std::string lower(std::string_view text) {
  std::string folded(text);
  for (char& c : folded) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return folded;
}

std::string number(double amount) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), amount).ptr;
  return std::string(text.data(), end);
}

// The code point that begins `text`, and its length; nullopt where it is not UTF-8.
std::optional<std::pair<char32_t, std::size_t>> first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80       ? 1
                             : lead >> 5 == 6  ? 2
                             : lead >> 4 == 14 ? 3
                             : lead >> 3 == 30 ? 4
                                               : 0;
  if (length == 0 || length > text.size()) return std::nullopt;
  if (length == 1) return std::pair{char32_t{lead}, length};
  char32_t code = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (next & 0x3f);
  }
  constexpr std::array<char32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < smallest[length] || surrogate || code > 0x10ffff) return std::nullopt;
  return std::pair{code, length};
}

// Some devices work together only in certain numbers.
void check_count(const VendorRow& vendor, std::int64_t units) {
  if (vendor.counts.front() == 0 || units == 0) return;
  std::string allowed;
  for (const std::uint8_t count : vendor.counts) {
    if (count == 0) break;
    if (units == count * Quantity::units_per_one) return;
    allowed += (allowed.empty() ? "" : ", ") + std::to_string(count);
  }
  refuse("resources." + std::string(vendor.resource), "this resource is given in these numbers: " + allowed,
         std::to_string(units / Quantity::units_per_one));
}

void check_resource_name(const std::string& name) {
  if (name.empty()) refuse("resources", "a resource has a name", "an empty one");
  check_text("resources", name);
  const std::string folded = lower(name);
  if (folded == "cpu") refuse("resources", "CPUs are asked for with num_cpus", name);
  if (folded == "memory" || folded == "gpu_memory" || folded == "object_store_memory") {
    refuse("resources", "bytes are asked for with fields of their own", name);
  }
  if (folded == "executors" || folded == "bundle") {
    refuse("resources", "this name belongs to the runtime", name);
  }
}

std::string transport_name(Transport transport) {
  switch (transport) {
    case Transport::automatic: return "automatic";
    case Transport::shm: return "shm";
    case Transport::tcp: return "tcp";
    case Transport::gloo: return "gloo";
    case Transport::ucx: return "ucx";
    case Transport::cuda_ipc: return "cuda_ipc";
    case Transport::nccl: return "nccl";
    case Transport::object_store: return "object_store";
  }
  return "one that does not exist";
}

}  // namespace

void refuse(const std::string& field, const std::string& rule, const std::string& given) {
  auto record = std::make_shared<detail::ErrorRecord>();
  record->kind = detail::ErrorKind::invalid_request;
  record->field = field;
  record->rule = rule;
  record->message = field + ": " + rule + "; given: " + given;
  throw InvalidRequestError(std::shared_ptr<const detail::ErrorRecord>(std::move(record)));
}

void check_text(const std::string& field, std::string_view text) {
  if (text.size() > max_text_bytes) {
    refuse(field, "a name has at most 256 bytes", std::to_string(text.size()) + " bytes");
  }
  while (!text.empty()) {
    const auto next = first_code_point(text);
    if (!next) refuse(field, "a name is valid UTF-8", "bytes that are not");
    const auto [code, length] = *next;
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) {
      refuse(field, "a name has no control characters",
             "the character " + std::to_string(static_cast<unsigned>(code)));
    }
    text.remove_prefix(length);
  }
}

void check_at_least(const std::string& field, std::int64_t value, std::int64_t least) {
  if (value < least) {
    refuse(field, "at least " + std::to_string(least), std::to_string(value));
  }
}

void check_not_negative(const std::string& field, std::int64_t value) {
  if (value < 0) refuse(field, "an amount is not negative", std::to_string(value));
}

void check_bytes(const std::string& field, std::int64_t value) {
  check_not_negative(field, value);
  if (value > Quantity::max_whole) {
    refuse(field, "at most " + std::to_string(Quantity::max_whole) + " bytes", std::to_string(value));
  }
}

void check_priority(const std::string& field, int priority) {
  if (internal::check_priority(field, priority)) return;
  refuse(field, "from " + std::to_string(least_priority) + " to " + std::to_string(greatest_priority),
         std::to_string(priority));
}

std::map<std::string, std::int64_t> quota_units(const Resources& quota) {
  std::map<std::string, std::int64_t> units;
  for (const auto& [name, most] : quota) {
    if (name.empty()) refuse("job_quota", "a resource has a name", "an empty one");
    check_text("job_quota", name);
    const std::string folded = lower(name);
    const auto booked = std::string(folded == "cpu"      ? resource::cpu
                                    : folded == "gpu"    ? resource::gpu
                                    : folded == "memory" ? resource::memory
                                                         : name);
    if (!units.emplace(booked, units_of("job_quota." + name, most)).second) {
      refuse("job_quota", "a resource is named once", name + " and the same in another case");
    }
  }
  if (units.size() > most_quota_entries) {
    refuse("job_quota", "at most " + std::to_string(most_quota_entries) + " resources",
           std::to_string(units.size()));
  }
  return units;
}

void check_environment(const Environment& env) {
  for (const auto& [name, value] : env) {
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      refuse("env", "a variable's name is not empty and has no '='", "\"" + name + "\"");
    }
    if (value.find('\0') != std::string::npos) {
      refuse("env", "a variable's value has no NUL byte", name);
    }
    if (is_accelerator_variable(name)) {
      refuse("env",
             "variables that choose devices are set by the runtime to what the task was given; ask "
             "with num_gpus or the vendor's resource",
             name);
    }
  }
}

void check_scheduling(const Scheduling& scheduling) {
  const auto* affinity = std::get_if<NodeAffinity>(&scheduling);
  if (affinity != nullptr && affinity->node_id.empty()) {
    refuse("scheduling", "NodeAffinity names a node", "an empty node_id");
  }
}

void check_placement(const std::optional<Placement>& placement) {
  if (!placement) return;
  check_at_least("placement.bundle_index", placement->bundle_index, -1);
  if (placement->group.empty() &&
      (placement->bundle_index != -1 || placement->capture_child_tasks)) {
    refuse("placement", "a bundle and capturing need a group", "a placement without a group");
  }
  const auto bundles = static_cast<int>(placement->group.bundles().size());
  if (!placement->group.empty() && placement->bundle_index >= bundles) {
    refuse("placement.bundle_index",
           "below the number of bundles, which is " + std::to_string(bundles),
           std::to_string(placement->bundle_index));
  }
}

void check_transport(Transport transport) {
  if (transport == Transport::object_store) return;
  refuse("tensor_transport", "another transport than object_store is not supported yet",
         transport_name(transport));
}

void check_reading(Transport transport, const std::optional<Device>& device) {
  if (transport != Transport::automatic) check_transport(transport);
  if (!device) return;
  check_not_negative("device.index", device->index);
  if (device->kind != Device::cpu) {
    refuse("device", "reading into the memory of a device is not supported yet", "a CUDA device");
  }
}

std::int64_t units_of(const std::string& field, double amount) {
  const auto quantity = Quantity::from_double(amount);
  if (!quantity) {
    refuse(field, "an amount is finite, not negative, at most 1e14 and a multiple of 0.0001",
           number(amount));
  }
  return quantity->units();
}

std::int64_t bytes_of(const std::string& field, double amount) {
  units_of(field, amount);
  // Doubles hold all whole numbers that are allowed.
  if (amount != std::floor(amount)) refuse(field, "a whole number of bytes", number(amount));
  return static_cast<std::int64_t>(amount);
}

std::int64_t device_units_of(const std::string& field, double amount) {
  const std::int64_t units = units_of(field, amount);
  if (units > Quantity::units_per_one && units % Quantity::units_per_one != 0) {
    refuse(field, "an amount of devices is below 1 or whole", number(amount));
  }
  return units;
}

bool counts_devices(std::string_view resource) { return vendor_of_resource(resource) != nullptr; }

void check_one_kind_of_device(const std::string& field, const detail::ResourceRequest& request) {
  if (request.gpu_units == 0 && request.gpu_memory_bytes == 0) return;
  const bool cores = std::ranges::any_of(request.custom_units, [](const auto& each) {
    return each.first == resource::neuron_cores;
  });
  if (cores) refuse(field, "either GPUs or neuron_cores, not both", "both");
}

NamedResources named_resources(const Resources& resources, Asks asks) {
  NamedResources named;
  for (const auto& [name, amount] : resources) {
    if (lower(name) == "gpu") {
      if (named.gpu_units) refuse("resources", "num_gpus is given once", name + " a second time");
      named.gpu_units = device_units_of("resources." + name, amount);
      continue;
    }
    if (name.starts_with(accelerator_prefix)) {
      units_of("resources." + name, amount);
      const std::string type = name.substr(accelerator_prefix.size());
      if (!named.accelerator_type.empty() && named.accelerator_type != type) {
        refuse("resources", "one accelerator type", named.accelerator_type + " and " + type);
      }
      named.accelerator_type = type;
      continue;
    }
    check_resource_name(name);
    const VendorRow* vendor = vendor_of_resource(name);
    const std::int64_t units = vendor != nullptr ? device_units_of("resources." + name, amount)
                                                 : units_of("resources." + name, amount);
    if (vendor != nullptr && !vendor->fractions && units % Quantity::units_per_one != 0) {
      refuse("resources." + name, "this resource is only given in whole numbers", number(amount));
    }
    if (vendor != nullptr && asks == Asks::request) check_count(*vendor, units);
    if (units != 0) named.custom_units.emplace_back(name, units);
  }
  return named;
}

}  // namespace mobula::internal::client
