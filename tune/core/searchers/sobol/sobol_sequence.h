// Points of the unscrambled Sobol sequence, equal to those of SciPy's qmc.Sobol to the last bit.
// Thread: any (immutable after construction).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mobula::internal::tune {

class SobolSequence {
 public:
  static constexpr std::size_t max_dimensions = 512;
  static constexpr std::size_t bits = 30;

  explicit SobolSequence(std::size_t dimensions);
  // Coordinates in [0, 1); `index` is below 2^30.
  std::vector<double> point(std::uint32_t index) const;

 private:
  std::vector<std::array<std::uint32_t, bits>> numbers_;  // direction numbers by dimension
};

}  // namespace mobula::internal::tune
