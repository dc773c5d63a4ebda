#include "scheduler/instance_ledger.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace mobula::internal::scheduler {

std::int64_t InstanceLedger::devices_wanted(const Need::Amount& want) {
  if (want.amount < one_device) return 1;
  return want.amount.is_whole() ? want.amount.units() / Quantity::units_per_one
                                : std::numeric_limits<std::int64_t>::max();
}

InstanceLedger::InstanceLedger(const NodeShape& shape, std::int32_t max_task_slots)
    : places_{Places{shape.task_executors, 0, 0, max_task_slots},
              Places{shape.actor_executors, 0, 0, shape.actor_executors}, no_bound} {
  for (const auto& type : shape.accelerator_types) types_in_use_[type];
  for (const auto& each : shape.resources) add_resource(each);
  std::ranges::sort(resources_, {}, &Resource::name);
}

InstanceLedger::InstanceLedger(const NodeShape& shape, const Allocation& share)
    : places_{no_bound, no_bound, no_bound} {
  for (const auto& type : shape.accelerator_types) types_in_use_[type];
  for (const auto& each : shape.resources) {
    const auto* held = share.find(each.name);
    if (held == nullptr) continue;
    ResourceShape part = each;
    for (auto& instance : part.instances) {
      instance.total = {};
      instance.memory_bytes = 0;
    }
    for (const auto& of : held->shares) {
      if (of.index >= part.instances.size()) continue;
      part.instances[of.index].total = of.amount;
      part.instances[of.index].memory_bytes = of.memory_bytes;
    }
    add_resource(part);
  }
  std::ranges::sort(resources_, {}, &Resource::name);
}

void InstanceLedger::add_resource(const ResourceShape& shape) {
  if (shape.name.starts_with(resource::accelerator_prefix)) {
    types_in_use_[shape.name.substr(resource::accelerator_prefix.size())];
    return;
  }
  Resource made{shape.name, {}, {}, {}, shape.in_instances()};
  for (const auto& instance : shape.instances) {
    const auto index = static_cast<std::uint32_t>(made.entries.size());
    made.entries.push_back({index, instance.total, instance.total, instance.memory_bytes,
                            instance.memory_bytes, instance.types, instance.island});
    made.total += instance.total;
    if (instance.total == Quantity()) continue;
    for (const auto& type : instance.types) types_in_use_[type];
  }
  made.free = made.total;
  has_devices_ = has_devices_ || (is_unit_instance(made.name) && made.total > Quantity());
  resources_.push_back(std::move(made));
}

// What `want` takes of an empty `entry`; nothing if it can never hold it. Without `bytes`, as if
// memory were not counted.
std::optional<InstanceLedger::Take> InstanceLedger::take_of(const Entry& entry,
                                                            const Need::Amount& want, bool bytes) {
  if (bytes && want.bytes > entry.memory) return std::nullopt;
  if (want.amount >= one_device) {
    if (entry.total != one_device) return std::nullopt;
    return Take{one_device, entry.memory};
  }
  const auto total = entry.total.units();
  if (total <= 0) return std::nullopt;
  if (want.amount > Quantity()) {
    if (want.amount > entry.total) return std::nullopt;
    return Take{want.amount,
                want.bytes > 0 ? want.bytes : entry.memory * want.amount.units() / total};
  }
  if (entry.memory <= 0) return bytes ? std::nullopt : std::optional<Take>(Take{});
  const auto held = std::min(want.bytes, entry.memory);
  return Take{Quantity::from_units((held * total + entry.memory - 1) / entry.memory), held};
}

bool InstanceLedger::serves(const Entry& entry, const Need& need, const Need::Amount& want,
                            Rules rules) {
  if (rules.types && want.device) {
    for (const auto& type : need.types) {
      if (std::ranges::find(entry.types, type) == entry.types.end()) return false;
    }
  }
  const auto take = take_of(entry, want, rules.bytes);
  if (!take) return false;
  return !rules.busy ||
         (take->amount <= entry.free && (!rules.bytes || take->bytes <= entry.memory_free));
}

std::int64_t InstanceLedger::count(const Resource& of, const Need& need, const Need::Amount& want,
                                   Rules rules) {
  return std::ranges::count_if(
      of.entries, [&](const Entry& entry) { return serves(entry, need, want, rules); });
}

bool InstanceLedger::fits(const Need& need) const {
  const auto* cpu = find(resource::cpu);
  if ((cpu != nullptr && cpu->free < Quantity()) || !places(need.tenant).open()) return false;
  for (const auto& want : need.amounts) {
    const auto* of = find(want.name);
    if (of == nullptr || of->free < want.amount) return false;
    if (of->units && count(*of, need, want, {}) < devices_wanted(want)) return false;
  }
  return !never(need).has_value();
}

std::optional<std::int32_t> InstanceLedger::island_for(const Resource& from, const Need& need,
                                                       const Need::Amount& want) {
  if (need.tenant != Tenant::bundle || want.amount <= one_device) return std::nullopt;
  std::map<std::int32_t, std::int64_t> free;
  for (const auto& entry : from.entries) {
    if (entry.island >= 0 && serves(entry, need, want, {})) ++free[entry.island];
  }
  std::optional<std::int32_t> best;
  for (const auto& [island, count] : free) {
    if (count >= devices_wanted(want) && (!best || count < free.at(*best))) best = island;
  }
  return best;
}

