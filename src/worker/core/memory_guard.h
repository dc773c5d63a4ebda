// Which executor to end when the node is short of memory, and when: before the kernel ends one of its
// own choice, which may be the agent, or the one whose work cannot be done again. One at a time, with
// a pause for the memory to come back. Part of WorkerCore; decides from what it is given alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/id.h"
#include "base/time.h"
#include "worker/core/worker_event.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

// An executor that could be ended.
struct MemoryCandidate {
  SlotId slot;
  JobId job;
  std::uint64_t order = 0;  // later ones are newer
  bool actor = false;
  bool may_run_again = false;  // what it runs; of an actor: it may be restarted
  bool ends_already = false;   // it was ended for this or another cause, and is not gone yet
  bool has_ended = false;      // it was ended by others, and this was not told yet
  std::int64_t bytes = 0;      // that would be free without it
  std::string name;            // for people
};

// Of those that may be ended, by these rules in this order: tasks that may run again, actors that may
// be restarted, and, if `last_resort`, tasks and then actors whose work is lost. Of these those of the
// job that uses most memory here, all its executors counted; of these the newest. One that would free
// less than `least_bytes` is ended for nothing. An index, or nothing.
std::optional<std::size_t> choose_to_end(std::span<const MemoryCandidate> candidates,
                                         std::int64_t least_bytes, bool last_resort);

// "memory of the node: 30.2 GiB of 31 GiB in use (97.4 %, at most 95 %)".
std::string memory_text(const MemorySampled& sample, const WorkerOptions& options);
// Why `chosen` is ended: the node's use, its own, and what else is large.
std::string why_ended_for_memory(const MemorySampled& sample,
                                 std::span<const MemoryCandidate> candidates, std::size_t chosen,
                                 std::int64_t store_bytes, const WorkerOptions& options);

class MemoryGuard {
 public:
  explicit MemoryGuard(const WorkerOptions& options) : options_(options) {}

  // Whether more is in use than may be.
  bool is_short(const MemorySampled& sample) const;
  // Which of them is to be ended now, if one is. It counts as being ended from here on.
  std::optional<std::size_t> look(Time now, const MemorySampled& sample,
                                  std::span<const MemoryCandidate> candidates);
  // The one that was to be ended is gone.
  void gone(Time now);

 private:
  const WorkerOptions& options_;
  std::optional<Time> wait_until_;  // for the one that was ended, then for its memory
};

}  // namespace mobula::internal::worker
