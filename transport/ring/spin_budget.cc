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
  if (page().requested.load(std::memory_order_relaxed) == 0)
    page().requested.store(1, std::memory_order_relaxed);
  const std::size_t count = permits();
  for (std::size_t i = 0; i < count; ++i) {
    // Processes start at different slots, so they share fewer cache lines.
    Permitted& entry = page().entries[(process + i) % count];
    std::uint64_t nobody = 0;
    if (entry.holder.load(std::memory_order_relaxed) != 0) continue;
    if (entry.holder.compare_exchange_strong(nobody, process, std::memory_order_acquire)) {
      return Permit(entry.holder);
    }
  }
  return {};
}

Duration SpinBudget::longest() const {
  return std::min<Duration>(
      longest_allowed,
      std::chrono::microseconds(page().longest_us.load(std::memory_order_relaxed)));
}

void SpinBudget::set_permits(std::size_t tickets) const {
  page().permits.store(static_cast<std::uint32_t>(std::min(tickets, max_tickets)),
                       std::memory_order_relaxed);
}

void SpinBudget::set_longest(Duration longest) const {
  const auto us = std::min(longest, longest_allowed) / 1us;
  page().longest_us.store(static_cast<std::uint32_t>(std::max<std::int64_t>(us, 0)),
                          std::memory_order_relaxed);
}

std::size_t SpinBudget::permits() const {
  return std::min<std::size_t>(page().permits.load(std::memory_order_relaxed), max_tickets);
}

std::size_t SpinBudget::taken() const {
  return static_cast<std::size_t>(std::ranges::count_if(page().entries, [](const Permitted& entry) {
    return entry.holder.load(std::memory_order_relaxed) != 0;
  }));
}

bool SpinBudget::take_requested() const {
  return page().requested.exchange(0, std::memory_order_relaxed) != 0;
}

// If a running process has the same number, it only spins once more than permitted.
void SpinBudget::take_away(std::uint64_t process) const {
  for (Permitted& entry : page().entries) {
    std::uint64_t holder = process;
    entry.holder.compare_exchange_strong(holder, 0, std::memory_order_relaxed);
  }
}

}  // namespace mobula::internal
