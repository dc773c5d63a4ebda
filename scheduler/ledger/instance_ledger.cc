#include "scheduler/ledger/instance_ledger.h"

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
    : InstanceLedger(std::make_shared<const InstanceLayout>(shape), max_task_slots) {}

InstanceLedger::InstanceLedger(SharedLayout layout, std::int32_t max_task_slots)
    : has_(std::move(layout)),
      executors_{ExecutorCounts{has_->task_executors, 0, 0, max_task_slots},
                 ExecutorCounts{has_->actor_executors, 0, 0, has_->actor_executors}, no_bound} {
  clear();
}

InstanceLedger::InstanceLedger(const InstanceLayout& node, const Allocation& share)
    : has_(std::make_shared<const InstanceLayout>(node, share)),
      executors_{no_bound, no_bound, no_bound} {
  clear();
}

void InstanceLedger::clear() {
  left_.reserve(has_->amounts);
  for (const auto& each : has_->resources) {
    left_.push_back({each.total, 0});
    for (const auto& instance : each.instances) left_.push_back({instance.total, instance.memory});
  }
  types_used_.resize(has_->types.size());
}

// Amount and bytes that `want` takes of a free instance; empty if it can never fit. Without
// `bytes`, memory is ignored.
std::optional<InstanceLedger::Take> InstanceLedger::take_of(const Instance& has,
                                                            const Need::Amount& want, bool bytes) {
  const auto booked = booked_bytes(has, want);
  if (bytes && booked > has.memory) return std::nullopt;
  if (want.amount >= one_device) {
    if (has.total != one_device) return std::nullopt;
    return Take{one_device, has.memory};
  }
  const auto total = has.total.units();
  if (total <= 0) return std::nullopt;
  if (want.amount > Quantity()) {
    if (want.amount > has.total) return std::nullopt;
    return Take{want.amount, booked > 0 ? booked : has.memory * want.amount.units() / total};
  }
  if (has.memory <= 0) return bytes ? std::nullopt : std::optional<Take>(Take{});
  const auto held = std::min(booked, has.memory);
  return Take{Quantity::from_units((held * total + has.memory - 1) / has.memory), held};
}

bool InstanceLedger::serves(const Resource& of, std::size_t instance, const Need& need,
                            const Need::Amount& want, Rules rules) const {
  const auto& has = of.instances[instance];
  if (rules.types && want.device) {
    for (const auto& type : need.types) {
      if (std::ranges::find(has.types, type) == has.types.end()) return false;
    }
  }
  const auto take = take_of(has, want, rules.bytes);
  if (!take) return false;
  if (!rules.busy) return true;
  const auto& rest = left(of, instance);
  return take->amount <= rest.amount && (!rules.bytes || take->bytes <= rest.memory);
}

std::int64_t InstanceLedger::count(const Resource& of, const Need& need, const Need::Amount& want,
                                   Rules rules, std::int64_t limit) const {
  std::int64_t found = 0;
  for (std::size_t i = 0; i < of.instances.size() && found < limit; ++i) {
    if (serves(of, i, need, want, rules)) ++found;
  }
  return found;
}

bool InstanceLedger::fits(const Need& need) const {
  const auto* cpu = has_->of_cpu();
  if ((cpu != nullptr && free_of(*cpu) < Quantity()) || !executors(need.tenant).open())
    return false;
  // Free amounts imply total amounts, so this check usually suffices.
  bool is_plain = need.types.empty() && need.required_totals.empty();
  for (const auto& want : need.amounts) {
    const auto* of = find(want.name);
    if (of == nullptr || free_of(*of) < want.amount) return false;
    is_plain = is_plain && want.amount > Quantity();
    const auto wanted = devices_wanted(want);
    if (of->units && count(*of, need, want, {}, wanted) < wanted) return false;
  }
  return is_plain || !never(need).has_value();
}

