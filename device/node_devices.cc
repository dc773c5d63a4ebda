#include "device/node_devices.h"

#include <algorithm>

#include <fmt/format.h>

#include "device/detection/accelerator_names.h"

namespace mobula::internal {
namespace {

// Inputs for the number of instances of a resource.
struct Instances {
  std::string_view option;  // option name as the user knows it
  bool fractions = true;
  const VisibleList& list;
  std::string_view variable;  // variable with the visible list
  std::size_t physical = 0;
  std::optional<Quantity> requested{};
};

Failure refused(const Instances& kind, Quantity total, const std::string& why) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("{}={}{}", kind.option, total.to_string(), why));
}

// Amount of each instance: 1.5 becomes [1, 0.5].
Result<std::vector<Quantity>> amounts_of(const Instances& kind) {
  std::size_t detected = kind.physical;
  if (kind.list) detected = std::min(detected, kind.list->size());
  const Quantity total =
      kind.requested.value_or(Quantity::whole(static_cast<std::int64_t>(detected)));
  if (total < Quantity()) return refused(kind, total, " is negative");
  if (!total.is_whole() && !kind.fractions) {
    return refused(kind, total, ": these cannot be shared, so it must be a whole number");
  }
  const auto count = static_cast<std::size_t>((total.units() + Quantity::units_per_one - 1) /
                                              Quantity::units_per_one);
  if (kind.list && count > kind.list->size()) {
    return refused(kind, total,
                   fmt::format(", but {} names {} devices ({})", kind.variable, kind.list->size(),
                               joined(*kind.list)));
  }
  static constexpr std::size_t most_instances = 65'536;
  if (count > most_instances) {
    return refused(kind, total, fmt::format(": at most {} instances", most_instances));
  }
  std::vector<Quantity> amounts(count, Quantity::whole(1));
  if (!total.is_whole()) {
    amounts.back() = Quantity::from_units(total.units() % Quantity::units_per_one);
  }
  return amounts;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Device named by an entry of a visible list: by id, where a partitioned device stands for its
// first slice, or by a UUID prefix. Null for an unknown device (a logical device).
const AcceleratorDevice* device_of(const std::vector<AcceleratorDevice>& devices,
                                   const std::string& entry) {
  if (is_number(entry)) {
    const std::string plain =
        entry.substr(std::min(entry.find_first_not_of('0'), entry.size() - 1));
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const AcceleratorDevice& each = devices[i];
      if (each.slice ? each.board == plain
                     : (each.id.empty() ? std::to_string(i) : each.id) == plain) {
        return &each;
      }
    }
    return nullptr;
  }
  static constexpr std::size_t shortest = 5;  // "GPU-" and one digit
  if (entry.size() < shortest) return nullptr;
  const auto at = std::ranges::find_if(
      devices, [&](const AcceleratorDevice& device) { return device.uuid.starts_with(entry); });
  return at == devices.end() ? nullptr : &*at;
}

// True if the machine is known to lack the named device.
bool is_absent(const std::vector<AcceleratorDevice>& devices, const std::string& entry) {
  if (devices.empty() || device_of(devices, entry) != nullptr) return false;
  return is_number(entry) || std::ranges::none_of(devices, [](const AcceleratorDevice& each) {
           return each.uuid.empty();
         });
}

std::string ids_of(const std::vector<AcceleratorDevice>& devices) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    ids.push_back(devices[i].id.empty() ? std::to_string(i) : devices[i].id);
  }
  return joined(ids);
}

// Devices that a filter below the list passes, renumbered.
std::vector<AcceleratorDevice> filtered(const std::vector<AcceleratorDevice>& devices,
                                        const VisibleList& filter) {
  if (!filter) return devices;
  std::vector<AcceleratorDevice> left;
  for (const std::string& entry : *filter) {
    const AcceleratorDevice* device = device_of(devices, entry);
    if (device == nullptr) break;  // as the vendor library does
    left.push_back(*device);
    left.back().id = std::to_string(left.size() - 1);
  }
  return left;
}

