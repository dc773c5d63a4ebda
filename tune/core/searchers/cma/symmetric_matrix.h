// The eigenvalues and eigenvectors of small symmetric matrices, by Jacobi's rotations.
// Thread: any (functions of their arguments).
#pragma once

#include <cstddef>
#include <vector>

namespace mobula::internal::tune {

// A square matrix, row by row.
struct SquareMatrix {
  std::size_t size = 0;
  std::vector<double> values = {};

  SquareMatrix() = default;
  explicit SquareMatrix(std::size_t n) : size(n), values(n * n) {}
  double& operator()(std::size_t row, std::size_t column) { return values[row * size + column]; }
  double operator()(std::size_t row, std::size_t column) const {
    return values[row * size + column];
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.size, self.values);
  }
};

struct EigenSystem {
  std::vector<double> values;  // ascending
  SquareMatrix vectors;        // one per column
};
EigenSystem eigen_system(SquareMatrix matrix);

}  // namespace mobula::internal::tune