std::optional<std::int32_t> InstanceLedger::island_for(const Resource& from, const Need& need,
                                                       const Need::Amount& want) const {
  if (need.tenant != Tenant::bundle || want.amount <= one_device) return std::nullopt;
  std::map<std::int32_t, std::int64_t> free;
  for (std::size_t i = 0; i < from.instances.size(); ++i) {
    const auto island = from.instances[i].island;
    if (island >= 0 && serves(from, i, need, want, {})) ++free[island];
  }
  std::optional<std::int32_t> best;
  for (const auto& [island, count] : free) {
    if (count >= devices_wanted(want) && (!best || count < free.at(*best))) best = island;
  }
  return best;
}

void InstanceLedger::take_devices(const Resource& from, const Need& need, const Need::Amount& want,
                                  ResourceShare& share) {
  const auto island = island_for(from, need, want);
  const bool whole = want.amount >= one_device;
  for (auto lacking = devices_wanted(want); lacking > 0; --lacking) {
    std::optional<std::size_t> best;
    Take best_take;
    for (std::size_t i = 0; i < from.instances.size(); ++i) {
      const auto& has = from.instances[i];
      if (!serves(from, i, need, want, {}) || (island && has.island != *island)) continue;
      const auto take = *take_of(has, want, true);
      const auto rest = [&](std::size_t of, const Take& taken) {
        return std::tuple(left(from, of).amount - taken.amount, left(from, of).memory - taken.bytes,
                          of);
      };
      // Whole devices leave no remainder, so the lowest index wins.
      if (!best || (!whole && rest(i, take) < rest(*best, best_take))) {
        best = i;
        best_take = take;
        if (whole) break;
      }
    }
    MOBULA_CHECK(best.has_value(), "a request that fits finds its devices: " + want.name);
    add(from, *best, -best_take.amount, -best_take.bytes);
    share.shares.push_back({static_cast<std::uint32_t>(*best), best_take.amount, best_take.bytes});
  }
}

std::optional<Allocation> InstanceLedger::book(const Need& need) {
  if (!fits(need)) return std::nullopt;
  return take(need);
}

Allocation InstanceLedger::take(const Need& need) {
  Allocation allocation;
  allocation.resources.reserve(need.amounts.size() + need.types.size());
  for (const auto& want : need.amounts) {
    const auto& from = *find(want.name);
    ResourceShare share{want.name, {}};
    if (from.units) {
      take_devices(from, need, want, share);
    } else {
      MOBULA_CHECK(free_of(from) >= want.amount, "the taken amount is free: " + want.name);
      add(from, 0, -want.amount, 0);
      share.shares.push_back({0, want.amount, 0});
    }
    allocation.resources.push_back(std::move(share));
  }
  for (const auto& type : need.types) {
    const auto shown = Quantity::from_units(resource::accelerator_units);
    if (auto* used = used_of_type(type)) *used += shown;
    allocation.resources.push_back(
        {std::string(resource::accelerator_prefix) + type, {{0, shown, 0}}});
  }
  std::ranges::sort(allocation.resources, {}, &ResourceShare::name);
  auto& counts = executors(need.tenant);
  ++counts.running;
  ++counts.holders;
  return allocation;
}

// Adds (sign 1) or subtracts (sign -1) all of `shares`.
void InstanceLedger::move(std::span<const ResourceShare> shares, int sign, bool with_cpu) {
  for (const auto& each : shares) {
    if (each.name.starts_with(resource::accelerator_prefix)) {
      auto* used =
          used_of_type(std::string_view(each.name).substr(resource::accelerator_prefix.size()));
      if (used == nullptr) continue;
      for (const auto& share : each.shares) *used += sign > 0 ? -share.amount : share.amount;
      continue;
    }
    const auto* of = find(each.name);
    if (of == nullptr || (!with_cpu && each.name == resource::cpu)) continue;
    for (const auto& share : each.shares) {
      if (share.index >= of->instances.size()) continue;
      add(*of, share.index, sign > 0 ? share.amount : -share.amount, sign * share.memory_bytes);
    }
  }
}

