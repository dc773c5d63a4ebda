#include "tune/core/searchers/gaussian/ard_process.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tune/core/searchers/box_minimizer.h"

namespace mobula::internal::tune {
namespace {

constexpr double least_noise = 1e-6;
constexpr int max_fit_rounds = 40;

}  // namespace

double ArdProcess::kernel(std::span<const double> a, std::span<const double> b) const {
  double square = 0;
  for (std::size_t d = 0; d < a.size(); ++d) {
    const double difference = categories_[d] ? (a[d] == b[d] ? 0.0 : 1.0) : a[d] - b[d];
    square += difference * difference * inverse_squares_[d];
  }
  const double distance = std::sqrt(5 * square);
  return scale_ * (1 + distance + distance * distance / 3) * std::exp(-distance);
}

void ArdProcess::take(const RawParameters& raw) {
  raw_ = raw;
  const std::size_t dimensions = categories_.size();
  inverse_squares_.resize(dimensions);
  for (std::size_t d = 0; d < dimensions; ++d) inverse_squares_[d] = std::exp(raw[d]);
  scale_ = std::exp(raw[dimensions]);
  noise_ = deterministic_ ? least_noise : least_noise + std::exp(raw[dimensions + 1]);
}

double ArdProcess::factorize() {
  const std::size_t n = points_.size();
  factor_.assign(n * n, 0);
  double logs = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = &factor_[i * n];
    for (std::size_t j = 0; j <= i; ++j) {
      double value = kernel(points_[i], points_[j]) + (i == j ? noise_ : 0);
      const double* const other = &factor_[j * n];
      for (std::size_t k = 0; k < j; ++k) value -= row[k] * other[k];
      if (i != j) {
        row[j] = value / other[j];
      } else {
        if (!(value > 0)) return -std::numeric_limits<double>::infinity();
        row[i] = std::sqrt(value);
        logs += std::log(row[i]);
      }
    }
  }
  double fit = 0;
  weights_ = targets_;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) weights_[i] -= factor_[i * n + k] * weights_[k];
    weights_[i] /= factor_[i * n + i];
    fit += weights_[i] * weights_[i];
  }
  double prior = std::log(scale_) - scale_;  // Gamma(2, 1)
  for (const double inverse : inverse_squares_) prior -= 0.1 / inverse + 0.1 * inverse;
  prior += 0.1 * std::log(noise_) - 30 * noise_;  // Gamma(1.1, 30)
  return -logs - 0.5 * fit + prior;
}

// The second half of the solution, after factorize().
void ArdProcess::solve_weights() {
  const std::size_t n = points_.size();
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) weights_[i] -= factor_[k * n + i] * weights_[k];
    weights_[i] /= factor_[i * n + i];
  }
}

void ArdProcess::fit(const std::vector<std::vector<double>>& points,
                     std::span<const double> targets, const RawParameters& start,
                     bool deterministic) {
  points_ = points;
  targets_.assign(targets.begin(), targets.end());
  deterministic_ = deterministic;
  const std::size_t dimensions = categories_.size();
  RawParameters initial(dimensions + 2, 0.0);
  initial.back() = std::log(1e-4);
  if (start.size() == initial.size()) initial = start;
  std::vector<BoxBounds> bounds(dimensions, {-8, 8});
  bounds.push_back({-6, 6});
  bounds.push_back({std::log(1e-8), 1});
  const auto loss = [&](std::span<const double> raw) {
    take({raw.begin(), raw.end()});
    const double likelihood = factorize();
    return std::isfinite(likelihood) ? -likelihood : 1e12;
  };
  const BoxMinimum found = minimize_in_box(loss, initial, bounds, max_fit_rounds);
  take(found.point);
  if (!std::isfinite(factorize())) {
    take(RawParameters(dimensions + 2, 0.0));
    factorize();
  }
  solve_weights();
}

void ArdProcess::believe(const std::vector<double>& point) {
  const double target = predict(point).mean;
  points_.push_back(point);
  targets_.push_back(target);
  // A repeated point can be numerically dependent; it adds no knowledge.
  if (!std::isfinite(factorize())) {
    points_.pop_back();
    targets_.pop_back();
    factorize();
  }
  solve_weights();
}

ArdProcess::Prediction ArdProcess::predict(std::span<const double> point) const {
  const std::size_t n = points_.size();
  std::vector<double> covariance(n);
  double mean = 0;
  double variance = scale_;
  for (std::size_t i = 0; i < n; ++i) {
    covariance[i] = kernel(point, points_[i]);
    mean += covariance[i] * weights_[i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    const double* const row = &factor_[i * n];
    for (std::size_t k = 0; k < i; ++k) covariance[i] -= row[k] * covariance[k];
    covariance[i] /= row[i];
    variance -= covariance[i] * covariance[i];
  }
  return {mean, std::max(variance, 1e-12)};
}

}  // namespace mobula::internal::tune
