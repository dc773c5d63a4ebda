// Points of the Sobol sequence. Without scrambling, they equal those of SciPy's qmc.Sobol to the
// last bit.
// Thread: owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tune/core/random/random_streams.h"

namespace mobula::internal::tune {

class SobolSequence {
 public:
  static constexpr std::size_t max_dimensions = 512;
  static constexpr std::size_t bits = 30;

  explicit SobolSequence(std::size_t dimensions);
  // Random linear matrix scrambling with a digital shift (Matoušek, 1998), as in SciPy. Call it
  // once, before the first point.
  void scramble(NumpyRandom& random);
  // Matrices and shifts by dimension. Row `digit` of a matrix has a unit diagonal and nothing above
  // it; digit 0 is the highest bit.
  using MatrixRows = std::array<std::uint32_t, 30>;
  void scramble(const std::vector<MatrixRows>& matrices, std::vector<std::uint32_t> shifts);
  // Coordinates in [0, 1); `index` is below 2^30.
  std::vector<double> point(std::uint32_t index) const;

 private:
  std::vector<std::array<std::uint32_t, bits>> numbers_;  // direction numbers by dimension
  std::vector<std::uint32_t> shifts_;                     // by dimension; empty: not scrambled
};

}  // namespace mobula::internal::tune
