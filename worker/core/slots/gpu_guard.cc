#include "worker/core/slots/gpu_guard.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/core/byte_text.h"

namespace mobula::internal::worker {
namespace {

std::string gpu_bytes_text(std::int64_t bytes) {
  return byte_text(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
}

std::string device_text(const GpuUse& use) {
  return fmt::format("GPU {}{}", use.device, use.uuid.empty() ? "" : " (" + use.uuid + ")");
}

constexpr const char* what_to_do =
    "ask for more (num_gpus, gpu_memory), or keep allocations smaller";

std::string own_text(const GpuUse& use, const GpuHolder& holder, std::int64_t bytes) {
  return fmt::format(
      "{} has {} of {}, with the processes that it started and their contexts; its share is {}: {}",
      holder.name, gpu_bytes_text(bytes), device_text(use), gpu_bytes_text(holder.share_bytes),
      what_to_do);
}

std::string shared_text(const GpuUse& use, std::span<const GpuHolder> holders,
                        std::int64_t shares) {
  std::string names;
  for (const GpuHolder& each : holders) {
    if (each.device == use.device) names += (names.empty() ? "" : ", ") + each.name;
  }
  return fmt::format(
      "{} of {} are in use, and {} share {} of it; the driver does not say by which process: {}",
      gpu_bytes_text(use.used_bytes), device_text(use), names, gpu_bytes_text(shares), what_to_do);
}

}  // namespace

std::vector<GpuVerdict> GpuGuard::evaluate(const GpuMemorySampled& sample,
                                           std::span<const GpuHolder> holders) {
  std::vector<GpuVerdict> verdicts;
  for (const GpuHolder& holder : holders) {
    const auto use = std::ranges::find(sample.devices, holder.device, &GpuUse::device);
    if (use == sample.devices.end() || holder.share_bytes <= 0) continue;
    std::int64_t bytes = 0;
    std::int64_t allowed = holder.share_bytes;
    if (use->per_process) {
      for (const ExecutorGpuMemory& each : use->executors) {
        if (each.slot == holder.slot && each.generation == holder.generation) bytes += each.bytes;
      }
    } else {
      bytes = use->used_bytes;
      allowed = 0;
      for (const GpuHolder& each : holders) {
        if (each.device == holder.device) allowed += each.share_bytes;
      }
    }
    const std::pair key(holder.slot, holder.device);
    const auto known = over_.find(key);
    const bool was_over = known != over_.end() && known->second == holder.generation;
    const bool is_over = bytes > allowed + options_.gpu_memory_slack_bytes;
    if (is_over == was_over) continue;
    GpuVerdict& verdict = verdicts.emplace_back();
    verdict.slot = holder.slot;
    verdict.generation = holder.generation;
    verdict.on = is_over;
    if (!is_over) {
      over_.erase(known);
      continue;
    }
    over_[key] = holder.generation;
    // Without numbers per process, no executor is killed: another one may have used the memory.
    verdict.reacts =
        use->per_process ? options_.gpu_reacts : std::min(options_.gpu_reacts, Reacts::log);
    verdict.text =
        use->per_process ? own_text(*use, holder, bytes) : shared_text(*use, holders, allowed);
  }
  return verdicts;
}

void GpuGuard::gone(SlotId slot) {
  over_.erase(over_.lower_bound({slot, 0}), over_.upper_bound({slot, ~std::uint32_t{0}}));
}

}  // namespace mobula::internal::worker
