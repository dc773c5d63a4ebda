#include "tune/core/searchers/cma/covariance_adaptation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace mobula::internal::tune {
namespace {

constexpr double tiny = 1e-8;
constexpr double largest_sigma = 1e32;

double norm(const CovarianceAdaptation::Vector& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace

CovarianceAdaptation::CovarianceAdaptation(std::size_t dimensions, double sigma,
                                           std::size_t population)
    : dimensions_(dimensions),
      population_(population),
      mean_(dimensions, 0.5),
      sigma_(sigma),
      covariance_(dimensions),
      sigma_path_(dimensions),
      covariance_path_(dimensions) {
  if (population_ == 0)
    population_ =
        4 + static_cast<std::size_t>(std::floor(3 * std::log(static_cast<double>(dimensions))));
  for (std::size_t i = 0; i < dimensions; ++i) covariance_(i, i) = 1;
  set_rates();
}

void CovarianceAdaptation::set_rates() {
  const auto d = static_cast<double>(dimensions_);
  const auto count = static_cast<double>(population_);
  parents_ = population_ / 2;
  Vector raw;
  for (std::size_t i = 0; i < population_; ++i)
    raw.push_back(std::log((count + 1) / 2) - std::log(static_cast<double>(i + 1)));
  // Sum and effective count of a part of the weights.
  auto effective = [&](std::size_t begin, std::size_t end) {
    double sum = 0;
    double squares = 0;
    for (std::size_t i = begin; i < end; ++i) {
      sum += raw[i];
      squares += raw[i] * raw[i];
    }
    return sum * sum / squares;
  };
  parent_weight_ = effective(0, parents_);
  const double others = effective(parents_, population_);
  rank_one_rate_ = 2 / ((d + 1.3) * (d + 1.3) + parent_weight_);
  rank_mu_rate_ =
      std::min(1 - rank_one_rate_ - 1e-8, 2 * (parent_weight_ - 2 + 1 / parent_weight_) /
                                              ((d + 2) * (d + 2) + parent_weight_));
  const double least =
      std::min({1 + rank_one_rate_ / rank_mu_rate_, 1 + 2 * others / (parent_weight_ + 2),
                (1 - rank_one_rate_ - rank_mu_rate_) / (d * rank_mu_rate_)});
  double positive = 0;
  double negative = 0;
  for (const double weight : raw) (weight > 0 ? positive : negative) += std::abs(weight);
  weights_.clear();
  for (const double weight : raw)
    weights_.push_back(weight >= 0 ? weight / positive : least / negative * weight);
  sigma_rate_ = (parent_weight_ + 2) / (d + parent_weight_ + 5);
  damping_ = 1 + 2 * std::max(0.0, std::sqrt((parent_weight_ - 1) / (d + 1)) - 1) + sigma_rate_;
  path_rate_ = (4 + parent_weight_ / d) / (d + 4 + 2 * parent_weight_ / d);
  expected_norm_ = std::sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d));
}

void CovarianceAdaptation::decompose() {
  if (std::exchange(decomposed_, true)) return;
  const std::size_t n = dimensions_;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j)
      covariance_(i, j) = covariance_(j, i) = (covariance_(i, j) + covariance_(j, i)) / 2;
  EigenSystem system = eigen_system(covariance_);
  roots_.clear();
  for (const double value : system.values) roots_.push_back(std::sqrt(value < 0 ? tiny : value));
  vectors_ = std::move(system.vectors);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < n; ++k)
        sum += vectors_(i, k) * roots_[k] * roots_[k] * vectors_(j, k);
      covariance_(i, j) = sum;
    }
  }
}

CovarianceAdaptation::Vector CovarianceAdaptation::ask(NumpyRandom& random) {
  decompose();
  Vector point(dimensions_);
  for (std::size_t round = 0; round <= 10 * dimensions_; ++round) {
    Vector scaled;
    for (const double root : roots_) scaled.push_back(root * random.gauss());
    bool inside = true;
    for (std::size_t i = 0; i < dimensions_; ++i) {
      double y = 0;
      for (std::size_t k = 0; k < dimensions_; ++k) y += vectors_(i, k) * scaled[k];
      point[i] = mean_[i] + sigma_ * y;
      inside = inside && point[i] >= 0 && point[i] <= 1;
    }
    if (inside) return point;
  }
  for (double& value : point) value = std::clamp(value, 0.0, 1.0);
  return point;
}

