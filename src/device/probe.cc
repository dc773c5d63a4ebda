#include "device/probe.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "device/accelerator_names.h"

namespace mobula::internal {
namespace {

constexpr std::int32_t executors_per_cpu = 4;
constexpr std::int32_t most_actors = 10'000;
constexpr std::string_view product_label = "mobula.io/accelerator-product";
constexpr std::string_view type_label = "mobula.io/accelerator-type";

using Shapes = std::map<std::string, ResourceShape, std::less<>>;

// One kind of device that is counted by instances.
struct Instances {
  std::string_view resource;
  std::string_view option;    // as the user names it
  std::string_view variable;  // that lists what is visible; empty: none does
  const VisibleList& visible;
  std::size_t physical = 0;
  std::optional<Quantity> requested{};
};

// A product name with the characters that label values may have: "NVIDIA-H100-80GB-HBM3".
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

// How much of each instance there is: 1.5 is [1, 0.5].
Result<std::vector<Quantity>> amounts_of(const Instances& kind) {
  std::size_t detected = kind.physical;
  if (kind.visible) detected = std::min(detected, kind.visible->size());
  const Quantity total =
      kind.requested.value_or(Quantity::whole(static_cast<std::int64_t>(detected)));
  if (total < Quantity()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}={} is negative", kind.option, total.to_string()));
  }
  if (!total.is_whole() && !allows_fractions(kind.resource)) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}={}: these cannot be shared, so it must be a whole number",
                               kind.option, total.to_string()));
  }
  const auto count = static_cast<std::size_t>((total.units() + Quantity::units_per_one - 1) /
                                              Quantity::units_per_one);
  if (kind.visible && count > kind.visible->size()) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("{}={}, but {} names {} devices ({})", kind.option, total.to_string(),
                    kind.variable, kind.visible->size(), joined(*kind.visible)));
  }
  static constexpr std::size_t most_instances = 65'536;
  if (count > most_instances) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("{}={}: at most {} instances", kind.option, total.to_string(), most_instances));
  }
  std::vector<Quantity> amounts(count, Quantity::whole(1));
  if (!total.is_whole()) {
    amounts.back() = Quantity::from_units(total.units() % Quantity::units_per_one);
  }
  return amounts;
}

// The device that an entry of a visible list names: by index among whole devices, or by a uuid that
// may be cut short. Null for one that is not there (a logical GPU).
const GpuDevice* device_of(const std::vector<GpuDevice>& devices, const std::string& entry) {
  if (!entry.empty() && std::ranges::all_of(entry, [](char c) { return c >= '0' && c <= '9'; })) {
    const std::size_t index = entry.size() > 6 ? devices.size() : std::stoul(entry);
    return index < devices.size() ? &devices[index] : nullptr;
  }
  static constexpr std::size_t shortest = 5;  // "GPU-" and one digit
  if (entry.size() < shortest) return nullptr;
  const auto at = std::ranges::find_if(
      devices, [&](const GpuDevice& device) { return device.uuid.starts_with(entry); });
  return at == devices.end() ? nullptr : &*at;
}

InstanceShape gpu_instance(Quantity amount, std::string visible_id, const GpuDevice* device,
                           const NodeRequest& request) {
  InstanceShape instance{.total = amount, .visible_id = std::move(visible_id), .types = {}};
  if (!request.accelerator_type.empty()) {
    instance.types = {request.accelerator_type};
  } else if (device != nullptr) {
    instance.types = accelerator_types_of(device->product);
  }
  const std::uint64_t own_bytes = device == nullptr ? 0 : device->memory_bytes;
  instance.memory_bytes = static_cast<std::int64_t>(request.gpu_memory_bytes.value_or(own_bytes));
  return instance;
}

Result<void> add_gpus(const MachineFacts& machine, const NodeRequest& request, NodeShape& node,
                      Shapes& shapes) {
  const auto& devices = machine.gpus.devices;
  const auto amounts = amounts_of({.resource = resource::gpu,
                                   .option = "num_gpus",
                                   .variable = "CUDA_VISIBLE_DEVICES",
                                   .visible = request.visible_gpus,
                                   .physical = devices.size(),
                                   .requested = request.num_gpus});
  if (!amounts) return amounts.error();
  ResourceShape gpus{.name = std::string(resource::gpu), .instances = {}};
  for (std::size_t i = 0; i < amounts->size(); ++i) {
    const GpuDevice* device = nullptr;
    std::string id = std::to_string(i);
    if (request.visible_gpus) {
      id = (*request.visible_gpus)[i];
      device = device_of(devices, id);
    } else if (i < devices.size()) {
      device = &devices[i];
      // CUDA gives slices no index.
      if (device->slice) id = device->uuid;
    }
    if (device != nullptr && !device->product.empty()) {
      node.labels.emplace(product_label, label_value(device->product));
    }
    gpus.instances.push_back(gpu_instance((*amounts)[i], std::move(id), device, request));
  }
  if (!gpus.instances.empty()) shapes.emplace(gpus.name, std::move(gpus));
  return {};
}

