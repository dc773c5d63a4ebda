#include "transport/ring/spin_budget.h"

#include <algorithm>

namespace mobula::internal {

Result<Fd> SpinBudget::create_file() {
  return SharedMemory::create_file(page_bytes, "mobula-spin");
}

Result<SpinBudget> SpinBudget::open(int fd) {
  auto memory = SharedMemory::map(fd, page_bytes);
  if (!memory) return memory.error();
  return SpinBudget(std::move(*memory));
}

// Only permits below the limit are taken, so a lower limit applies from the next request on.
SpinBudget::Permit SpinBudget::take(std::uint64_t process) const {
  if (page().asked.load(std::memory_order_relaxed) == 0)
    page().asked.store(1, std::memory_order_relaxed);
  const std::size_t places = room();
  for (std::size_t i = 0; i < places; ++i) {
    // Processes start at different slots, so they share fewer cache lines.
    Place& place = page().places[(process + i) % places];
    std::uint64_t nobody = 0;
    if (place.holder.load(std::memory_order_relaxed) != 0) continue;
    if (place.holder.compare_exchange_strong(nobody, process, std::memory_order_acquire)) {
      return Permit(place.holder);
    }
  }
  return {};
}

Duration SpinBudget::longest() const {
  return std::min<Duration>(
      longest_allowed,
      std::chrono::microseconds(page().longest_us.load(std::memory_order_relaxed)));
}

void SpinBudget::set_room(std::size_t tickets) const {
  page().room.store(static_cast<std::uint32_t>(std::min(tickets, max_tickets)),
                    std::memory_order_relaxed);
}

void SpinBudget::set_longest(Duration longest) const {
  const auto us = std::min(longest, longest_allowed) / 1us;
  page().longest_us.store(static_cast<std::uint32_t>(std::max<std::int64_t>(us, 0)),
                          std::memory_order_relaxed);
}

std::size_t SpinBudget::room() const {
  return std::min<std::size_t>(page().room.load(std::memory_order_relaxed), max_tickets);
}

std::size_t SpinBudget::taken() const {
  return static_cast<std::size_t>(std::ranges::count_if(page().places, [](const Place& place) {
    return place.holder.load(std::memory_order_relaxed) != 0;
  }));
}

bool SpinBudget::take_asked() const {
  return page().asked.exchange(0, std::memory_order_relaxed) != 0;
}

// If a running process has the same number, it only spins once more than permitted.
void SpinBudget::take_away(std::uint64_t process) const {
  for (Place& place : page().places) {
    std::uint64_t holder = process;
    place.holder.compare_exchange_strong(holder, 0, std::memory_order_relaxed);
  }
}

}  // namespace mobula::internal
