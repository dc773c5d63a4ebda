// Reactions of slots to memory pressure of the node.
#include <fmt/format.h>

#include "base/coverage_mark.h"
#include "worker/core/slots/slots.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_ended("worker.executor_ended_for_memory");

// Each start of an actor's slot is an incarnation of the actor. The head, which counts restarts,
// may not have counted all of them.
bool may_start_again(const StartSlot& start, std::uint32_t generation) {
  const std::int64_t allowed = start.actor.max_restarts;
  return allowed < 0 || static_cast<std::int64_t>(generation) < allowed;
}

}  // namespace

std::vector<MemoryCandidate> Slots::memory_candidates(const MemorySampled& sample) const {
  std::vector<MemoryCandidate> out;
  for (const ExecutorMemory& each : sample.executors) {
    const SlotRow* row = rows_.find(each.slot);
    if (row == nullptr || row->generation != each.generation || !row->has_process()) continue;
    MemoryCandidate candidate;
    candidate.slot = each.slot;
    candidate.job = row->start.demand_class.job;
    candidate.order = row->order;
    candidate.actor = row->is_actor();
    candidate.may_run_again =
        candidate.actor ? may_start_again(row->start, row->generation) : row->may_run_again;
    candidate.ends_already = row->killed.has_value();
    candidate.has_ended = each.has_ended;
    candidate.bytes = each.bytes;
    const std::string& name = row->running.empty() ? row->start.actor.class_name : row->running;
    candidate.name = fmt::format("{} (pid {})", name.empty() ? "an executor" : name, row->pid);
    out.push_back(std::move(candidate));
  }
  return out;
}

void Slots::sampled(const MemorySampled& sample, std::int64_t store_bytes) {
  const bool is_short = memory_.is_short(sample);
  if (is_short != pressure_.on) {
    pressure_ = {is_short, is_short ? memory_text(sample, options_) : "", sample.used_bytes,
                 sample.limit_bytes};
    head_.tell(pressure_);
  }
  const auto candidates = memory_candidates(sample);
  const auto chosen = memory_.evaluate(outbox_.now(), sample, candidates);
  if (!chosen) return;
  mark_ended.hit();
  const SlotId slot = candidates[*chosen].slot;
  SlotRow& row = rows_.at(slot);
  row.for_memory = true;
  kill(slot, row, why_ended_for_memory(sample, candidates, *chosen, store_bytes, options_));
}

}  // namespace mobula::internal::worker
