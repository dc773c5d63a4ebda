// NumPy's order of floating-point operations: another order flips ties between trials.
// Thread: any (functions of their arguments).
#pragma once

#include <span>
#include <vector>

namespace mobula::internal::tune {

// np.sum of a contiguous array: pairwise, in blocks of 8 accumulators.
double pairwise_sum(std::span<const double> values);
// np.mean; NaN for no values.
double mean(std::span<const double> values);
// np.std: the population deviation.
double population_deviation(std::span<const double> values);
// np.median; the order of `values` changes. NaN for no values.
double median(std::vector<double>& values);
// The point between two neighbors at `part` in [0, 1), as np.percentile interpolates.
double interpolate(double lower, double upper, double part);
// np.round and Python's round: half to even.
double round_half_even(double value);
// Python's math.isclose with its default tolerance.
bool is_close(double a, double b);

}  // namespace mobula::internal::tune
