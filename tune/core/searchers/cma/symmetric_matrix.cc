#include "tune/core/searchers/cma/symmetric_matrix.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mobula::internal::tune {
namespace {

// Rotates the rows and columns p and q so that the element (p, q) becomes 0.
void rotate(SquareMatrix& matrix, SquareMatrix& vectors, std::size_t p, std::size_t q) {
  const double theta = (matrix(q, q) - matrix(p, p)) / (2 * matrix(p, q));
  const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1);
  const double s = t * c;
  for (std::size_t k = 0; k < matrix.size; ++k) {
    const double a = matrix(k, p);
    const double b = matrix(k, q);
    matrix(k, p) = c * a - s * b;
    matrix(k, q) = s * a + c * b;
  }
  for (std::size_t k = 0; k < matrix.size; ++k) {
    const double a = matrix(p, k);
    const double b = matrix(q, k);
    matrix(p, k) = c * a - s * b;
    matrix(q, k) = s * a + c * b;
  }
  for (std::size_t k = 0; k < matrix.size; ++k) {
    const double a = vectors(k, p);
    const double b = vectors(k, q);
    vectors(k, p) = c * a - s * b;
    vectors(k, q) = s * a + c * b;
  }
}

}  // namespace

EigenSystem eigen_system(SquareMatrix matrix) {
  const std::size_t n = matrix.size;
  SquareMatrix vectors(n);
  for (std::size_t i = 0; i < n; ++i) vectors(i, i) = 1;
  double total = 0;
  for (const double value : matrix.values) total += value * value;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double rest = 0;
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q) rest += matrix(p, q) * matrix(p, q);
    if (rest <= 1e-32 * total) break;
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t q = p + 1; q < n; ++q)
        if (matrix(p, q) != 0) rotate(matrix, vectors, p, q);
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return matrix(a, a) < matrix(b, b); });
  EigenSystem system{std::vector<double>(n), SquareMatrix(n)};
  for (std::size_t i = 0; i < n; ++i) {
    system.values[i] = matrix(order[i], order[i]);
    for (std::size_t k = 0; k < n; ++k) system.vectors(k, i) = vectors(k, order[i]);
  }
  return system;
}

}  // namespace mobula::internal::tune
