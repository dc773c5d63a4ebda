#include "client/engine/spin_then_park.h"

#include <algorithm>

namespace mobula::internal::client {
namespace {

// After a failed spin of the minimum length, the leader blocks at once this number of times, then
// spins again.
constexpr int sleeps_before_next_look = 32;
constexpr Duration shortest_look = 2us;
constexpr int looks_per_clock = 16;

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool SpinThenPark::look(const Doorbell& bell, const SpinBudget* page) {
  if (bell.rung()) return true;
  const Duration longest = page != nullptr ? page->longest() : longest_look_;
  if (longest < shortest_look) return false;
  if (look_for_ < shortest_look) {
    if (++sleeps_without_look_ < sleeps_before_next_look) return false;
    sleeps_without_look_ = 0;
    look_for_ = longest;
  }
  const auto ticket = page != nullptr ? page->take(number_) : SpinBudget::Permit();
  if (page != nullptr && !ticket) return false;
  const Time until = monotonic_now() + std::min(look_for_, longest);
  do {
    for (int look = 0; look < looks_per_clock; ++look) {
      if (bell.rung()) {
        look_for_ = longest;
        return true;
      }
      pause_processor();
    }
  } while (monotonic_now() < until);
  look_for_ = look_for_ / 2;
  return bell.rung();
}

bool SpinThenPark::sleep(Doorbell& bell, const SpinBudget* page, std::optional<Duration> at_most,
                         Until until) {
  if (look(bell, page)) return false;
  const bool naps = until == Until::calls_have_gathered && naps_.next();
  bell.announce(naps ? Doorbell::Sleep::nap : Doorbell::Sleep::on_word);
  if (bell.rung()) return naps;
  if (naps) {
    bell.nap(WakeCoalescer::length);
  } else {
    bell.sleep(at_most);
  }
  return naps;
}

}  // namespace mobula::internal::client
