#include "tune/core/random/random_streams.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

namespace mobula::internal::tune {

std::int64_t NumpyRandom::integer(std::int64_t low, std::int64_t high) {
  const std::uint64_t range =
      static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) - 1;
  if (range == 0) return low;
  const std::uint64_t mask = ~std::uint64_t{0} >> static_cast<unsigned>(std::countl_zero(range));
  std::uint64_t value = 0;
  do {
    if (range <= 0xffffffffU) {
      value = twister_.next() & mask;
    } else {
      const std::uint64_t upper = twister_.next();
      value = (upper << 32U | twister_.next()) & mask;
    }
  } while (value > range);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + value);
}

std::size_t NumpyRandom::weighted(std::span<const double> weights) {
  std::vector<double> cumulative(weights.size());
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) cumulative[i] = sum += weights[i];
  for (double& value : cumulative) value /= sum;
  const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), unit());
  return std::min(static_cast<std::size_t>(at - cumulative.begin()), weights.size() - 1);
}

double NumpyRandom::gauss() {
  if (second_gauss_) {
    const double value = *second_gauss_;
    second_gauss_.reset();
    return value;
  }
  double first = 0;
  double second = 0;
  double square = 0;
  do {
    first = 2.0 * unit() - 1.0;
    second = 2.0 * unit() - 1.0;
    square = first * first + second * second;
  } while (square >= 1.0 || square == 0.0);
  const double factor = std::sqrt(-2.0 * std::log(square) / square);
  second_gauss_ = factor * first;
  return factor * second;
}

PythonRandom::PythonRandom(std::uint64_t seed) {
  const std::array<std::uint32_t, 2> words{static_cast<std::uint32_t>(seed),
                                           static_cast<std::uint32_t>(seed >> 32U)};
  twister_ = MersenneTwister::of_words(std::span(words).first(words[1] != 0 ? 2 : 1));
}

std::size_t PythonRandom::index(std::size_t count) {
  const auto bits = static_cast<unsigned>(std::bit_width(count));
  std::size_t value = 0;
  do {
    value = twister_.next() >> (32 - bits);
  } while (value >= count);
  return value;
}

MersenneTwister counter_stream(std::uint64_t seed, std::int64_t trial, StreamPurpose purpose) {
  const auto number = static_cast<std::uint64_t>(trial);
  const std::array<std::uint32_t, 5> words{
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U),
      static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32U),
      static_cast<std::uint32_t>(purpose)};
  return MersenneTwister::of_words(words);
}

}  // namespace mobula::internal::tune
