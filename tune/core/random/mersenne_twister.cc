#include "tune/core/random/mersenne_twister.h"

#include <algorithm>

namespace mobula::internal::tune {

MersenneTwister::MersenneTwister(std::uint32_t seed) {
  words_[0] = seed;
  for (std::uint32_t i = 1; i < size; ++i)
    words_[i] = 1812433253U * (words_[i - 1] ^ (words_[i - 1] >> 30U)) + i;
}

MersenneTwister MersenneTwister::of_words(std::span<const std::uint32_t> words) {
  MersenneTwister twister(19650218U);
  auto& state = twister.words_;
  std::size_t i = 1;
  std::size_t j = 0;
  auto wrap = [&] {
    if (++i >= size) {
      state[0] = state[size - 1];
      i = 1;
    }
  };
  for (std::size_t k = std::max(size, words.size()); k > 0; --k) {
    state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30U)) * 1664525U)) + words[j] +
               static_cast<std::uint32_t>(j);
    wrap();
    if (++j >= words.size()) j = 0;
  }
  for (std::size_t k = size - 1; k > 0; --k) {
    state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30U)) * 1566083941U)) -
               static_cast<std::uint32_t>(i);
    wrap();
  }
  state[0] = 0x80000000U;
  return twister;
}

void MersenneTwister::refill() {
  constexpr std::size_t shift = 397;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t bits = (words_[i] & 0x80000000U) | (words_[(i + 1) % size] & 0x7fffffffU);
    words_[i] = words_[(i + shift) % size] ^ (bits >> 1U) ^ ((bits & 1U) != 0 ? 0x9908b0dfU : 0U);
  }
  index_ = 0;
}

std::uint32_t MersenneTwister::next() {
  if (index_ >= size) refill();
  std::uint32_t word = words_[index_++];
  word ^= word >> 11U;
  word ^= (word << 7U) & 0x9d2c5680U;
  word ^= (word << 15U) & 0xefc60000U;
  return word ^ (word >> 18U);
}

double MersenneTwister::unit() {
  const std::uint32_t high = next() >> 5U;
  const std::uint32_t low = next() >> 6U;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

}  // namespace mobula::internal::tune
