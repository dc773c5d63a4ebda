#include "client/engine/spin_then_park.h"

namespace mobula::internal::client {
namespace {

constexpr int polls_per_clock = 16;

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool SpinThenPark::spin(const Doorbell& bell, const SpinBudget* page) {
  if (bell.rung()) return true;
  const Duration longest = page != nullptr ? page->longest() : policy_.parameters().longest_spin;
  const Duration spin = policy_.next_spin(longest);
  if (spin == Duration(0)) return false;
  const auto ticket = page != nullptr ? page->take(number_) : SpinBudget::Permit();
  if (page != nullptr && !ticket) return false;
  const Time until = monotonic_now() + spin;
  do {
    for (int i = 0; i < polls_per_clock; ++i) {
      if (bell.rung()) {
        policy_.rung(longest);
        return true;
      }
      pause_processor();
    }
  } while (monotonic_now() < until);
  policy_.not_rung();
  return bell.rung();
}

bool SpinThenPark::sleep(Doorbell& bell, const SpinBudget* page, std::optional<Duration> at_most,
                         Until until) {
  if (spin(bell, page)) return false;
  const bool coalesces = until == Until::calls_have_gathered && policy_.next_park_coalesces();
  bell.announce(coalesces ? Doorbell::Sleep::coalesced : Doorbell::Sleep::on_word);
  if (bell.rung()) return coalesces;
  if (coalesces) {
    bell.sleep_coalesced(policy_.parameters().coalesced_park);
  } else {
    bell.sleep(at_most);
  }
  return coalesces;
}

}  // namespace mobula::internal::client
