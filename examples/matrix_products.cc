//   A (rows i..j) ─┐
//   B ─────────────┴─► multiply ──► C (rows i..j)      up to 64 KiB inside the message,
//                                                      above it in the store, read in place
#include <mobula/mobula.h>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <iostream>

using Matrix = std::vector<float>;

Matrix multiply(mobula::View<Matrix> a, mobula::View<Matrix> b, int n, int first, int last) {
  Matrix c(static_cast<std::size_t>(last - first) * static_cast<std::size_t>(n));
  for (int i = first; i < last; ++i) {
    float* row = c.data() + static_cast<std::ptrdiff_t>(i - first) * n;
    for (int k = 0; k < n; ++k) {
      const float factor = a.data()[static_cast<std::ptrdiff_t>(i) * n + k];
      const float* of_b = b.data() + static_cast<std::ptrdiff_t>(k) * n;
      for (int j = 0; j < n; ++j) row[j] += factor * of_b[j];
    }
  }
  return c;
}

// a[i][k] = i + 1 and b[k][j] = j + 1 in every k: the product is n (i + 1) (j + 1).
Matrix filled(int n, bool by_row) {
  Matrix matrix(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      matrix[static_cast<std::size_t>(i * n + j)] = static_cast<float>((by_row ? i : j) + 1);
    }
  }
  return matrix;
}

bool run(int n) {
  const auto begin = std::chrono::steady_clock::now();
  const auto a = mobula::put(filled(n, true));
  const auto b = mobula::put(filled(n, false));
  constexpr int parts = 4;
  std::vector<mobula::ObjectRef<Matrix>> rows;
  for (int part = 0; part < parts; ++part) {
    rows.push_back(
        mobula::task<multiply>.remote(a, b, n, n * part / parts, n * (part + 1) / parts));
  }
  double worst = 0;
  for (int part = 0; part < parts; ++part) {
    const auto c = mobula::get_view(rows[static_cast<std::size_t>(part)]);
    const int first = n * part / parts;
    for (std::size_t at = 0; at < c.size(); ++at) {
      const int i = first + static_cast<int>(at) / n;
      const int j = static_cast<int>(at) % n;
      const double expected = static_cast<double>(n) * (i + 1) * (j + 1);
      worst = std::max(worst, std::abs(c[at] / expected - 1));
    }
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::cout << std::setw(4) << n << " x " << std::setw(4) << n << ", " << std::setw(5)
            << n * n * 4 / 1024 << " KiB each, " << (n * n * 4 > 65536 ? "stored" : "inline")
            << ": relative error " << std::scientific << std::setprecision(0) << worst << ", "
            << std::fixed << std::setprecision(1) << took.count() << " ms\n";
  return worst < 1e-4;
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  bool right = true;
  for (const int n : {16, 128, 384}) right = run(n) && right;
  return right ? 0 : 1;
}
