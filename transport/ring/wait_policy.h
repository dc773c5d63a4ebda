// Decides how a thread waits at its doorbell: how long it spins, and whether it then parks until it
// is rung or, to receive several records with one wake-up, for a fixed time. Each of the two is
// used while it pays. After that it is tried again once per `parks_between_trials` waits without
// it.
// Thread: owner. Not: the clock and the doorbell (SpinThenPark); permits to spin (SpinBudget).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace mobula::internal {

struct WaitParameters {
  Duration longest_spin = 50us;       // default of a process without a spin page
  Duration shortest_spin = 2us;       // shorter spins are left out
  Duration coalesced_park = 75us;     // the kernel adds its timer slack, by default 50 µs
  std::uint64_t coalesced_worth = 4;  // records during one coalesced park
  int parks_between_trials = 32;
};

class WaitPolicy {
 public:
  explicit WaitPolicy(const WaitParameters& parameters)
      : parameters_(parameters), spin_(parameters.longest_spin) {}

  // Length of the next spin, at most `longest`. Zero: the thread parks at once.
  Duration next_spin(Duration longest) {
    if (longest < parameters_.shortest_spin) return Duration(0);
    if (spin_ < parameters_.shortest_spin) {
      if (!tries_again(parks_without_spin_)) return Duration(0);
      spin_ = longest;
    }
    return std::min(spin_, longest);
  }
  // A spin was successful, or ended without a ring: the next one has half its length.
  void rung(Duration longest) { spin_ = longest; }
  void not_rung() { spin_ = spin_ / 2; }

  // Called before each park. True: it has the length `coalesced_park`.
  bool next_park_coalesces() { return coalescing_pays_ || tries_again(parks_without_coalescing_); }
  // Called after such a park with the number of records that arrived during it.
  void coalesced(std::uint64_t records) {
    coalescing_pays_ = records >= parameters_.coalesced_worth;
  }

  const WaitParameters& parameters() const { return parameters_; }

 private:
  bool tries_again(int& parks) const {
    if (++parks < parameters_.parks_between_trials) return false;
    parks = 0;
    return true;
  }

  const WaitParameters parameters_;
  Duration spin_;  // length of the next spin
  int parks_without_spin_ = 0;
  bool coalescing_pays_ = false;
  int parks_without_coalescing_ = 0;
};

}  // namespace mobula::internal
