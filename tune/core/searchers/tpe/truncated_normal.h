// The truncated normal distribution in logarithms, with the formulas of Optuna 5.0
// (optuna/samplers/_tpe/_truncnorm.py).
// Thread: any (functions of their arguments).
#pragma once

#include <span>
#include <vector>

namespace mobula::internal::tune {

// Logarithm of the standard normal distribution function.
double log_normal_cdf(double x);
// Logarithm of the mass of the standard normal distribution between a and b.
double log_normal_mass(double a, double b);

struct TruncatedDraw {
  double quantile;  // in [0, 1)
  double a, b;      // bounds in units of the deviation
};
// The values at the quantiles of all draws. Newton's iteration ends when all of them have
// converged, as in Optuna.
std::vector<double> truncated_quantiles(std::span<const TruncatedDraw> draws);

}  // namespace mobula::internal::tune