CovarianceAdaptation::Vector CovarianceAdaptation::whiten(const Vector& y) const {
  Vector result(dimensions_);
  for (std::size_t k = 0; k < dimensions_; ++k) {
    double projection = 0;
    for (std::size_t i = 0; i < dimensions_; ++i) projection += vectors_(i, k) * y[i];
    for (std::size_t i = 0; i < dimensions_; ++i)
      result[i] += vectors_(i, k) * projection / roots_[k];
  }
  return result;
}

void CovarianceAdaptation::tell(std::vector<Solution> solutions) {
  MOBULA_CHECK(solutions.size() == population_, "a generation needs one solution per member");
  ++generation_;
  std::stable_sort(solutions.begin(), solutions.end(),
                   [](const Solution& a, const Solution& b) { return a.loss < b.loss; });
  decompose();
  std::vector<Vector> steps;
  for (const Solution& solution : solutions) {
    Vector& step = steps.emplace_back(solution.point);
    for (std::size_t i = 0; i < dimensions_; ++i) step[i] = (step[i] - mean_[i]) / sigma_;
  }
  Vector mean_step(dimensions_);
  for (std::size_t k = 0; k < parents_; ++k)
    for (std::size_t i = 0; i < dimensions_; ++i) mean_step[i] += weights_[k] * steps[k][i];
  for (std::size_t i = 0; i < dimensions_; ++i) mean_[i] += sigma_ * mean_step[i];
  const Vector white = whiten(mean_step);
  const double gain = std::sqrt(sigma_rate_ * (2 - sigma_rate_) * parent_weight_);
  for (std::size_t i = 0; i < dimensions_; ++i)
    sigma_path_[i] = (1 - sigma_rate_) * sigma_path_[i] + gain * white[i];
  const double length = norm(sigma_path_);
  std::vector<Vector> whitened;
  for (const Vector& step : steps) whitened.push_back(whiten(step));
  sigma_ *= std::exp(sigma_rate_ / damping_ * (length / expected_norm_ - 1));
  sigma_ = std::min(sigma_, largest_sigma);
  adapt_covariance(steps, mean_step, whitened, length);
  decomposed_ = false;
}

void CovarianceAdaptation::adapt_covariance(const std::vector<Vector>& steps,
                                            const Vector& mean_step,
                                            const std::vector<Vector>& whitened,
                                            double path_length) {
  const auto d = static_cast<double>(dimensions_);
  const double decay =
      std::sqrt(1 - std::pow(1 - sigma_rate_, 2 * (static_cast<double>(generation_) + 1)));
  const bool steady = path_length / decay < (1.4 + 2 / (d + 1)) * expected_norm_;
  const double gain = steady ? std::sqrt(path_rate_ * (2 - path_rate_) * parent_weight_) : 0;
  for (std::size_t i = 0; i < dimensions_; ++i)
    covariance_path_[i] = (1 - path_rate_) * covariance_path_[i] + gain * mean_step[i];
  Vector weights = weights_;
  double sum = 0;
  for (std::size_t k = 0; k < population_; ++k) {
    sum += weights_[k];
    if (weights_[k] >= 0) continue;
    const double length = norm(whitened[k]);
    weights[k] *= d / (length * length + tiny);
  }
  const double missed = steady ? 0 : path_rate_ * (2 - path_rate_);
  const double kept = 1 + rank_one_rate_ * missed - rank_one_rate_ - rank_mu_rate_ * sum;
  for (std::size_t i = 0; i < dimensions_; ++i) {
    for (std::size_t j = 0; j < dimensions_; ++j) {
      double rank_mu = 0;
      for (std::size_t k = 0; k < population_; ++k)
        rank_mu += weights[k] * steps[k][i] * steps[k][j];
      covariance_(i, j) = kept * covariance_(i, j) +
                          rank_one_rate_ * covariance_path_[i] * covariance_path_[j] +
                          rank_mu_rate_ * rank_mu;
    }
  }
}

}  // namespace mobula::internal::tune
