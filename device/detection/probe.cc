#include "device/detection/probe.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/model/executor_bounds.h"
#include "base/model/labels/node_labels.h"

namespace mobula::internal {
namespace {

constexpr std::string_view product_label = "mobula.io/accelerator-product";
constexpr std::string_view type_label = "mobula.io/accelerator-type";

using Shapes = std::map<std::string, ResourceShape, std::less<>>;

// Product name with only characters that label values allow: "NVIDIA-H100-80GB-HBM3".
std::string label_value(std::string_view product) {
  static constexpr std::size_t longest = 63;
  std::string value;
  for (const char c : product.substr(0, longest)) {
    const bool allowed = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    value += allowed ? c : '-';
  }
  while (!value.empty() && value.back() == '-') value.pop_back();
  return value;
}

const std::vector<AcceleratorDevice>& devices_of(const MachineFacts& machine, Vendor vendor) {
  static const std::vector<AcceleratorDevice> none;
  const auto at = machine.devices.find(vendor);
  return at == machine.devices.end() ? none : at->second;
}

void label_libraries(const MachineFacts& machine, NodeShape& node) {
  const auto label = [&](std::string_view name, const std::string& version) {
    if (!version.empty()) node.labels.emplace(name, label_value(version));
  };
  label(nvidia_driver_label, machine.nvidia_driver);
  label(nvidia_cuda_label, machine.cuda);
  label(nvidia_nccl_label, machine.nccl);
}

// Labels the node with the product of its first offered device that reports one.
void label_product(const MachineFacts& machine, const ResourceShape& shape, NodeShape& node) {
  for (const InstanceShape& instance : shape.instances) {
    for (const auto& [vendor, devices] : machine.devices) {
      for (const AcceleratorDevice& device : devices) {
        const bool same = !instance.uuid.empty() ? device.uuid == instance.uuid
                                                 : device.id == instance.visible_id;
        if (row_of(vendor).name != shape.vendor || !same || device.product.empty()) continue;
        node.labels.emplace(product_label, label_value(device.product));
        if (vendor == Vendor::nvidia) label_libraries(machine, node);
        return;
      }
    }
  }
}

bool is_predefined(std::string_view name) {
  std::string plain(name);
  std::ranges::transform(plain, plain.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return plain == "cpu" || plain == "gpu" || plain == resource::memory || plain == "gpu_memory" ||
         plain == resource::object_store_memory;
}

void add_amount(std::string_view name, Quantity amount, Shapes& shapes) {
  if (amount == Quantity()) return;
  ResourceShape shape{.name = std::string(name), .instances = {}};
  shape.instances.push_back({.total = amount, .visible_id = {}, .types = {}});
  shapes.emplace(shape.name, std::move(shape));
}

// Adds the GPUs of one vendor, and the devices of every other vendor resource.
Result<void> add_devices(const MachineFacts& machine, const NodeRequest& request, NodeShape& node,
                         Shapes& shapes) {
  const VendorRow& of_gpus = gpu_vendor(machine, request);
  bool has_gpus = false;
  const auto add = [&](const VendorRow& vendor, std::optional<Quantity> requested) -> Result<void> {
    auto shape =
        device_shape(vendor, devices_of(machine, vendor.vendor), request, requested, has_gpus);
    if (!shape) return shape.error();
    if (shape->instances.empty()) return {};
    label_product(machine, *shape, node);
    shapes.emplace(shape->name, std::move(*shape));
    return {};
  };
  if (auto added = add(of_gpus, request.num_gpus); !added) return added;
  has_gpus = shapes.contains(resource::gpu);
  for (const VendorRow& vendor : vendor_rows()) {
    if (vendor.resource == resource::gpu) continue;
    std::optional<Quantity> requested;
    if (request.resources.has(vendor.resource)) requested = request.resources.get(vendor.resource);
    if (auto added = add(vendor, requested); !added) return added;
  }
  return {};
}

Result<void> add_custom(const NodeRequest& request, Shapes& shapes) {
  for (const auto& [name, amount] : request.resources.amounts()) {
    if (vendor_of_resource(name) != nullptr && name != resource::gpu) continue;  // a device
    if (is_predefined(name) || shapes.contains(name)) {
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("resources name {} = {}: it is predefined, use its own option "
                      "(--num-cpus, --num-gpus, --gpu-memory, --memory, --object-store-memory)",
                      name, amount.to_string()));
    }
    if (amount < Quantity()) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("resources name {} = {}: negative", name, amount.to_string()));
    }
    if (!request.in_units.contains(name)) {
      add_amount(name, amount, shapes);
      continue;
    }
    auto shape = unit_shape(name, amount);
    if (!shape) return shape.error();
    if (!shape->instances.empty()) shapes.emplace(name, std::move(*shape));
  }
  return {};
}

