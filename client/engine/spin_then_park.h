// How the leader waits at its doorbell: it spins while the node has an idle processor, then blocks.
// A leader that waits for calls may use a coalesced wake-up instead. WaitPolicy adapts both.
// Thread: owner (the leader, one thread at a time, so that no lock is needed).
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "transport/ring/doorbell.h"
#include "transport/ring/spin_budget.h"
#include "transport/ring/wait_policy.h"

namespace mobula::internal::client {

class SpinThenPark {
 public:
  enum class Until { rung, calls_have_gathered };

  // `number`: key of its spin permits. `longest_spin`: longest spin without a spin page.
  SpinThenPark(std::uint64_t number, Duration longest_spin)
      : number_(number), policy_({.longest_spin = longest_spin}) {}

  // Spins. True if the doorbell was rung. `page`: the spin page of the node, or null. Without a
  // permit it returns at once, and the spin length is not adapted.
  bool spin(const Doorbell& bell, const SpinBudget* page);
  // Spins, then blocks for at most `at_most`. True after a coalesced wake-up; then
  // `report_coalesced()` must follow.
  bool sleep(Doorbell& bell, const SpinBudget* page, std::optional<Duration> at_most, Until until);
  void report_coalesced(std::uint64_t calls) { policy_.coalesced(calls); }

 private:
  const std::uint64_t number_;
  WaitPolicy policy_;
};

}  // namespace mobula::internal::client
