#include "tune/core/numpy_arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

namespace mobula::internal::tune {

double pairwise_sum(std::span<const double> values) {
  const std::size_t count = values.size();
  if (count < 8) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }
  if (count > 128) {
    std::size_t half = count / 2;
    half -= half % 8;
    return pairwise_sum(values.first(half)) + pairwise_sum(values.subspan(half));
  }
  std::array<double, 8> r{};
  std::copy_n(values.begin(), 8, r.begin());
  std::size_t i = 8;
  for (; i + 8 <= count; i += 8)
    for (std::size_t k = 0; k < 8; ++k) r[k] += values[i + k];
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < count; ++i) sum += values[i];
  return sum;
}

double mean(std::span<const double> values) {
  return pairwise_sum(values) / static_cast<double>(values.size());
}

double population_deviation(std::span<const double> values) {
  const double center = mean(values);
  std::vector<double> squares(values.begin(), values.end());
  for (double& value : squares) value = (value - center) * (value - center);
  return std::sqrt(mean(squares));
}

double median(std::vector<double>& values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2.0;
}

double interpolate(double lower, double upper, double part) {
  const double difference = upper - lower;
  return part >= 0.5 ? upper - difference * (1 - part) : lower + difference * part;
}

double round_half_even(double value) {
  // The rounding mode of a process may differ from the default, therefore no std::nearbyint.
  const double below = std::floor(value);
  const double part = value - below;
  if (part < 0.5 || std::isnan(part)) return below;
  if (part > 0.5) return below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

bool is_close(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

}  // namespace mobula::internal::tune
