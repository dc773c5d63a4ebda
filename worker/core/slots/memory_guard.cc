#include "worker/core/slots/memory_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/coverage_mark.h"
#include "store/core/byte_text.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_last_resort("worker.memory_taken_from_non_retryable_work");
const CoverageMark mark_nobody("worker.memory_pressure_without_a_victim");

constexpr std::size_t max_named = 5;

std::string size_text(std::int64_t bytes) {
  return byte_text(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
}

bool above(const MemorySampled& sample, std::int64_t permille) {
  return sample.limit_bytes > 0 &&
         sample.used_bytes >
             sample.limit_bytes / 1000 * permille + sample.limit_bytes % 1000 * permille / 1000;
}

// Rank 0 is terminated first. Empty: must not be terminated.
std::optional<int> rank(const MemoryCandidate& candidate, bool last_resort) {
  if (candidate.may_run_again) return candidate.actor ? 1 : 0;
  if (last_resort) return candidate.actor ? 3 : 2;
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> choose_to_end(std::span<const MemoryCandidate> candidates,
                                         std::int64_t least_bytes, bool last_resort) {
  std::map<JobId, std::int64_t> use;
  for (const MemoryCandidate& each : candidates) use[each.job] += each.bytes;
  std::optional<std::size_t> best;
  int best_rank = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const MemoryCandidate& each = candidates[i];
    const auto own = rank(each, last_resort);
    if (!own || each.ends_already || each.bytes < least_bytes) continue;
    const auto goes_before = [&](const MemoryCandidate& other) {
      if (*own != best_rank) return *own < best_rank;
      if (each.job != other.job && use[each.job] != use[other.job]) {
        return use[each.job] > use[other.job];
      }
      return each.order > other.order;
    };
    if (best && !goes_before(candidates[*best])) continue;
    best = i;
    best_rank = *own;
  }
  return best;
}

std::string memory_text(const MemorySampled& sample, const WorkerOptions& options) {
  const double part = sample.limit_bytes <= 0 ? 0
                                              : 100.0 * static_cast<double>(sample.used_bytes) /
                                                    static_cast<double>(sample.limit_bytes);
  return fmt::format("{}: {} of {} in use ({:.1f} %, at most {:g} %)", sample.of,
                     size_text(sample.used_bytes), size_text(sample.limit_bytes), part,
                     static_cast<double>(options.memory_threshold_permille) / 10);
}

std::string why_ended_for_memory(const MemorySampled& sample,
                                 std::span<const MemoryCandidate> candidates, std::size_t chosen,
                                 std::int64_t store_bytes, const WorkerOptions& options) {
  std::string text = fmt::format("{}; this process: {}", memory_text(sample, options),
                                 size_text(candidates[chosen].bytes));
  std::vector<const MemoryCandidate*> others;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i != chosen && candidates[i].bytes > 0) others.push_back(&candidates[i]);
  }
  std::ranges::stable_sort(others, std::greater<>(), &MemoryCandidate::bytes);
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (i < max_named) {
      text += fmt::format(", {}: {}", others[i]->name, size_text(others[i]->bytes));
    } else {
      rest += others[i]->bytes;
    }
  }
  if (rest > 0) {
    text += fmt::format(", {} other executors: {}", others.size() - max_named, size_text(rest));
  }
  if (store_bytes > 0) text += fmt::format(", the object store: {}", size_text(store_bytes));
  return text + "; fewer run at once where calls ask for `memory` or more CPUs";
}

bool MemoryGuard::is_short(const MemorySampled& sample) const {
  return above(sample, options_.memory_threshold_permille);
}

std::optional<std::size_t> MemoryGuard::evaluate(Time now, const MemorySampled& sample,
                                                 std::span<const MemoryCandidate> candidates) {
  if (!is_short(sample)) return std::nullopt;
  if (wait_until_ && now < *wait_until_) return std::nullopt;
  // The memory of an exited executor is still returning; the next sample shows the result.
  if (std::ranges::any_of(candidates, &MemoryCandidate::has_ended)) return std::nullopt;
  const bool last_resort = above(
      sample, std::max(options_.memory_threshold_permille, options_.memory_last_resort_permille));
  const std::int64_t least = std::min(options_.memory_least_bytes, sample.limit_bytes / 100);
  const auto chosen = choose_to_end(candidates, last_resort ? 1 : least, last_resort);
  if (!chosen) {
    mark_nobody.hit();
    return std::nullopt;
  }
  if (!candidates[*chosen].may_run_again) mark_last_resort.hit();
  wait_until_ = now + options_.memory_end_timeout;
  return chosen;
}

void MemoryGuard::gone(Time now) { wait_until_ = now + options_.memory_return_delay; }

}  // namespace mobula::internal::worker