void InstanceLedger::restore(const Allocation& allocation, Occupancy occupancy) {
  move(allocation.resources, -1, !occupancy.lent);
  auto& counts = executors(occupancy.tenant);
  if (!occupancy.lent) ++counts.running;
  ++counts.holders;
}

bool InstanceLedger::has_free(const Allocation& allocation) const {
  for (const auto& each : allocation.resources) {
    if (each.name.starts_with(resource::accelerator_prefix)) continue;
    const auto* of = find(each.name);
    if (of == nullptr) return false;
    for (const auto& share : each.shares) {
      if (share.index >= of->instances.size()) return false;
      const auto& rest = left(*of, share.index);
      if (share.amount > rest.amount || share.memory_bytes > rest.memory) return false;
    }
  }
  return true;
}

void InstanceLedger::free(const Allocation& allocation, Occupancy occupancy) {
  move(allocation.resources, 1, !occupancy.lent);
  auto& counts = executors(occupancy.tenant);
  if (!occupancy.lent) --counts.running;
  --counts.holders;
  MOBULA_CHECK(counts.running >= 0 && counts.holders >= 0, "an executor slot is freed once");
}

void InstanceLedger::release_cpu(const Allocation& allocation, Tenant tenant) {
  --executors(tenant).running;
  if (const auto* cpu = allocation.find(resource::cpu)) move({cpu, 1}, 1, true);
}

void InstanceLedger::reacquire_cpu(const Allocation& allocation, Tenant tenant) {
  ++executors(tenant).running;
  if (const auto* cpu = allocation.find(resource::cpu)) move({cpu, 1}, -1, true);
}

Quantity InstanceLedger::total(std::string_view name) const {
  const auto* of = find(name);
  return of == nullptr ? Quantity() : of->total;
}

Quantity InstanceLedger::available(std::string_view name) const {
  const auto* of = find(name);
  return of == nullptr ? Quantity() : free_of(*of);
}

Quantity InstanceLedger::largest_share(std::string_view name) const {
  const auto* of = find(name);
  return of == nullptr ? Quantity() : largest_share(*of);
}

Quantity InstanceLedger::largest_share(const Resource& of) const {
  if (!of.units) return free_of(of);
  Quantity most;
  std::int64_t whole = 0;
  for (std::size_t i = 0; i < of.instances.size(); ++i) {
    const auto rest = left(of, i).amount;
    most = std::max(most, rest);
    if (rest == one_device) ++whole;
  }
  return whole > 0 ? Quantity::whole(whole) : most;
}

std::vector<std::string> InstanceLedger::names() const {
  std::vector<std::string> names;
  for (const auto& each : has_->resources) names.push_back(each.name);
  return names;
}

std::map<std::string, Quantity> InstanceLedger::types_in_use() const {
  std::map<std::string, Quantity> used;
  for (std::size_t i = 0; i < types_used_.size(); ++i) used[has_->types[i]] = types_used_[i];
  return used;
}

Quantity* InstanceLedger::used_of_type(std::string_view type) {
  const auto at = std::ranges::lower_bound(has_->types, type);
  if (at == has_->types.end() || *at != type) return nullptr;
  return &types_used_[static_cast<std::size_t>(at - has_->types.begin())];
}

void InstanceLedger::add(const Resource& to, std::size_t instance, Quantity amount,
                         std::int64_t memory) {
  left_[to.amount_at].amount += amount;
  auto& rest = left_[to.amount_at + 1 + instance];
  rest.amount += amount;
  rest.memory += memory;
}

const InstanceLedger::Resource* InstanceLedger::find(std::string_view name) const {
  for (const auto& each : has_->resources) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

}  // namespace mobula::internal::scheduler
