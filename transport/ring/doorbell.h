// The doorbell of a process: peers signal that a ring has records, and the process blocks until one
// is signaled. It consists of a shared bitmap of rings, a shared word that states how the process
// waits, and an eventfd for a thread that also waits for descriptors. A ring on an awake process
// makes no system call.
// Thread: see each class. Errors: a faulty peer can cause a needless poll or delay a wake-up,
// and no other harm.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/local/shared_memory.h"
#include "transport/ring/doorbell_states.h"

namespace mobula::internal {

inline constexpr std::size_t max_rings = 64 * 64;  // per process

using DoorbellPage = BasicDoorbellPage<ProcessMemory>;
static_assert(sizeof(DoorbellPage) <= 4096);
inline constexpr std::size_t doorbell_page_bytes = 4096;

// The files that create a doorbell. A peer needs them to ring it.
struct DoorbellFiles {
  Fd page;
  Fd event;  // eventfd, non-blocking
  static Result<DoorbellFiles> create();
  Result<DoorbellFiles> copy() const;
};

// The side of the process. Thread: any for `ring` and `ring_self`. A lock of the owner guards all
// else, but is not held in `sleep` and `sleep_coalesced`.
class Doorbell {
 public:
  using Sleep = DoorbellSleep;  // `on_word`: in sleep(); `coalesced`: in `sleep_coalesced()`

  static Result<Doorbell> open(DoorbellFiles files);

  // Calls `visit(index)` for each ring that was signaled since the last call.
  void collect(const std::function<void(std::size_t)>& visit);
  // True if collect() would find a ring.
  bool rung() const { return doorbell_rung(*page()) || self_.load(std::memory_order_seq_cst); }

  // Announces how the process waits from now on. Afterwards the caller must check rung() once more.
  void announce(Sleep how) { announce_sleep(*page(), how); }
  // After announce(on_word): blocks until a ring, at most `at_most`. May return spuriously.
  void sleep(std::optional<Duration> at_most) const;
  // After `announce(coalesced)`: as sleep(), but ring_deferred() does not end it.
  void sleep_coalesced(Duration at_most) const;
  // The eventfd, readable after a ring while on_event is announced. clear_event() resets it.
  int event() const { return files_.event.get(); }
  void clear_event() const;

  // Signals ring `index`, as its peer does.
  void ring(std::size_t index);
  // Rings without a ring index: rung() stays true until take_self().
  void ring_self();
  bool take_self() { return self_.exchange(false, std::memory_order_seq_cst); }

  Doorbell(Doorbell&& other) noexcept;
  Doorbell& operator=(Doorbell&&) = delete;

 private:
  Doorbell(DoorbellFiles files, SharedMemory memory)
      : files_(std::move(files)), memory_(std::move(memory)) {}
  DoorbellPage* page() const { return reinterpret_cast<DoorbellPage*>(memory_.data()); }

  DoorbellFiles files_;
  SharedMemory memory_;
  std::atomic<bool> self_{false};
};

// The side of a peer. Thread: any.
class DoorbellRinger {
 public:
  static Result<DoorbellRinger> open(DoorbellFiles files);

  // Signals that ring `index` has a new record, after it was written. Wakes the process if it
  // blocks.
  void ring(std::size_t index) const;
  // As ring(), but a timed wait of the process continues. Returns true in that case: wake_up() then
  // ends the wait, unless it ended already.
  bool ring_deferred(std::size_t index) const;
  void wake_up() const;

 private:
  DoorbellRinger(Fd event, SharedMemory memory)
      : event_(std::move(event)), memory_(std::move(memory)) {}
  DoorbellPage& page() const { return *reinterpret_cast<DoorbellPage*>(memory_.data()); }

  Fd event_;
  SharedMemory memory_;
};

}  // namespace mobula::internal
