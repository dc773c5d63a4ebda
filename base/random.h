// Seeded random streams for simulations and jitter: xoshiro256** (Blackman, Vigna, 2018). The class
// has its own distributions, so a seed gives the same values with every standard library. Each
// concern has its own stream from `fork`, so that a new use does not change the draws of others.
// Thread: owner.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace mobula::internal {

class Random {
 public:
  explicit Random(std::uint64_t seed);

  std::uint64_t next();
  // Uniform in [0, bound); 0 for bound 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high);
  Duration between(Duration low, Duration high) {
    return Duration(between(low.count(), high.count()));
  }
  // Returns true with probability `per_mille` / 1000.
  bool chance(unsigned per_mille) { return below(1000) < per_mille; }
  // Returns a separate stream for `concern`, without advancing this one.
  Random fork(std::string_view concern) const;

 private:
  std::uint64_t seed_;
  std::array<std::uint64_t, 4> state_;
};

}  // namespace mobula::internal