// Context bytes, at most all bytes of the device.
std::int64_t context_bytes(bool has_device, std::uint64_t memory, const NodeRequest& request) {
  const std::uint64_t usual = has_device ? default_context_bytes : 0;
  return static_cast<std::int64_t>(std::min(request.gpu_context_bytes.value_or(usual), memory));
}

// MIG isolates a slice only if all bytes of the slice are offered.
Isolation isolation_of(const AcceleratorDevice& device, std::uint64_t offered_bytes) {
  Isolation isolation;
  if (device.slice && offered_bytes >= device.memory_bytes) isolation.prevents = Prevents::mig;
  return isolation;
}

std::vector<std::string> types_of(const VendorRow& vendor, const AcceleratorDevice* device,
                                  const NodeRequest& request, bool has_gpus) {
  if (vendor.resource == resource::gpu && !request.accelerator_type.empty()) {
    return {request.accelerator_type};
  }
  if (vendor.vendor == Vendor::neuron) return {std::string(neuron_core_type)};
  if (device != nullptr && !device->types.empty()) return device->types;
  if (device != nullptr && vendor.vendor == Vendor::nvidia) {
    return accelerator_types_of(device->product);
  }
  if (!has_gpus && !request.accelerator_type.empty()) return {request.accelerator_type};
  return {};
}

}  // namespace

Result<ResourceShape> device_shape(const VendorRow& vendor,
                                   const std::vector<AcceleratorDevice>& all,
                                   const NodeRequest& request, std::optional<Quantity> requested,
                                   bool has_gpus) {
  const auto visible =
      visible_devices(vendor, request.accelerator_variables, request.device_policy);
  if (!visible) return visible.error();
  const auto devices = filtered(all, visible->filtered);
  const bool is_gpu = vendor.resource == resource::gpu;
  const auto amounts = amounts_of({.option = is_gpu ? "num_gpus" : vendor.resource,
                                   .fractions = vendor.fractions,
                                   .list = visible->list,
                                   .variable = visible->variable,
                                   .physical = devices.size(),
                                   .requested = requested});
  if (!amounts) return amounts.error();
  ResourceShape shape{.name = std::string(vendor.resource), .instances = {}};
  shape.vendor = vendor.name;
  for (std::size_t i = 0; i < amounts->size(); ++i) {
    const AcceleratorDevice* device = nullptr;
    InstanceShape instance{.total = (*amounts)[i], .visible_id = std::to_string(i), .types = {}};
    if (visible->list) {
      instance.visible_id = (*visible->list)[i];
      device = device_of(devices, instance.visible_id);
      if (is_absent(devices, instance.visible_id)) {
        return failure(ErrorCode::invalid_argument,
                       fmt::format("{}={}: this machine has no device {}, but {} ({}); correct the "
                                   "variable or unset it",
                                   visible->variable, joined(*visible->list), instance.visible_id,
                                   devices.size(), ids_of(devices)));
      }
    } else if (i < devices.size()) {
      device = &devices[i];
      if (!device->id.empty()) instance.visible_id = device->id;
    }
    instance.types = types_of(vendor, device, request, has_gpus);
    std::uint64_t bytes = device == nullptr ? 0 : device->memory_bytes;
    if (is_gpu) bytes = request.gpu_memory_bytes.value_or(bytes);
    instance.memory_bytes = static_cast<std::int64_t>(bytes);
    if (is_gpu) instance.context_bytes = context_bytes(device != nullptr, bytes, request);
    if (device != nullptr) {
      instance.uuid = device->uuid;
      instance.island = device->island;
      instance.isolation = isolation_of(*device, bytes);
    }
    shape.instances.push_back(std::move(instance));
  }
  return shape;
}

Result<ResourceShape> unit_shape(const std::string& name, Quantity total) {
  static const VisibleList all;
  const auto amounts =
      amounts_of({.option = name, .list = all, .variable = {}, .requested = total});
  if (!amounts) return amounts.error();
  ResourceShape shape{.name = name, .instances = {}, .unit = true};
  for (std::size_t i = 0; i < amounts->size(); ++i) {
    shape.instances.push_back(
        {.total = (*amounts)[i], .visible_id = std::to_string(i), .types = {}});
  }
  return shape;
}

}  // namespace mobula::internal
