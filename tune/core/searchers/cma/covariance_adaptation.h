// The covariance matrix adaptation evolution strategy (CMA-ES, arXiv 1604.00772, equations 41 to
// 56) with active weights, as the package cmaes 0.13.1, in the unit cube.
// Thread: owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tune/core/random/random_streams.h"
#include "tune/core/searchers/cma/symmetric_matrix.h"

namespace mobula::internal::tune {

class CovarianceAdaptation {
 public:
  using Vector = std::vector<double>;
  struct Solution {
    Vector point = {};
    double loss = 0;

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.point, self.loss);
    }
  };

  CovarianceAdaptation() = default;
  // At least one dimension; `population` 0: 4 + floor(3 ln d).
  CovarianceAdaptation(std::size_t dimensions, double sigma, std::size_t population = 0);

  // A point within the unit cube: at most 10 d draws, then the last one is clipped.
  Vector ask(NumpyRandom& random);
  // Ends a generation with exactly population() solutions.
  void tell(std::vector<Solution> solutions);

  std::size_t population() const { return population_; }
  std::int64_t generation() const { return generation_; }
  const Vector& mean() const { return mean_; }
  double sigma() const { return sigma_; }
  const SquareMatrix& covariance() const { return covariance_; }
  const Vector& sigma_path() const { return sigma_path_; }
  const Vector& covariance_path() const { return covariance_path_; }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.dimensions_, self.population_, self.generation_, self.mean_, self.sigma_,
            self.covariance_, self.sigma_path_, self.covariance_path_, self.decomposed_,
            self.vectors_, self.roots_);  // a second decomposition would round differently
    if constexpr (!std::is_const_v<Self>) {
      if (self.dimensions_ > 0 && self.population_ > 0) self.set_rates();
    }
  }

 private:
  void set_rates();
  // Eigenvectors and square roots of the eigenvalues; makes the covariance symmetric.
  void decompose();
  // Covariance^(-1/2) times a vector.
  Vector whiten(const Vector& y) const;
  void adapt_covariance(const std::vector<Vector>& steps, const Vector& mean_step,
                        const std::vector<Vector>& whitened, double path_length);

  std::uint64_t dimensions_ = 0, population_ = 0;
  std::int64_t generation_ = 0;
  Vector mean_;
  double sigma_ = 0;
  SquareMatrix covariance_;
  Vector sigma_path_, covariance_path_;

  // Constants of the dimension and the population.
  std::size_t parents_ = 0;
  Vector weights_;
  double parent_weight_ = 0;  // mu_eff
  double rank_one_rate_ = 0, rank_mu_rate_ = 0, path_rate_ = 0, sigma_rate_ = 0, damping_ = 0;
  double expected_norm_ = 0;

  bool decomposed_ = false;
  SquareMatrix vectors_;
  Vector roots_;
};

}  // namespace mobula::internal::tune
