// How a process learns that one of its rings has something, and sleeps until one has. It has one
// doorbell for all of its rings: a bitmap of those to look at, and a word that says how it sleeps, in
// memory that its peers write; and an eventfd for a sleeper that waits for descriptors as well. A
// peer that finds the process awake makes no system call.
//
// Peers can make a process look in vain, or not wake it; they can do it no other harm.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/doorbell_protocol.h"
#include "transport/shared_memory.h"

namespace mobula::internal {

inline constexpr std::size_t max_rings = 64 * 64;  // of one process

using DoorbellPage = BasicDoorbellPage<ProcessMemory>;
static_assert(sizeof(DoorbellPage) <= 4096);
inline constexpr std::size_t doorbell_page_bytes = 4096;

// What makes a doorbell, and what a peer needs to ring it.
struct DoorbellFiles {
  Fd page;
  Fd event;  // eventfd, non-blocking
  static Result<DoorbellFiles> create();
  Result<DoorbellFiles> copy() const;
};

// The process's own side. `wake` and `ring_self` are for any thread; what else there is belongs to a
// lock of the owner, which `sleep` is called without.
class Doorbell {
 public:
  using Sleep = DoorbellSleep;  // on_word: in sleep(); nap: in nap()

  static Result<Doorbell> open(DoorbellFiles files);

  // Calls `look(index)` for each ring that was rung since the last time.
  void collect(const std::function<void(std::size_t)>& look);
  // Whether there is something to collect.
  bool rung() const {
    return doorbell_rung(*page()) || self_.load(std::memory_order_seq_cst);
  }

  // How the process is going to sleep from here on; afterwards look at rung() once more.
  void announce(Sleep how) { announce_sleep(*page(), how); }
  // After announce(on_word): sleeps until somebody rings, at most so long. May return for nothing.
  void sleep(std::optional<Duration> at_most) const;
  // After announce(nap): as sleep(), but that peers who ring softly do not end it.
  void nap(Duration at_most) const;
  // The eventfd, readable after a ring while on_event; clear_event() takes that back.
  int event() const { return files_.event.get(); }
  void clear_event() const;

  // As if the peer of that ring had rung.
  void ring(std::size_t index);
  // As a peer's ring, without a ring to look at: rung() until take_self().
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

// A peer's side. Any thread.
class DoorbellRinger {
 public:
  static Result<DoorbellRinger> open(DoorbellFiles files);

  // Tells the process to look at its ring `index`, after that was written. Wakes it if it sleeps.
  void ring(std::size_t index) const;
  // The same, but that a process that naps sleeps on until it wakes by itself. Whether it does; wake_up()
  // then ends the nap, if it is not over yet.
  bool ring_softly(std::size_t index) const;
  void wake_up() const;

 private:
  DoorbellRinger(Fd event, SharedMemory memory)
      : event_(std::move(event)), memory_(std::move(memory)) {}
  DoorbellPage& page() const { return *reinterpret_cast<DoorbellPage*>(memory_.data()); }

  Fd event_;
  SharedMemory memory_;
};

}  // namespace mobula::internal
