// Protocol on the shared page of a doorbell, except the calls to the kernel. Templates over the
// memory of processes or a model of it (process_memory.h).
// Thread: any. Not: which thread may call which function; see doorbell.h.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/local/process_memory.h"

namespace mobula::internal {

template <class Memory>
struct BasicDoorbellPage {
  template <class T>
  using Atomic = typename Memory::template Atomic<T>;
  alignas(64) Atomic<std::uint32_t> sleep;   // DoorbellSleep
  alignas(64) Atomic<std::uint64_t> groups;  // bit g: ready[g] is not empty
  alignas(64) std::array<Atomic<std::uint64_t>, 64> ready;
};

enum class DoorbellSleep : std::uint32_t {
  awake = 0,
  on_word = 1,    // blocked on the word `sleep`
  on_event = 2,   // blocked on the eventfd
  coalesced = 3,  // blocked on the word for a short fixed time
};

template <class Page>
bool doorbell_rung(const Page& page) {
  return page.groups.load(std::memory_order_seq_cst) != 0;
}

template <class Page>
void announce_sleep(Page& page, DoorbellSleep how) {
  page.sleep.store(static_cast<std::uint32_t>(how), std::memory_order_seq_cst);
}

// Calls `visit(index)` for each ring that was signaled since the last call.
template <class Page, class Visit>
void collect_rung(Page& page, const Visit& visit) {
  if (!doorbell_rung(page)) return;
  std::uint64_t groups = page.groups.exchange(0, std::memory_order_seq_cst);
  while (groups != 0) {
    const auto group = static_cast<std::size_t>(std::countr_zero(groups));
    groups &= groups - 1;
    std::uint64_t ready = page.ready[group].exchange(0, std::memory_order_seq_cst);
    while (ready != 0) {
      visit(group * 64 + static_cast<std::size_t>(std::countr_zero(ready)));
      ready &= ready - 1;
    }
  }
}

// Wakes a blocked process. The caller has written the state that the process checks again after it
// announced its wait. `kernel` provides wake_word(page.sleep) and wake_event().
template <class Page, class Kernel>
void wake_sleeper(Page& page, const Kernel& kernel) {
  const auto awake = static_cast<std::uint32_t>(DoorbellSleep::awake);
  if (page.sleep.load(std::memory_order_seq_cst) == awake) return;
  const auto slept = page.sleep.exchange(awake, std::memory_order_seq_cst);
  if (slept == static_cast<std::uint32_t>(DoorbellSleep::on_event)) {
    kernel.wake_event();
  } else if (slept != awake) {
    kernel.wake_word(page.sleep);
  }
}

template <class Page>
bool sleeps_coalesced(const Page& page) {
  return page.sleep.load(std::memory_order_seq_cst) ==
         static_cast<std::uint32_t>(DoorbellSleep::coalesced);
}

template <class Page>
void mark_rung(Page& page, std::size_t index) {
  page.ready[index / 64].fetch_or(std::uint64_t{1} << (index % 64), std::memory_order_seq_cst);
  page.groups.fetch_or(std::uint64_t{1} << (index / 64), std::memory_order_seq_cst);
}

template <class Page, class Kernel>
void ring_doorbell(Page& page, std::size_t index, const Kernel& kernel) {
  mark_rung(page, index);
  wake_sleeper(page, kernel);
}

// As ring_doorbell(), but a timed wait continues: the process polls when it ends. Returns true in
// that case.
template <class Page, class Kernel>
bool ring_deferred(Page& page, std::size_t index, const Kernel& kernel) {
  mark_rung(page, index);
  if (sleeps_coalesced(page)) return true;
  wake_sleeper(page, kernel);
  return false;
}

// Ends a timed wait; another kind of wait continues.
template <class Page, class Kernel>
void end_timed_sleep(Page& page, const Kernel& kernel) {
  if (sleeps_coalesced(page)) wake_sleeper(page, kernel);
}

}  // namespace mobula::internal
