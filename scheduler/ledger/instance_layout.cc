#include "scheduler/ledger/instance_layout.h"

#include <algorithm>
#include <utility>

namespace mobula::internal::scheduler {
namespace {

void sort_unique(std::vector<std::string>& names) {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace

InstanceLayout::InstanceLayout(const NodeShape& shape)
    : node_types(shape.accelerator_types),
      task_executors(shape.task_executors),
      actor_executors(shape.actor_executors) {
  for (const auto& each : shape.resources) {
    if (each.name.starts_with(resource::accelerator_prefix)) {
      resource_types.push_back(each.name.substr(resource::accelerator_prefix.size()));
      continue;
    }
    Resource made{each.name, {}, {}, each.in_instances()};
    for (const auto& instance : each.instances) {
      // Agents report these numbers. Clamping keeps sums in range.
      const auto context = std::clamp<std::int64_t>(
          instance.context_bytes, 0,
          std::clamp<std::int64_t>(instance.memory_bytes, 0, Quantity::max_whole));
      made.instances.push_back(
          {instance.total, instance.memory_bytes, context, instance.types, instance.island});
    }
    add(std::move(made));
  }
  types.insert(types.end(), resource_types.begin(), resource_types.end());
  number();
}

InstanceLayout::InstanceLayout(const InstanceLayout& node, const Allocation& share)
    : node_types(node.node_types) {
  for (const auto& each : node.resources) {
    const auto* held = share.find(each.name);
    if (held == nullptr) continue;
    Resource part = each;
    part.total = {};
    for (auto& instance : part.instances) {
      instance.total = {};
      instance.memory = 0;
    }
    for (const auto& of : held->shares) {
      if (of.index >= part.instances.size()) continue;
      part.instances[of.index].total = of.amount;
      part.instances[of.index].memory = of.memory_bytes;
    }
    add(std::move(part));
  }
  for (const auto& type : node.resource_types) {
    if (share.find(std::string(resource::accelerator_prefix) + type) == nullptr) continue;
    resource_types.push_back(type);
    types.push_back(type);
  }
  number();
}

void InstanceLayout::add(Resource resource) {
  for (const auto& instance : resource.instances) {
    resource.total += instance.total;
    if (instance.total == Quantity()) continue;
    types.insert(types.end(), instance.types.begin(), instance.types.end());
  }
  has_devices = has_devices || (is_unit_instance(resource.name) && resource.total > Quantity());
  resources.push_back(std::move(resource));
}

// Sorts the members and assigns indices, once all of them are added.
void InstanceLayout::number() {
  std::ranges::sort(resources, {}, &Resource::name);
  for (std::size_t i = 0; i < resources.size(); ++i) {
    auto& each = resources[i];
    each.amount_at = amounts;
    amounts += 1 + each.instances.size();
    if (each.name == resource::cpu) cpu = static_cast<std::int32_t>(i);
    const auto counts = {resource::cpu, resource::memory, resource::object_store_memory};
    if (std::ranges::find(counts, each.name) != counts.end()) packed.push_back(i);
  }
  types.insert(types.end(), node_types.begin(), node_types.end());
  sort_unique(types);
}

SharedLayout LayoutTable::share(InstanceLayout layout) {
  if (layouts_.size() >= tidy_at_) {
    std::erase_if(layouts_, [](const SharedLayout& each) { return each.use_count() == 1; });
    tidy_at_ = 2 * layouts_.size() + 64;
  }
  return *layouts_.insert(std::make_shared<const InstanceLayout>(std::move(layout))).first;
}

}  // namespace mobula::internal::scheduler
