#include "scheduler/queues/need.h"

#include <algorithm>
#include <limits>

namespace mobula::internal::scheduler {
namespace {

// Replaces a negative or too large amount, which only a forged request has, by one that fits
// nowhere.
template <class Amount>
Amount or_impossible(Amount requested, Amount impossible) {
  return requested < Amount() || requested > impossible ? impossible : requested;
}

}  // namespace

Need::Need(const Request& request, Tenant for_tenant)
    : required_totals(request.required_totals), tenant(for_tenant) {
  if (!request.accelerator_type.empty()) types.push_back(request.accelerator_type);
  const auto gpu = std::string(resource::gpu);
  const auto bytes = or_impossible(request.gpu_memory, Quantity::max_whole);
  bool bytes_placed = bytes == 0;
  for (const auto& [name, amount] : request.resources.amounts()) {
    if (name.starts_with(resource::accelerator_prefix)) {
      types.push_back(name.substr(resource::accelerator_prefix.size()));
      continue;
    }
    const bool device = is_unit_instance(name);
    const bool is_gpu = name == gpu;
    bytes_placed = bytes_placed || is_gpu;
    amounts.push_back({name, or_impossible(amount, Quantity::whole(Quantity::max_whole)), device,
                       is_gpu ? bytes : 0});
    has_devices = has_devices || device;
  }
  if (!bytes_placed) {
    amounts.push_back({gpu, Quantity(), true, bytes});
    std::ranges::sort(amounts, {}, &Amount::name);
    has_devices = true;
  }
  std::ranges::sort(types);
  types.erase(std::unique(types.begin(), types.end()), types.end());
}

std::string to_string(const Need& need) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& amount) {
    text += (text.empty() ? "" : ", ") + name + " " + amount;
  };
  for (const auto& each : need.amounts) {
    const bool by_memory = each.device && each.amount == Quantity();
    if (!by_memory) add(each.name, each.amount.to_string());
    if (each.bytes > 0) add("gpu_memory", std::to_string(each.bytes));
  }
  return text.empty() ? "nothing" : text;
}

ResourceSet amounts_of(const Need& need) {
  ResourceSet sums;
  for (const auto& each : need.amounts) sums.add(each.name, each.amount);
  return sums;
}

ResourceSet most_held_by(const Need& need) {
  ResourceSet sums;
  for (const auto& each : need.amounts) {
    const bool by_memory = each.device && each.amount == Quantity();
    sums.add(each.name, by_memory ? Quantity::whole(1) : each.amount);
  }
  return sums;
}

ResourceSet amounts_of(const Allocation& allocation) {
  ResourceSet sums;
  for (const auto& each : allocation.resources) {
    if (each.name.starts_with(resource::accelerator_prefix)) continue;
    for (const auto& share : each.shares) sums.add(each.name, share.amount);
  }
  return sums;
}

void add_at_most(ResourceSet& sums, const ResourceSet& more) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  for (const auto& [name, amount] : more.amounts()) {
    const auto before = sums.get(name);
    const bool counts = before.units() <= most - std::max<std::int64_t>(amount.units(), 0);
    sums.set(name, counts ? before + amount : Quantity::from_units(most));
  }
}

std::int64_t millionths(Quantity part, Quantity whole) {
  auto above = part.units();
  auto below = whole.units();
  if (below <= 0 || above <= 0) return 0;
  // Bytes fill most of 64 bits: drop low bits of both until the product fits.
  while (below > (std::int64_t{1} << 42) || above > (std::int64_t{1} << 42)) {
    above >>= 1;
    below >>= 1;
  }
  return below == 0 ? 1'000'000 : above * 1'000'000 / below;
}

}  // namespace mobula::internal::scheduler
