// Values of candidates for Bayesian optimization: the logarithm of the expected improvement, and
// hypervolumes for several objectives. All objectives are maximized.
// Thread: any (pure).
#pragma once

#include <span>
#include <vector>

namespace mobula::internal::tune {

// Logarithm of E[max(0, y - threshold)] for y ~ N(mean, variance), as in arXiv 2310.20708.
double log_expected_improvement(double mean, double variance, double threshold);
// Logarithm of P(y >= threshold).
double log_probability_above(double mean, double variance, double threshold);

using ObjectivePoint = std::vector<double>;

// The volume that `points` dominate above `reference`.
double hypervolume(std::vector<ObjectivePoint> points, std::span<const double> reference);
// The volume that `point` adds to `front`, a result of pareto_front().
double hypervolume_improvement(const ObjectivePoint& point,
                               const std::vector<ObjectivePoint>& front,
                               std::span<const double> reference);
// The points that no other point dominates, without duplicates.
std::vector<ObjectivePoint> pareto_front(std::vector<ObjectivePoint> points);

}  // namespace mobula::internal::tune
