// Reasons of rejection: the part of InstanceLedger that formats them.
#include <algorithm>
#include <limits>

#include "scheduler/ledger/instance_ledger.h"

namespace mobula::internal::scheduler {
namespace {

Reason reason(ReasonCode code, std::string what, Quantity needed, Quantity available) {
  return {code, std::move(what), needed, std::max(available, Quantity()), {}};
}

Reason absent_or_too_small(const std::string& what, Quantity needed, Quantity total) {
  return reason(total == Quantity() ? ReasonCode::resource_absent : ReasonCode::resource_too_small,
                what, needed, total);
}

// "GPU", or "GPU of type H100" if the type makes it scarce.
std::string device_name(const Need& need, const Need::Amount& want) {
  return need.types.empty() || !want.device ? want.name
                                            : want.name + " of type " + need.types.front();
}

}  // namespace

Reason InstanceLedger::why_not(const Need& need) const {
  if (auto refusal = never(need)) return *refusal;
  if (auto refusal = busy(need)) return *refusal;
  return {};
}

std::optional<Reason> InstanceLedger::never(const Need& need) const {
  for (const auto& [name, amount] : need.required_totals.amounts()) {
    if (total(name) < amount) return absent_or_too_small(name, amount, total(name));
  }
  if (executors(need.tenant).bound <= 0) {
    return reason(ReasonCode::resource_absent, "executors", one_device, Quantity());
  }
  for (const auto& want : need.amounts) {
    const auto* of = find(want.name);
    const auto needed = std::max(want.amount, Quantity::from_units(1));
    if (of == nullptr || of->total < needed) {
      return absent_or_too_small(want.name, needed, of == nullptr ? Quantity() : of->total);
    }
    if (!of->units) continue;
    if (auto refusal = never_device(need, want)) return refusal;
  }
  if (need.has_devices) return std::nullopt;
  for (const auto& type : need.types) {
    if (std::ranges::binary_search(has_->types, type)) continue;
    Reason missing{ReasonCode::accelerator_type_absent, type, {}, {}, {}};
    for (const auto& here : has_->types) {
      missing.detail += (missing.detail.empty() ? "" : ", ") + here;
    }
    return missing;
  }
  return std::nullopt;
}

std::optional<Reason> InstanceLedger::never_device(const Need& need,
                                                   const Need::Amount& want) const {
  const auto& of = *find(want.name);
  const auto wanted = devices_wanted(want);
  if (want.amount > one_device && !want.amount.is_whole()) {
    return reason(ReasonCode::instance_too_small, want.name, want.amount, one_device);
  }
  if (count(of, need, want, {.busy = false}, wanted) >= wanted) return std::nullopt;

  if (count(of, need, want, {.types = false, .bytes = false, .busy = false}) < wanted) {
    if (want.amount >= one_device) {
      const auto whole = std::ranges::count(of.instances, one_device, &Instance::total);
      return reason(ReasonCode::resource_too_small, want.name, want.amount, Quantity::whole(whole));
    }
    const auto largest = std::ranges::max(of.instances, {}, &Instance::total).total;
    return reason(ReasonCode::instance_too_small, want.name, want.amount, largest);
  }
  const auto typed = count(of, need, want, {.bytes = false, .busy = false});
  if (typed < wanted) {
    if (typed > 0) {
      return reason(ReasonCode::resource_too_small, device_name(need, want), want.amount,
                    Quantity::whole(typed));
    }
    Reason missing{ReasonCode::accelerator_type_absent, need.types.front(), {}, {}, {}};
    std::vector<std::string> here;
    for (const auto& instance : of.instances) {
      here.insert(here.end(), instance.types.begin(), instance.types.end());
    }
    std::ranges::sort(here);
    here.erase(std::unique(here.begin(), here.end()), here.end());
    for (const auto& type : here) missing.detail += (missing.detail.empty() ? "" : ", ") + type;
    return missing;
  }
  // Bytes that one process may allocate on each matching device, the largest first. The reported
  // one is the last that would have to serve.
  std::vector<std::int64_t> memories;
  for (std::size_t i = 0; i < of.instances.size(); ++i) {
    if (!serves(of, i, need, want, {.bytes = false, .busy = false})) continue;
    memories.push_back(of.instances[i].memory - of.instances[i].context);
  }
  std::ranges::sort(memories, std::greater<>());
  return reason(ReasonCode::gpu_memory_too_small, want.name, Quantity::whole(want.bytes),
                Quantity::whole(memories[static_cast<std::size_t>(wanted) - 1]));
}

std::optional<Reason> InstanceLedger::busy(const Need& need) const {
  const auto* cpu = find(resource::cpu);
  if (cpu != nullptr && free_of(*cpu) < Quantity()) {
    return reason(ReasonCode::oversubscribed, cpu->name, {}, {});
  }
  const auto& counts = executors(need.tenant);
  if (!counts.open()) {
    const bool all_blocked = counts.running < counts.bound;
    auto full = reason(ReasonCode::executors_full, "executors", one_device,
                       Quantity::whole(all_blocked ? counts.max_holders : counts.bound));
    if (all_blocked) full.detail = "blocked executors included";
    return full;
  }
  for (const auto& want : need.amounts) {
    const auto& of = *find(want.name);
    if (!of.units) {
      if (free_of(of) < want.amount) {
        return reason(ReasonCode::resource_busy, want.name, want.amount, free_of(of));
      }
    } else if (count(of, need, want, {}) < devices_wanted(want)) {
      return busy_device(of, need, want);
    }
  }
  return std::nullopt;
}

Reason InstanceLedger::busy_device(const Resource& of, const Need& need,
                                   const Need::Amount& want) const {
  const auto wanted = devices_wanted(want);
  if (!need.types.empty() && count(of, need, want, {.types = false}) >= wanted) {
    return {ReasonCode::accelerator_type_busy,
            need.types.front(),
            want.amount,
            {},
            parts_left(of, need, want)};
  }
  if (count(of, need, want, {.bytes = false}) >= wanted) {
    std::int64_t most_bytes = 0;
    for (std::size_t i = 0; i < of.instances.size(); ++i) {
      if (!serves(of, i, need, want, {.bytes = false})) continue;
      // For a request in bytes, the reason shows bytes that it may allocate.
      const auto context = want.bytes > 0 ? of.instances[i].context : 0;
      most_bytes = std::max(most_bytes, left(of, i).memory - context);
    }
    auto requested = want.bytes;
    for (const auto& instance : of.instances) {
      const auto take = take_of(instance, want, true);
      if (want.bytes == 0 && take) requested = take->bytes;
    }
    return reason(ReasonCode::gpu_memory_busy, want.name, Quantity::whole(requested),
                  Quantity::whole(most_bytes));
  }
  if (want.amount >= one_device) {
    auto busy = reason(ReasonCode::resource_busy, want.name, want.amount,
                       Quantity::whole(count(of, need, want, {})));
    busy.detail = parts_left(of, need, want);
    return busy;
  }
  Quantity largest;
  Quantity least = want.amount;
  for (std::size_t i = 0; i < of.instances.size(); ++i) {
    if (!serves(of, i, need, want, {.busy = false})) continue;
    largest = std::max(largest, left(of, i).amount);
    if (want.amount == Quantity()) least = take_of(of.instances[i], want, true)->amount;
  }
  auto busy = reason(ReasonCode::resource_busy, want.name, least, largest);
  busy.detail = parts_left(of, need, want);
  return busy;
}

std::string InstanceLedger::parts_left(const Resource& of, const Need& need,
                                       const Need::Amount& want) const {
  constexpr std::size_t most_named = 16;
  std::size_t devices = 0;
  Quantity sum;
  std::string parts;
  for (std::size_t i = 0; i < of.instances.size(); ++i) {
    const auto rest = left(of, i).amount;
    if (rest <= Quantity() || !serves(of, i, need, want, {.busy = false})) continue;
    sum += rest;
    if (++devices <= most_named) parts += (devices == 1 ? " " : ", ") + rest.to_string();
  }
  if (devices == 0) return "free 0";
  if (devices > most_named) parts += ", …";
  return "free " + sum.to_string() + " on " + std::to_string(devices) +
         (devices == 1 ? " device:" : " devices:") + parts;
}

}  // namespace mobula::internal::scheduler
