#include "tune/core/searchers/gaussian/matern_process.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tune/core/numpy_arithmetic.h"

namespace mobula::internal::tune {
namespace {

constexpr double noise = 1e-6;

double matern(double square, double length_scale) {
  const double distance = std::sqrt(5 * square) / length_scale;
  return (1 + distance + distance * distance / 3) * std::exp(-distance);
}

}  // namespace

void MaternProcess::take(const std::vector<std::vector<double>>& points,
                         std::span<const double> targets) {
  count_ = points.size();
  dimensions_ = points.front().size();
  points_.clear();
  for (const auto& point : points) points_.insert(points_.end(), point.begin(), point.end());
  squares_.assign(count_ * count_, 0);
  for (std::size_t i = 0; i < count_; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      double sum = 0;
      for (std::size_t d = 0; d < dimensions_; ++d) {
        const double difference = points[i][d] - points[j][d];
        sum += difference * difference;
      }
      squares_[i * count_ + j] = sum;
    }
  }
  target_mean_ = mean(targets);
  target_deviation_ = population_deviation(targets);
  if (!(target_deviation_ > 10 * std::numeric_limits<double>::epsilon())) target_deviation_ = 1;
  targets_.assign(targets.begin(), targets.end());
  for (double& target : targets_) target = (target - target_mean_) / target_deviation_;
}

double MaternProcess::factorize(double length_scale) {
  length_scale_ = length_scale;
  const std::size_t n = count_;
  factor_.resize(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double value = i == j ? 1 + noise : matern(squares_[i * n + j], length_scale);
      const double* row = &factor_[i * n];
      const double* other = &factor_[j * n];
      for (std::size_t k = 0; k < j; ++k) value -= row[k] * other[k];
      if (i == j) {
        if (!(value > 0)) return -std::numeric_limits<double>::infinity();
        factor_[i * n + i] = std::sqrt(value);
      } else {
        factor_[i * n + j] = value / factor_[j * n + j];
      }
    }
  }
  weights_ = targets_;
  double logs = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) weights_[i] -= factor_[i * n + k] * weights_[k];
    weights_[i] /= factor_[i * n + i];
    logs += std::log(factor_[i * n + i]);
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) weights_[i] -= factor_[k * n + i] * weights_[k];
    weights_[i] /= factor_[i * n + i];
  }
  double fit = 0;
  for (std::size_t i = 0; i < n; ++i) fit += targets_[i] * weights_[i];
  return -0.5 * fit - logs - static_cast<double>(n) / 2 * std::log(2 * std::numbers::pi);
}

void MaternProcess::fit(const std::vector<std::vector<double>>& points,
                        std::span<const double> targets, double length_scale) {
  take(points, targets);
  factorize(length_scale);
}

void MaternProcess::fit(const std::vector<std::vector<double>>& points,
                        std::span<const double> targets) {
  take(points, targets);
  // One parameter: a coarse grid of its logarithm, then a golden section around the best point.
  const double lowest = std::log(1e-5);
  const double highest = std::log(1e5);
  const int cells = 24;
  const double width = (highest - lowest) / cells;
  double best = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (int i = 0; i <= cells; ++i) {
    const double at = lowest + i * width;
    const double likelihood = factorize(std::exp(at));
    if (likelihood > most) {
      most = likelihood;
      best = at;
    }
  }
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double left = std::max(lowest, best - width);
  double right = std::min(highest, best + width);
  double a = right - golden * (right - left);
  double b = left + golden * (right - left);
  double at_a = factorize(std::exp(a));
  double at_b = factorize(std::exp(b));
  while (right - left > 1e-4) {
    if (at_a > at_b) {
      right = b;
      b = a;
      at_b = at_a;
      a = right - golden * (right - left);
      at_a = factorize(std::exp(a));
    } else {
      left = a;
      a = b;
      at_a = at_b;
      b = left + golden * (right - left);
      at_b = factorize(std::exp(b));
    }
  }
  factorize(std::exp(std::max(at_a, at_b) >= most ? (at_a > at_b ? a : b) : best));
}

MaternProcess::Prediction MaternProcess::predict(std::span<const double> point) const {
  std::vector<double> covariance(count_);
  double value = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    double square = 0;
    for (std::size_t d = 0; d < dimensions_; ++d) {
      const double difference = point[d] - points_[i * dimensions_ + d];
      square += difference * difference;
    }
    covariance[i] = matern(square, length_scale_);
    value += covariance[i] * weights_[i];
  }
  double variance = 1;
  for (std::size_t i = 0; i < count_; ++i) {
    const double* row = &factor_[i * count_];
    for (std::size_t k = 0; k < i; ++k) covariance[i] -= row[k] * covariance[k];
    covariance[i] /= row[i];
    variance -= covariance[i] * covariance[i];
  }
  return {value * target_deviation_ + target_mean_,
          std::sqrt(std::max(variance, 0.0)) * target_deviation_};
}

}  // namespace mobula::internal::tune
