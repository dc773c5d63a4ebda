// A Gaussian process with the Matérn 5/2 kernel, one length scale, noise 1e-6, and normalized
// targets, as scikit-learn's GaussianProcessRegressor in bayesian-optimization 1.4.3.
// Thread: owner.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mobula::internal::tune {

class MaternProcess {
 public:
  struct Prediction {
    double mean, deviation;
  };

  // Fits the length scale by the marginal likelihood, within [1e-5, 1e5]. At least one point.
  void fit(const std::vector<std::vector<double>>& points, std::span<const double> targets);
  // The same with a given length scale.
  void fit(const std::vector<std::vector<double>>& points, std::span<const double> targets,
           double length_scale);
  Prediction predict(std::span<const double> point) const;
  double length_scale() const { return length_scale_; }

 private:
  void take(const std::vector<std::vector<double>>& points, std::span<const double> targets);
  // Logarithm of the marginal likelihood; the factor stays for predict().
  double factorize(double length_scale);

  std::size_t count_ = 0, dimensions_ = 0;
  std::vector<double> points_;   // row by row
  std::vector<double> squares_;  // squared distances, count_ * count_
  std::vector<double> targets_;  // normalized
  double target_mean_ = 0, target_deviation_ = 1, length_scale_ = 1;
  std::vector<double> factor_;   // lower triangle of the Cholesky factor, count_ * count_
  std::vector<double> weights_;  // inverse covariance times targets
};

}  // namespace mobula::internal::tune
