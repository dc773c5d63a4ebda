#include "tune/core/searchers/tpe/truncated_normal.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

namespace mobula::internal::tune {
namespace {

const double log_root_two_pi = std::log(std::sqrt(2 * std::numbers::pi));
const double root_half = 1 / std::numbers::sqrt2;

double normal_cdf(double a) {
  const double x = a / std::numbers::sqrt2;
  if (x < -root_half) return 0.5 * std::erfc(-x);
  if (x < root_half) return 0.5 + 0.5 * std::erf(x);
  return 1.0 - 0.5 * std::erfc(x);
}

double central_cdf(double a) { return 0.5 + 0.5 * std::erf(a / std::numbers::sqrt2); }

double log_difference(double log_p, double log_q) {
  return log_p + std::log1p(-std::exp(log_q - log_p));
}

double log_sum(double x, double y) {
  if (x == y) return x + std::numbers::ln2;
  const double difference = x - y;
  return difference > 0 ? x + std::log1p(std::exp(-difference))
                        : y + std::log1p(std::exp(difference));
}

// The values x with log_normal_cdf(x) = y.
std::vector<double> inverse_log_cdf(const std::vector<double>& y) {
  const double logistic = std::sqrt(3.0) / std::numbers::pi;
  std::vector<double> z = y;
  std::vector<double> x(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] > -1e-2) z[i] = std::log(-std::expm1(y[i]));
    x[i] = z[i] < -5 ? -std::sqrt(-2.0 * (z[i] + log_root_two_pi))
                     : -logistic * std::log(std::expm1(-z[i]));
  }
  for (int round = 0; round < 100; ++round) {
    bool converged = true;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double log_cdf = log_normal_cdf(x[i]);
      const double log_density = -0.5 * (x[i] * x[i]) - log_root_two_pi;
      const double change = (log_cdf - z[i]) * std::exp(log_cdf - log_density);
      x[i] -= change;
      converged = converged && std::abs(change) < 1e-8 * std::abs(x[i]);
    }
    if (converged) break;
  }
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i] > -1e-2) x[i] = -x[i];
  return x;
}

}  // namespace

double log_normal_cdf(double a) {
  if (a > 6) return -normal_cdf(-a);
  if (a > -20) return std::log(normal_cdf(a));
  const double log_left = -0.5 * (a * a) - std::log(-a) - 0.5 * std::log(2 * std::numbers::pi);
  double last = 0;
  double sum = 1;
  double numerator = 1;
  double power = 1;
  const double square = 1 / (a * a);
  double sign = 1;
  for (int i = 1; std::abs(last - sum) > std::numeric_limits<double>::epsilon(); ++i) {
    last = sum;
    sign = -sign;
    power *= square;
    numerator *= 2 * i - 1;
    sum += sign * numerator * power;
  }
  return log_left + std::log(sum);
}

double log_normal_mass(double a, double b) {
  if (b <= 0) return log_difference(log_normal_cdf(b), log_normal_cdf(a));
  if (a > 0) return log_difference(log_normal_cdf(-a), log_normal_cdf(-b));
  return std::log1p(-central_cdf(a) - central_cdf(-b));
}

std::vector<double> truncated_quantiles(std::span<const TruncatedDraw> draws) {
  std::vector<double> values(draws.size());
  for (const bool left : {true, false}) {
    std::vector<double> logs;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < draws.size(); ++i) {
      const auto& [quantile, a, b] = draws[i];
      if ((a < 0) != left) continue;
      const double mass = log_normal_mass(a, b);
      indices.push_back(i);
      logs.push_back(left ? log_sum(log_normal_cdf(a), std::log(quantile) + mass)
                          : log_sum(log_normal_cdf(-b), std::log1p(-quantile) + mass));
    }
    const std::vector<double> found = inverse_log_cdf(logs);
    for (std::size_t k = 0; k < indices.size(); ++k) {
      const TruncatedDraw& draw = draws[indices[k]];
      double& value = values[indices[k]];
      value = left ? found[k] : -found[k];
      if (draw.quantile == 0) value = draw.a;
      if (draw.quantile == 1) value = draw.b;
    }
  }
  return values;
}

}  // namespace mobula::internal::tune