std::vector<std::string> types_of(const Shapes& shapes, const NodeRequest& request) {
  std::vector<std::string> types;
  const auto add = [&](const std::string& type) {
    if (!type.empty() && std::ranges::find(types, type) == types.end()) types.push_back(type);
  };
  add(request.accelerator_type);
  for (const auto& [name, shape] : shapes) {
    for (const auto& instance : shape.instances) std::ranges::for_each(instance.types, add);
  }
  return types;
}

Failure refused(const std::string& why) { return failure(ErrorCode::invalid_argument, why); }

// A node resource accelerator_type:T sets the type of its devices, like --accelerator-type.
Result<NodeRequest> with_named_type(NodeRequest request) {
  ResourceSet others;
  for (const auto& [name, amount] : request.resources.amounts()) {
    if (!name.starts_with(resource::accelerator_prefix)) {
      others.set(name, amount);
      continue;
    }
    const std::string type = name.substr(resource::accelerator_prefix.size());
    if (type.empty() || amount < Quantity()) {
      return refused(fmt::format("resources name {} = {}: a type and an amount above 0 are needed",
                                 name, amount.to_string()));
    }
    if (amount == Quantity()) continue;
    if (!request.accelerator_type.empty() && request.accelerator_type != type) {
      return refused(fmt::format(
          "resources name {}: the devices of this node are of type {} already; a node has one "
          "accelerator type",
          name, request.accelerator_type));
    }
    request.accelerator_type = type;
  }
  request.resources = std::move(others);
  return request;
}

}  // namespace

std::vector<Vendor> MachineFacts::vendors() const {
  std::vector<Vendor> found;
  for (const auto& [vendor, of_it] : devices) found.push_back(vendor);
  return found;
}

MachineFacts probe_machine(const ProbePaths& paths) {
  MachineFacts facts;
  facts.cpus = probe_cpus(paths.host);
  if (auto memory = probe_memory(paths.host)) {
    facts.memory = *memory;
  } else {
    facts.notes.push_back(memory.error().text);
  }
  for (const VendorRow& vendor : vendor_rows()) {
    Detected found = detect_devices(vendor.vendor, paths.devices);
    for (auto& note : found.notes) facts.notes.push_back(std::move(note));
    if (vendor.vendor == Vendor::nvidia && !found.devices.empty())
      facts.nvidia_driver = found.driver;
    if (!found.devices.empty()) facts.devices[vendor.vendor] = std::move(found.devices);
  }
  return facts;
}

const VendorRow& gpu_vendor(const MachineFacts& machine, const NodeRequest& request) {
  if (request.gpu_vendor) return row_of(*request.gpu_vendor);
  for (const VendorRow& vendor : vendor_rows()) {
    if (vendor.resource == resource::gpu && machine.devices.contains(vendor.vendor)) return vendor;
  }
  return row_of(Vendor::nvidia);
}

Result<NodeShape> node_shape(const MachineFacts& machine, const NodeRequest& given) {
  const auto typed = with_named_type(given);
  if (!typed) return typed.error();
  const NodeRequest& request = *typed;
  NodeShape node;
  node.labels = request.labels;
  node.device_policy = request.device_policy;
  Shapes shapes;
  const Quantity cpus = request.num_cpus.value_or(Quantity::whole(machine.cpus.usable()));
  if (cpus < Quantity()) return refused(fmt::format("num_cpus={} is negative", cpus.to_string()));
  add_amount(resource::cpu, cpus, shapes);
  const std::uint64_t memory = request.memory_bytes.value_or(default_node_memory(machine.memory));
  if (memory > static_cast<std::uint64_t>(Quantity::max_whole)) {
    return refused(fmt::format("memory={} bytes: more than can be counted", memory));
  }
  add_amount(resource::memory, Quantity::whole(static_cast<std::int64_t>(memory)), shapes);
  if (!request.address.empty()) add_amount("node:" + request.address, Quantity::whole(1), shapes);
  if (request.beside_head) add_amount("node:__internal_head__", Quantity::whole(1), shapes);
  if (auto added = add_devices(machine, request, node, shapes); !added) return added.error();
  if (auto added = add_custom(request, shapes); !added) return added.error();

  node.accelerator_types = types_of(shapes, request);
  if (!node.accelerator_types.empty()) {
    node.labels.emplace(type_label, label_value(node.accelerator_types.front()));
  }
  node.task_executors = task_executors_of(cpus.units() / Quantity::units_per_one);
  node.actor_executors = most_actor_executors;
  for (auto& [name, shape] : shapes) node.resources.push_back(std::move(shape));
  return node;
}

}  // namespace mobula::internal