void InstanceLedger::take_devices(Resource& from, const Need& need, const Need::Amount& want,
                                  ResourceShare& share) {
  const auto island = island_for(from, need, want);
  for (auto left = devices_wanted(want); left > 0; --left) {
    Entry* best = nullptr;
    Take best_take;
    for (auto& entry : from.entries) {
      if (!serves(entry, need, want, {}) || (island && entry.island != *island)) continue;
      const auto take = *take_of(entry, want, true);
      const auto rest = [](const Entry& of, const Take& taken) {
        return std::tuple(of.free - taken.amount, of.memory_free - taken.bytes, of.index);
      };
      // Whole devices leave nothing, so for them this is the lowest index.
      const bool whole = want.amount >= one_device;
      if (best == nullptr || (!whole && rest(entry, take) < rest(*best, best_take))) {
        best = &entry;
        best_take = take;
        if (whole) break;
      }
    }
    MOBULA_CHECK(best != nullptr, "a request that fits finds its devices: " + want.name);
    best->free -= best_take.amount;
    best->memory_free -= best_take.bytes;
    from.free -= best_take.amount;
    share.shares.push_back({best->index, best_take.amount, best_take.bytes});
  }
}

std::optional<Allocation> InstanceLedger::book(const Need& need) {
  if (!fits(need)) return std::nullopt;
  Allocation allocation;
  for (const auto& want : need.amounts) {
    auto& from = *find(want.name);
    ResourceShare share{want.name, {}};
    if (from.units) {
      take_devices(from, need, want, share);
    } else {
      from.entries.front().free -= want.amount;
      from.free -= want.amount;
      share.shares.push_back({0, want.amount, 0});
    }
    allocation.resources.push_back(std::move(share));
  }
  for (const auto& type : need.types) {
    const auto shown = Quantity::from_units(resource::accelerator_units);
    types_in_use_[type] += shown;
    allocation.resources.push_back(
        {std::string(resource::accelerator_prefix) + type, {{0, shown, 0}}});
  }
  std::ranges::sort(allocation.resources, {}, &ResourceShare::name);
  auto& place = places(need.tenant);
  ++place.running;
  ++place.holders;
  return allocation;
}

// Adds (sign 1) or takes (sign -1) every one of `shares`.
void InstanceLedger::move(std::span<const ResourceShare> shares, int sign, bool with_cpu) {
  for (const auto& each : shares) {
    if (each.name.starts_with(resource::accelerator_prefix)) {
      const auto at = types_in_use_.find(each.name.substr(resource::accelerator_prefix.size()));
      if (at == types_in_use_.end()) continue;
      for (const auto& share : each.shares) at->second += sign > 0 ? -share.amount : share.amount;
      continue;
    }
    auto* of = find(each.name);
    if (of == nullptr || (!with_cpu && each.name == resource::cpu)) continue;
    for (const auto& share : each.shares) {
      if (share.index >= of->entries.size()) continue;
      auto& entry = of->entries[share.index];
      const auto amount = sign > 0 ? share.amount : -share.amount;
      entry.free += amount;
      of->free += amount;
      entry.memory_free += sign * share.memory_bytes;
    }
  }
}

void InstanceLedger::restore(const Allocation& allocation, Occupancy occupancy) {
  move(allocation.resources, -1, !occupancy.lent);
  auto& place = places(occupancy.tenant);
  if (!occupancy.lent) ++place.running;
  ++place.holders;
}

bool InstanceLedger::has_free(const Allocation& allocation) const {
  for (const auto& each : allocation.resources) {
    if (each.name.starts_with(resource::accelerator_prefix)) continue;
    const auto* of = find(each.name);
    if (of == nullptr) return false;
    for (const auto& share : each.shares) {
      if (share.index >= of->entries.size()) return false;
      const auto& entry = of->entries[share.index];
      if (share.amount > entry.free || share.memory_bytes > entry.memory_free) return false;
    }
  }
  return true;
}

void InstanceLedger::free(const Allocation& allocation, Occupancy occupancy) {
  move(allocation.resources, 1, !occupancy.lent);
  auto& place = places(occupancy.tenant);
  if (!occupancy.lent) --place.running;
  --place.holders;
  MOBULA_CHECK(place.running >= 0 && place.holders >= 0, "a place is freed once");
}

void InstanceLedger::lend(const Allocation& allocation, Tenant tenant) {
  --places(tenant).running;
  if (const auto* cpu = allocation.find(resource::cpu)) move({cpu, 1}, 1, true);
}

void InstanceLedger::resume(const Allocation& allocation, Tenant tenant) {
  ++places(tenant).running;
  if (const auto* cpu = allocation.find(resource::cpu)) move({cpu, 1}, -1, true);
}

Quantity InstanceLedger::total(std::string_view name) const {
  const auto* of = find(name);
  return of == nullptr ? Quantity() : of->total;
}

Quantity InstanceLedger::available(std::string_view name) const {
  const auto* of = find(name);
  return of == nullptr ? Quantity() : of->free;
}

Quantity InstanceLedger::largest_share(std::string_view name) const {
  const auto* of = find(name);
  return of == nullptr ? Quantity() : largest_share(*of);
}

Quantity InstanceLedger::largest_share(const Resource& of) {
  if (!of.units) return of.free;
  Quantity most;
  std::int64_t whole = 0;
  for (const auto& entry : of.entries) {
    most = std::max(most, entry.free);
    if (entry.free == one_device) ++whole;
  }
  return whole > 0 ? Quantity::whole(whole) : most;
}

std::vector<std::string> InstanceLedger::names() const {
  std::vector<std::string> names;
  for (const auto& each : resources_) names.push_back(each.name);
  return names;
}

InstanceLedger::Resource* InstanceLedger::find(std::string_view name) {
  for (auto& each : resources_) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

const InstanceLedger::Resource* InstanceLedger::find(std::string_view name) const {
  return const_cast<InstanceLedger*>(this)->find(name);
}

}  // namespace mobula::internal::scheduler
