#include "base/random.h"

#include <bit>

#include "base/hash.h"

namespace mobula::internal {
namespace {

std::uint64_t splitmix(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed) : seed_(seed), state_{} {
  for (auto& word : state_) word = splitmix(seed);
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::below(std::uint64_t bound) {
  if (bound == 0) return 0;
  // Rejects the incomplete last run of `bound` values, so that the result is exactly uniform.
  const std::uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  std::uint64_t drawn = next();
  while (drawn >= limit) drawn = next();
  return drawn % bound;
}

std::int64_t Random::between(std::int64_t low, std::int64_t high) {
  if (high <= low) return low;
  return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
}

Random Random::fork(std::string_view concern) const {
  return Random(fnv1a(concern, seed_ ^ fnv_origin));
}

}  // namespace mobula::internal