// Devices of which only the number is known.
Result<void> add_counted(const Instances& kind, std::vector<std::string> types, Shapes& shapes) {
  const auto amounts = amounts_of(kind);
  if (!amounts) return amounts.error();
  ResourceShape shape{.name = std::string(kind.resource), .instances = {}};
  for (std::size_t i = 0; i < amounts->size(); ++i) {
    shape.instances.push_back({.total = (*amounts)[i],
                               .visible_id = kind.visible ? (*kind.visible)[i] : std::to_string(i),
                               .types = types});
  }
  if (!shape.instances.empty()) shapes.emplace(shape.name, std::move(shape));
  return {};
}

bool is_predefined(std::string_view name) {
  std::string plain(name);
  std::ranges::transform(plain, plain.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return plain == "cpu" || plain == "gpu" || plain == resource::memory ||
         plain == resource::object_store_memory;
}

void add_amount(std::string_view name, Quantity amount, Shapes& shapes) {
  if (amount == Quantity()) return;
  ResourceShape shape{.name = std::string(name), .instances = {}};
  shape.instances.push_back({.total = amount, .visible_id = {}, .types = {}});
  shapes.emplace(shape.name, std::move(shape));
}

Result<void> add_custom(const NodeRequest& request, Shapes& shapes) {
  static const VisibleList all;
  for (const auto& [name, amount] : request.resources.amounts()) {
    if (is_predefined(name) || shapes.contains(name)) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("resources name {} = {}: it is predefined, use its own option "
                                 "(--num-cpus, --num-gpus, --memory, --object-store-memory)",
                                 name, amount.to_string()));
    }
    if (amount < Quantity()) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("resources name {} = {}: negative", name, amount.to_string()));
    }
    if (!is_unit_instance(name)) {
      add_amount(name, amount, shapes);
      continue;
    }
    auto added = add_counted(
        {.resource = name, .option = name, .variable = {}, .visible = all, .requested = amount}, {},
        shapes);
    if (!added) return added;
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

}  // namespace

MachineFacts probe_machine(const ProbePaths& paths) {
  MachineFacts facts;
  facts.cpus = probe_cpus(paths.host);
  if (auto memory = probe_memory(paths.host)) {
    facts.memory = *memory;
  } else {
    facts.notes.push_back(memory.error().text);
  }
  facts.gpus = probe_gpus(paths.gpus);
  if (auto cores = probe_neuron_cores(paths.neuron)) {
    facts.neuron_cores = *cores;
  } else {
    facts.notes.push_back(cores.error().text);
  }
  return facts;
}

Result<NodeShape> node_shape(const MachineFacts& machine, const NodeRequest& request) {
  NodeShape node;
  node.labels = request.labels;
  Shapes shapes;
  const Quantity cpus = request.num_cpus.value_or(Quantity::whole(machine.cpus.usable()));
  if (cpus < Quantity()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("num_cpus={} is negative", cpus.to_string()));
  }
  add_amount(resource::cpu, cpus, shapes);
  const std::uint64_t memory = request.memory_bytes.value_or(default_node_memory(machine.memory));
  if (memory > static_cast<std::uint64_t>(Quantity::max_whole)) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("memory={} bytes: more than can be counted", memory));
  }
  add_amount(resource::memory, Quantity::whole(static_cast<std::int64_t>(memory)), shapes);
  if (auto added = add_gpus(machine, request, node, shapes); !added) return added.error();
  NodeRequest own = request;
  auto neuron = request.neuron_cores;
  if (own.resources.get(resource::neuron_cores) != Quantity()) {
    neuron = own.resources.get(resource::neuron_cores);
    own.resources.set(resource::neuron_cores, Quantity());
  }
  auto added = add_counted({.resource = resource::neuron_cores,
                            .option = "neuron_cores",
                            .variable = "NEURON_RT_VISIBLE_CORES",
                            .visible = request.visible_neuron_cores,
                            .physical = machine.neuron_cores,
                            .requested = neuron},
                           {std::string(neuron_core_type)}, shapes);
  if (!added) return added.error();
  if (added = add_custom(own, shapes); !added) return added.error();

  node.accelerator_types = types_of(shapes, request);
  if (!node.accelerator_types.empty()) {
    node.labels.emplace(type_label, label_value(node.accelerator_types.front()));
  }
  const auto whole_cpus = static_cast<std::int32_t>(
      std::min<std::int64_t>(cpus.units() / Quantity::units_per_one, 100'000));
  node.task_executors = executors_per_cpu * std::max(whole_cpus, 1);
  node.actor_executors = most_actors;
  for (auto& [name, shape] : shapes) node.resources.push_back(std::move(shape));
  return node;
}

}  // namespace mobula::internal
