// The random generators of Tune: draws equal those of NumPy's RandomState and of Python's `random`
// for equal seeds. Counter streams depend only on (seed, trial, purpose), so the order of events
// does not change their draws.
// Thread: owner (plain values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tune/core/random/mersenne_twister.h"

namespace mobula::internal::tune {

// numpy.random.RandomState.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed = 0) : twister_(seed) {}
  explicit NumpyRandom(const MersenneTwister& twister) : twister_(twister) {}

  double unit() { return twister_.unit(); }
  double uniform(double low, double high) { return low + (high - low) * twister_.unit(); }
  // randint: an integer in [low, high); low < high. Draws nothing if only one value exists.
  std::int64_t integer(std::int64_t low, std::int64_t high);
  // choice(n): an index below `count` (> 0).
  std::size_t index(std::size_t count) {
    return static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(count)));
  }
  // choice(n, p=weights): the weights add up to 1.
  std::size_t weighted(std::span<const double> weights);
  // randn: the polar method, two values for one round.
  double gauss();
  double normal(double mean, double deviation) { return mean + deviation * gauss(); }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.twister_, self.second_gauss_);
  }

 private:
  MersenneTwister twister_;
  std::optional<double> second_gauss_;
};

// Python's `random` module.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed = 0);
  explicit PythonRandom(const MersenneTwister& twister) : twister_(twister) {}

  double unit() { return twister_.unit(); }
  // random.choice: an index below `count` (> 0).
  std::size_t index(std::size_t count);

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.twister_);
  }

 private:
  MersenneTwister twister_;
};

enum class StreamPurpose : std::uint32_t { variant, suggestion, trial_seed, bracket, exploit };

// The start of the counter stream of one trial and purpose.
MersenneTwister counter_stream(std::uint64_t seed, std::int64_t trial, StreamPurpose purpose);

}  // namespace mobula::internal::tune
