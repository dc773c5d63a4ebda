// How those that ring a doorbell and the one that sleeps at it use its page: the whole of it, but for
// what the kernel does. Over the memory of processes or a model of it (process_memory.h). Functions
// of state that others hold; who may call which stands in doorbell.h.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/process_memory.h"

namespace mobula::internal {

template <class Memory>
struct BasicDoorbellPage {
  template <class T>
  using Atomic = typename Memory::template Atomic<T>;
  alignas(64) Atomic<std::uint32_t> sleep;   // DoorbellSleep
  alignas(64) Atomic<std::uint64_t> groups;  // bit g: look at ready[g]
  alignas(64) std::array<Atomic<std::uint64_t>, 64> ready;
};

enum class DoorbellSleep : std::uint32_t {
  awake = 0,
  on_word = 1,   // in a wait for the word `sleep`
  on_event = 2,  // in a wait for the eventfd
  nap = 3,       // in a wait for the word that ends by itself in a moment
};

template <class Page>
bool doorbell_rung(const Page& page) {
  return page.groups.load(std::memory_order_seq_cst) != 0;
}

template <class Page>
void announce_sleep(Page& page, DoorbellSleep how) {
  page.sleep.store(static_cast<std::uint32_t>(how), std::memory_order_seq_cst);
}

// Calls `look(index)` for each ring that was rung since the last time.
template <class Page, class Look>
void collect_rung(Page& page, const Look& look) {
  if (!doorbell_rung(page)) return;
  std::uint64_t groups = page.groups.exchange(0, std::memory_order_seq_cst);
  while (groups != 0) {
    const auto group = static_cast<std::size_t>(std::countr_zero(groups));
    groups &= groups - 1;
    std::uint64_t ready = page.ready[group].exchange(0, std::memory_order_seq_cst);
    while (ready != 0) {
      look(group * 64 + static_cast<std::size_t>(std::countr_zero(ready)));
      ready &= ready - 1;
    }
  }
}

// After something was written that the sleeper looks at once more when it has announced its sleep.
// `kernel` does wake_word(page.sleep) and wake_event().
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
bool naps(const Page& page) {
  return page.sleep.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(DoorbellSleep::nap);
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

// Lets one that naps sleep on: it looks when its nap is over. Whether it does.
template <class Page, class Kernel>
bool ring_softly(Page& page, std::size_t index, const Kernel& kernel) {
  mark_rung(page, index);
  if (naps(page)) return true;
  wake_sleeper(page, kernel);
  return false;
}

// Ends a nap; another sleep goes on.
template <class Page, class Kernel>
void end_nap(Page& page, const Kernel& kernel) {
  if (naps(page)) wake_sleeper(page, kernel);
}

}  // namespace mobula::internal
