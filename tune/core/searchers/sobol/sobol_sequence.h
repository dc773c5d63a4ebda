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
  // Scrambles with random linear matrices and a digital shift (Matoušek, 1998), as SciPy does. Must
  // be called at most once, before the first point.
  void scramble(NumpyRandom& random);
  // Scrambles with the given matrices and shifts, one of each per dimension. A matrix is lower
  // triangular with ones on its diagonal. Its row 0 belongs to the highest bit.
  using MatrixRows = std::array<std::uint32_t, 30>;
  void scramble(const std::vector<MatrixRows>& matrices, std::vector<std::uint32_t> shifts);
  // Returns the coordinates of a point, each in [0, 1). `index` is below 2^30.
  std::vector<double> point(std::uint32_t index) const;

 private:
  std::vector<std::array<std::uint32_t, bits>> numbers_;  // direction numbers by dimension
  std::vector<std::uint32_t> shifts_;                     // by dimension; empty: not scrambled
};

}  // namespace mobula::internal::tune
