// Decides when to terminate an executor because the node is short of memory, and which one. The
// agent acts before the kernel, which may choose the agent itself or work that cannot run again.
// One executor is terminated at a time, then a pause lets its memory return.
// Thread: owner (WorkerCore). Units: bytes. Not: sampling, killing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/id.h"
#include "base/time.h"
#include "worker/core/worker_events.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

// An executor that may be terminated.
struct MemoryCandidate {
  SlotId slot;
  JobId job;
  std::uint64_t order = 0;  // start order; a higher number is newer
  bool actor = false;
  bool may_run_again = false;  // the running call can be retried; of an actor: it can be restarted
  bool ends_already = false;   // its end was requested before and is not complete
  bool has_ended = false;      // the process has exited, and the core has not received the event
  std::int64_t bytes = 0;      // memory that its end would free
  std::string name;            // human-readable name
};

// Chooses the executor to terminate. Ranks: tasks that can be retried, actors that can be
// restarted, then, if `last_resort`, other tasks and other actors. Within a rank the job with the
// largest memory on this node, over all its executors, comes first; within that job, the newest
// executor. Candidates that would free less than `least_bytes` are skipped. Returns an index, or
// nothing.
std::optional<std::size_t> choose_to_end(std::span<const MemoryCandidate> candidates,
                                         std::int64_t least_bytes, bool last_resort);

// Returns, for example, "memory of the node: 30.2 GiB of 31 GiB in use (97.4 %, at most 95 %)".
std::string memory_text(const MemorySampled& sample, const WorkerOptions& options);
// Explains the end of `chosen`: use of the node, its own use, and other large users.
std::string why_ended_for_memory(const MemorySampled& sample,
                                 std::span<const MemoryCandidate> candidates, std::size_t chosen,
                                 std::int64_t store_bytes, const WorkerOptions& options);

class MemoryGuard {
 public:
  explicit MemoryGuard(const WorkerOptions& options) : options_(options) {}

  // True if the use exceeds the threshold.
  bool is_short(const MemorySampled& sample) const;
  // Returns the executor to terminate now, if any. From then on it counts as terminating.
  std::optional<std::size_t> evaluate(Time now, const MemorySampled& sample,
                                      std::span<const MemoryCandidate> candidates);
  // The chosen executor has exited.
  void gone(Time now);

 private:
  const WorkerOptions& options_;
  std::optional<Time> wait_until_;  // end of the wait for the executor's exit, then for its memory
};

}  // namespace mobula::internal::worker
