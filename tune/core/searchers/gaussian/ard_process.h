// A Gaussian process with the Matérn 5/2 kernel and a length scale for each parameter, as in
// GPSampler of Optuna: Hamming distances for categories, hyper-parameters by maximum a posteriori.
// Thread: owner. Units: parameters in [0, 1]; standardized targets.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mobula::internal::tune {

class ArdProcess {
 public:
  struct Prediction {
    double mean, variance;
  };
  // Logarithms of inverse squared length scales, kernel scale, and noise variance above 1e-6.
  using RawParameters = std::vector<double>;

  // `categories[d]` marks a parameter whose values are only equal or different.
  explicit ArdProcess(std::vector<bool> categories) : categories_(std::move(categories)) {}

  // Fits the hyper-parameters, starting from `start` (empty: usual values), with noise 1e-6 if
  // `deterministic`. At least one point.
  void fit(const std::vector<std::vector<double>>& points, std::span<const double> targets,
           const RawParameters& start, bool deterministic);
  // Adds a point with the mean at this point as its target, and keeps the hyper-parameters.
  void believe(const std::vector<double>& point);
  Prediction predict(std::span<const double> point) const;
  const RawParameters& raw_parameters() const { return raw_; }

 private:
  double kernel(std::span<const double> a, std::span<const double> b) const;
  void take(const RawParameters& raw);
  // Logarithm of the marginal likelihood and of the prior; the factor stays for predict().
  double factorize();
  void solve_weights();

  std::vector<bool> categories_;
  std::vector<std::vector<double>> points_;
  std::vector<double> targets_;
  RawParameters raw_;
  bool deterministic_ = false;
  std::vector<double> inverse_squares_;  // inverse squared length scales
  double scale_ = 1, noise_ = 1e-6;
  std::vector<double> factor_;   // lower triangle of the Cholesky factor, row by row
  std::vector<double> weights_;  // inverse covariance times targets
};

}  // namespace mobula::internal::tune
