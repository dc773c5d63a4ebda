// Reactions of slots to executors that exceed their share of a device.
#include <fmt/format.h>

#include "base/coverage_mark.h"
#include "worker/core/slots/slots.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_over("worker.executor_over_its_share_of_a_gpu");

}  // namespace

// The share is the allocated memory; a holder of a whole device has all of its memory.
std::vector<GpuHolder> Slots::gpu_holders() const {
  std::vector<GpuHolder> holders;
  for (const auto& [slot, row] : rows_) {
    if (!row.has_process() || row.pid == 0 || row.killed) continue;
    const ResourceShare* gpus = row.start.allocation.find(resource::gpu);
    if (gpus == nullptr) continue;
    const std::string& running = row.running.empty() ? row.start.actor.class_name : row.running;
    for (const InstanceShare& each : gpus->shares) {
      holders.push_back(
          {slot, row.generation, each.index, each.memory_bytes,
           fmt::format("{} (pid {})", running.empty() ? "an executor" : running, row.pid)});
    }
  }
  return holders;
}

void Slots::sampled(const GpuMemorySampled& sample) {
  for (const GpuVerdict& verdict : gpus_.evaluate(sample, gpu_holders())) {
    SlotRow& row = rows_.at(verdict.slot);
    head_.tell(SlotShareExceeded{verdict.slot, verdict.generation, verdict.on, verdict.text});
    if (!verdict.on) continue;
    mark_over.hit();
    outbox_.emit(LogWarning{verdict.text});
    if (verdict.reacts == Reacts::error) {
      processes_.send(row.process, OverShare{verdict.text});
    } else if (verdict.reacts == Reacts::kill) {
      row.for_memory = row.for_share = true;
      kill(verdict.slot, row, verdict.text);
    }
  }
}

}  // namespace mobula::internal::worker
